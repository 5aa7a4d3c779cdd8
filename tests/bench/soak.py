"""The phase that takes as long as one likes: a steady load, every poller restarted on the way, then the books."""

import time
from contextlib import ExitStack
from datetime import UTC, datetime

from tests.bench.cluster import start_nodes
from tests.bench.cpu import memory_mb
from tests.bench.phases import MINUTE_MS, Bench, Figures, now_ms, sleep_until

CLIENT = "soak"
SPARE = 1.5
"""So many times what is called is guaranteed, so that nothing is beyond it."""
SLICE_SECONDS = 10.0
AHEAD_SECONDS = 90.0
"""Creates run so far ahead: nobody is told of them, and a restart does not hold them up."""
SETTLED_SECONDS = 120.0
"""From the last due until its minute must be settled."""
RESTART_AT = (0.45, 0.5, 0.55)
"""Parts of the time at which one poller after the other is restarted."""
REST = ((0.25, 0.45), (0.7, 1.0))
"""Parts of the time in which memory should not grow: before the restarts, and when their starts are long over."""


def soak(bench: Bench, *, rate: int, seconds: float) -> Figures:
    """`rate` calls a second for `seconds`, over three pollers."""
    deployment, receiver = bench.deployment, bench.deployment.receiver
    quota = round(rate * 60 / 1000 * SPARE)
    bench.keys[CLIENT] = deployment.register(CLIENT, poller_quota=quota)
    options: dict[str, object] = {"client": CLIENT, "key": bench.keys[CLIENT], "connections": 2, "batch": 1000}
    with ExitStack() as parts:
        names = list(start_nodes(bench, parts, "soak"))
        receiver.forget()
        start = -(-(now_ms() + round(AHEAD_SECONDS * 1000)) // MINUTE_MS) * MINUTE_MS
        end = start + round(seconds * 1000)
        created, restarts = 0, list(zip(RESTART_AT, names, strict=True))
        memory: list[tuple[float, dict[str, float]]] = []
        for due in range(start, end, round(SLICE_SECONDS * 1000)):
            sleep_until(due - round(AHEAD_SECONDS * 1000))
            until = min(due + round(SLICE_SECONDS * 1000), end)
            count = round(rate * (until - due) / 1000)
            created += bench.load(count=count, due_from=due, due_to=until, **options)["created"]
            _turn(bench, (now_ms() - start) / (end - start), restarts, memory)
        while now_ms() < end:
            time.sleep(SLICE_SECONDS)
            _turn(bench, (now_ms() - start) / (end - start), restarts, memory)
        report = bench.await_arrivals(created, end)
        books = _books(bench, start, end)
    return {
        "created": created,
        "seconds": seconds,
        "lost": created - report["unique"],
        "repeated": report["repeated"],
        "early": report["early"],
        "lateness_ms": report["lateness_ms"],
        "books": books,
        "balanced": books["accepted"] == books["delivered"] == created,
        "memory_mb": {
            name: [round(_mean(memory, name, begin, finish)) for begin, finish in _edges()] for name in memory[-1][1]
        },
    }


def _turn(
    bench: Bench, part: float, restarts: list[tuple[float, str]], memory: list[tuple[float, dict[str, float]]]
) -> None:
    """What is to be done and measured at this part of the time."""
    if restarts and part >= restarts[0][0]:
        bench.deployment.start_poller(restarts.pop(0)[1])
    pids = {name: program.pid for name, program in bench.deployment.programs.items()}
    pids["cassandra"] = bench.pids["cassandra"]
    memory.append((part, {name: memory_mb(pid) or 0.0 for name, pid in pids.items()}))


def _edges() -> list[tuple[float, float]]:
    """The first and the last quarter of each time of rest."""
    return [(begin + (finish - begin) * at / 4, begin + (finish - begin) * (at + 1) / 4)
            for begin, finish in REST for at in (0, 3)]  # fmt: skip


def _mean(memory: list[tuple[float, dict[str, float]]], name: str, begin: float, finish: float) -> float:
    found = [sizes[name] for part, sizes in memory if begin <= part <= finish]
    return sum(found) / len(found) if found else 0.0


def _books(bench: Bench, start: int, end: int) -> dict[str, int]:
    """The client's balance over the time, once nothing is open, or after SETTLED_SECONDS."""
    deadline = time.monotonic() + SETTLED_SECONDS
    first, last = (datetime.fromtimestamp(at / 1000, UTC) for at in (start, -(-end // MINUTE_MS) * MINUTE_MS))
    with bench.deployment.client(CLIENT, bench.keys[CLIENT]) as client:
        while True:
            minutes = list(client.balance(start=first, end=last))
            names = ("accepted", "delivered", "failed", "cancelled", "skipped", "open")
            books = {name: sum(getattr(one, name) for one in minutes) for name in names}
            if not books["open"] or time.monotonic() > deadline:
                return books
            time.sleep(2.0)
