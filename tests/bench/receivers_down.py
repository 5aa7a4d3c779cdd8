"""The phase about a receiver that is down for a while: what its client's retries cost in total, and cost another
client.
"""

import time

from minutehand.local.machine import free_ports
from tests.bench.cpu import cpu_seconds
from tests.bench.neighbours import QUIET, create, quiet_receiver
from tests.bench.phases import Bench, Figures, now_ms, sleep_until
from tests.support.processes import Receiver

DOWN = "down"
DOWN_QUOTA = 4
"""A small quota, so that many rows share a partition."""
QUIET_RATE = 20
LEAD_SECONDS = 10.0
MOST_CALLS = 100_000
A_MINUTE_MS = 60_000
BACK_PATIENCE_SECONDS = 60.0
"""How long the phase waits after the end of the longest pause that retries and breaker may have chosen."""


def receivers_down(bench: Bench, *, calls: int, seconds: float) -> Figures:
    """So many calls of one client are due within a minute (within a third of `seconds` where that is shorter), and
    their receiver refuses connections for so many seconds. Another client is called throughout.
    """
    if not 0 < calls <= MOST_CALLS:
        raise ValueError(f"receivers_down: 1 to {MOST_CALLS:,} calls")
    (port,) = free_ports(1)
    within_ms = min(A_MINUTE_MS, round(seconds * 1000 / 3))
    with quiet_receiver(bench) as quiet:
        start = now_ms() + round(LEAD_SECONDS * 1000) + calls // 4
        quiet_end = start + round(seconds * 2000)
        quiet_calls = create(bench, QUIET, round(QUIET_RATE * seconds * 2), start, quiet_end, quiet.url)
        url = f"http://127.0.0.1:{port}/callbacks"
        created = create(bench, DOWN, calls, start, start + within_ms, url, quota=DOWN_QUOTA)
        late_creates = now_ms() > start
        sleep_until(start - 500)
        with bench.accounting():
            down = _cores_until(bench, start + round(seconds * 1000))
            back = Receiver(bench.directory / DOWN, port=port)
            try:
                back.await_count(created, seconds=seconds + BACK_PATIENCE_SECONDS)
                sleep_until(quiet_end)
                seen = back.count()
            finally:
                back.program.stop(1.0)
        quiet.await_count(quiet_calls, seconds=60)
        report = quiet.report()
    return {
        "calls": created,
        "created_in_time": not late_creates,
        "down_seconds": seconds,
        "lateness_ms": report["lateness_ms"],
        "early": report["early"],
        "lost": quiet_calls - report["unique"] + created - seen,
        "repeated": report["repeated"],
        "cores_while_down": down,
        "cpu_seconds_per_1000": bench.cpu_per_1000(created),
    }


def _cores_until(bench: Bench, instant_ms: int) -> dict[str, float]:
    """The average cores that each process used from now until then."""
    began, before = time.monotonic(), _used(bench)
    sleep_until(instant_ms)
    passed = max(time.monotonic() - began, 0.001)
    return {name: round((used - before[name]) / passed, 3) for name, used in _used(bench).items()}


def _used(bench: Bench) -> dict[str, float]:
    return {name: cpu_seconds(pid) or 0.0 for name, pid in bench.pids.items()}
