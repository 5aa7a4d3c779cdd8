"""The soak, of any length: a steady load, every node restarted on the way, then the books.

`tests.bench.verdict` judges the result, and the bench's command fails if that finds anything.
"""

import time
from contextlib import ExitStack
from datetime import UTC, datetime

from tests.bench.cluster import start_nodes
from tests.bench.cpu import memory_mb
from tests.bench.phases import MINUTE_MS, Bench, Figures, now_ms, sleep_until
from tests.bench.verdict import Memory, faults, growth

CLIENT = "soak"
SPARE = 1.5
"""The guaranteed rate as a multiple of the calls', so that no call is beyond it."""
SLICE_SECONDS = 10.0
AHEAD_SECONDS = 90.0
"""How far ahead creates run: no hint is needed for them, and a restart does not delay them."""
SETTLED_SECONDS = 120.0
"""The time from the last due until its minute must be settled."""
RESTART_AT = (0.45, 0.5, 0.55)
"""Parts of the time at which the nodes are restarted, one after the other."""
STOP_SECONDS = 60.0
"""A node that has not ended by then is killed, which the verdict reports."""


def soak(bench: Bench, *, rate: int, seconds: float) -> Figures:
    """`rate` calls a second for `seconds`, over three nodes."""
    deployment, receiver = bench.deployment, bench.deployment.receiver
    quota = round(rate * 60 / 1000 * SPARE)
    bench.keys[CLIENT] = deployment.register(CLIENT, poller_quota=quota)
    options: dict[str, object] = {"client": CLIENT, "key": bench.keys[CLIENT], "connections": 2, "batch": 1000}
    with ExitStack() as parts:
        names = list(start_nodes(bench, parts, "soak"))
        receiver.forget()
        start = -(-(now_ms() + round(AHEAD_SECONDS * 1000)) // MINUTE_MS) * MINUTE_MS
        end = start + round(seconds * 1000)
        run = _Run(bench, names, start, end)
        asked = created = 0
        ahead = AHEAD_SECONDS
        for due in range(start, end, round(SLICE_SECONDS * 1000)):
            sleep_until(due - round(AHEAD_SECONDS * 1000))
            until = min(due + round(SLICE_SECONDS * 1000), end)
            count = round(rate * (until - due) / 1000)
            asked += count
            created += bench.load(count=count, due_from=due, due_to=until, **options)["created"]
            ahead = min(ahead, (due - now_ms()) / 1000)
            run.turn()
        while now_ms() < end:
            time.sleep(SLICE_SECONDS)
            run.turn()
        report = bench.await_arrivals(created, end)
        books = _books(bench, start, end)
        run.turn()
    figures: Figures = {
        "asked": asked,
        "created": created,
        "created_ahead_seconds": round(ahead, 1),
        "seconds": seconds,
        "lost": created - report["unique"],
        "repeated": report["repeated"],
        "early": report["early"],
        "lateness_ms": report["lateness_ms"],
        "latest_ms": report["latest_ms"],
        "books": books,
        "restarts": run.restarts,
        "died": sorted(run.died),
        "memory_mb": {name: growth(run.memory, name) for name in sorted({*run.memory[0][1], *names})},
        "memory_samples_mb": [
            {"part": round(part, 4), **{name: round(size, 1) for name, size in sizes.items()}}
            for part, sizes in run.memory
        ],
    }
    return {**figures, "faults": faults(figures, nodes=names)}


class _Run:
    """Runs the soak and its measurements. `died`: processes that ended without having been told to."""

    def __init__(self, bench: Bench, names: list[str], start: int, end: int) -> None:
        self._bench = bench
        self._start = start
        self._span = end - start
        self._planned = list(zip(RESTART_AT, names, strict=True))
        self.restarts: list[Figures] = []
        self.died: set[str] = set()
        self.memory: Memory = []

    def _measured(self) -> dict[str, int]:
        """Cassandra, every process of the API, and the nodes that run now."""
        programs = self._bench.deployment.programs
        fixed = {name: pid for name, pid in self._bench.pids.items() if name.startswith(("api", "cassandra"))}
        return {**fixed, **{name: programs[name].pid for name in programs if name != "api"}}

    def turn(self) -> None:
        """Do what is due at this part of the time."""
        for name, program in self._bench.deployment.programs.items():
            if program.exit_code() is not None:
                self.died.add(name)
        if self._planned and (now_ms() - self._start) / self._span >= self._planned[0][0]:
            self._restart(self._planned.pop(0)[1])
        sizes = {name: memory_mb(pid) for name, pid in self._measured().items()}
        self.died |= {name for name, size in sizes.items() if size is None}
        present = {name: size for name, size in sizes.items() if size is not None}
        self.memory.append(((now_ms() - self._start) / self._span, present))

    def _restart(self, name: str) -> None:
        program, began = self._bench.deployment.programs[name], time.monotonic()
        program.stop(STOP_SECONDS)
        stopped = time.monotonic()
        self._bench.deployment.start_node(name)
        self.restarts.append(
            {
                "name": name,
                "exit_code": program.exit_code(),
                "stopped_seconds": round(stopped - began, 1),
                "ready_seconds": round(time.monotonic() - stopped, 1),
            }
        )


def _books(bench: Bench, start: int, end: int) -> dict[str, int]:
    """The client's balance over the run, once nothing is open, or after SETTLED_SECONDS."""
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
