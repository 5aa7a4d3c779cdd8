"""The phases about isolation: how one client's load, or its receivers, affect another client's lateness."""

from collections.abc import Iterator
from contextlib import contextmanager

from minutehand.local.machine import free_ports
from minutehand.processes.programs import Program
from tests.bench.phases import QUOTA, Bench, Figures, now_ms, sleep_until
from tests.support.processes import Receiver

QUIET, LOUD, UNLUCKY = "quiet", "loud", "unlucky"
QUIET_RATE = 50
SECONDS = 15.0
LEAD_SECONDS = 15.0
FEW_LEAD_SECONDS = 8.0
"""The lead of phases that create little."""
MISTREATED_SECONDS = FEW_LEAD_SECONDS + SECONDS + 15.0
"""More than that phase takes."""
BAD_WAYS = ("hang", "reset", "slow", "flood")


def crowded(bench: Bench, *, calls: int) -> Figures:
    """Another client has so many calls due at one second."""
    with quiet_receiver(bench) as receiver:
        bench.deployment.receiver.forget()
        start = _start(LEAD_SECONDS)
        created = _create_quiet(bench, receiver, start)
        create(bench, LOUD, calls, start + 5_000, start + 6_000, bench.deployment.receiver.url)
        figures = _report(receiver, created, start)
        bench.await_arrivals(calls, now_ms())
        return figures


def mistreated(bench: Bench, *, rate: int) -> Figures:
    """Another client calls receivers that hang, reset, answer slowly and flood, at this rate for each kind."""
    with _bad_receiver(bench) as url, quiet_receiver(bench) as receiver:
        start = _start(FEW_LEAD_SECONDS)
        created = _create_quiet(bench, receiver, start)
        for way in BAD_WAYS:
            create(bench, UNLUCKY, round(rate * SECONDS), start, _end(start), f"{url}/{way}")
        figures = _report(receiver, created, start)
    # None of it may be called again during another phase.
    with bench.deployment.admin() as api:
        api.clients.suspend(UNLUCKY)
    return figures


@contextmanager
def quiet_receiver(bench: Bench) -> Iterator[Receiver]:
    receiver = Receiver(bench.directory / QUIET)
    try:
        yield receiver
    finally:
        receiver.program.stop(1.0)


@contextmanager
def _bad_receiver(bench: Bench) -> Iterator[str]:
    (port,) = free_ports(1)
    program = Program(
        "bad receiver",
        ["--port", str(port)],
        log_file=bench.directory / "bad-receiver.log",
        module="tests.support.bad_receiver",
    )
    try:
        program.await_ready(f"http://127.0.0.1:{port}/livez")
        yield f"http://127.0.0.1:{port}"
    finally:
        program.stop(0.0)


def _start(lead_seconds: float) -> int:
    return now_ms() + round(lead_seconds * 1000)


def _end(start: int) -> int:
    return start + round(SECONDS * 1000)


def _create_quiet(bench: Bench, receiver: Receiver, start: int) -> int:
    return create(bench, QUIET, round(QUIET_RATE * SECONDS), start, _end(start), receiver.url)


def create(bench: Bench, client: str, count: int, start: int, end: int, url: str, *, quota: int = QUOTA) -> int:
    """Create so many calls of a client, registering it if need be; returns how many were created."""
    if client not in bench.keys:
        bench.keys[client] = bench.deployment.register(client, poller_quota=quota)
    options = {"client": client, "key": bench.keys[client], "receiver": url}
    return int(bench.load(connections=2, batch=1000, count=count, due_from=start, due_to=end, **options)["created"])


def _report(receiver: Receiver, created: int, start: int) -> Figures:
    """The report about the quiet client's calls."""
    sleep_until(_end(start))
    receiver.await_count(created, seconds=60)
    report = receiver.report()
    return {
        "created": created,
        "lateness_ms": report["lateness_ms"],
        "early": report["early"],
        "lost": created - report["unique"],
        "repeated": report["repeated"],
    }
