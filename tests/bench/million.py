"""The phase about very many calls in one minute: how many are made in two minutes, and the memory that takes."""

import time

from tests.bench.cpu import memory_mb
from tests.bench.phases import HOUR_MS, MINUTE_MS, Bench, Figures, now_ms, sleep_until

CLIENT = "crowd"
QUOTA = 256
PROBE = 50_000
"""Creates that show how long the creation of all will take."""
SECONDS = 120.0


def million(bench: Bench, *, count: int) -> Figures:
    """`count` calls due within one minute and created before it; measures the `SECONDS` from its start."""
    receiver = bench.deployment.receiver
    receiver.forget()
    bench.keys[CLIENT] = bench.deployment.register(CLIENT, poller_quota=QUOTA)
    options: dict[str, object] = {"client": CLIENT, "key": bench.keys[CLIENT]}
    later = now_ms() + HOUR_MS
    rate = bench.load(connections=8, batch=1000, count=PROBE, due_from=later, due_to=later + HOUR_MS, **options)
    lead_ms = round(count / rate["created_per_second"] * 1250) + 5_000
    start = -(-(now_ms() + lead_ms) // MINUTE_MS) * MINUTE_MS
    created = bench.load(connections=8, batch=1000, count=count, due_from=start, due_to=start + MINUTE_MS, **options)
    in_time = now_ms() < start
    sleep_until(start)
    bench.cpu = {}
    nodes = {name: pid for name, pid in bench.pids.items() if name.startswith("bench-")}
    memory: dict[str, list[float]] = {name: [] for name in nodes}
    with bench.accounting():
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            time.sleep(0.5)
            for name, pid in nodes.items():
                memory[name].append(memory_mb(pid) or 0.0)
        called = receiver.count()
    bench.sustained = round(called / SECONDS, 1)
    report = receiver.report()
    # Otherwise the rest of them would be called during another phase.
    with bench.deployment.admin() as api:
        api.clients.suspend(CLIENT)
    return {
        "created": created["created"],
        "created_in_time": in_time,
        "fired_per_second": bench.sustained,
        "lateness_ms": report["lateness_ms"],
        "early": report["early"],
        "repeated": report["repeated"],
        "memory_mb": round(max(max(values) for values in memory.values())),
        "memory_mb_after_10_s": round(max(values[20] for values in memory.values())),
        "cpu_seconds_per_1000": bench.cpu_per_1000(called),
    }
