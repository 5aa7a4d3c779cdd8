"""The phase about cost as work grows: CPU seconds per 1,000 creates and per 1,000 calls, one thing larger at a time.

    pollers    1, 8, 64, 512 of one client; 4,096 of four, who have 1,024 each
    clients    1 to 10,000 with a poller each, in turn
    hosts      1 to 1,000 addresses of one receiver, in turn
    bytes      100 to 65,536 in a body
    receiver   plain, TLS

The defaults are one client of 64 pollers, one host, 200 bytes, plain. Creates are one a request, due in an hour, and
every client has made one before, so that the cost of its first one is not measured. Calls are due within two seconds,
more than the node can send in them, fewer where bodies are long. A point that lies on several axes is measured for
each; the differences between those figures are noise.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from minutehand.client import AsyncMinutehand, ClientSettings
from tests.bench import phases
from tests.bench.phases import HOUR_MS, Bench, Figures, now_ms
from tests.support.certificates import Authority
from tests.support.processes import Receiver, Tables

POLLERS = 64
POLLERS_A_CLIENT = 1_024
BODY_BYTES = 200
MOST_BYTES = 100 * 1024 * 1024
"""The bound on all bodies of a point together."""
BATCH_BYTES = 2 * 1024 * 1024
REGISTERED_AT_ONCE = 16
OVER_SECONDS = 2.0
CREATED_A_SECOND = {"batched": 6_000, "single": 600}
"""The least rates of creates; schedules are created before their time."""
MOST_HOSTS = 1_000
PATIENCE_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """`at` is its place on its axis; for the receiver, 0 is plain."""

    axis: str
    at: int
    clients: int = 1
    pollers: int = POLLERS
    """Pollers of each client."""
    hosts: int = 1
    body_bytes: int = BODY_BYTES
    tls: bool = False

    @property
    def name(self) -> str:
        if self.axis == "receiver":
            return "TLS" if self.tls else "plain"
        return f"{self.at:,}"


def points(count: int | None = None) -> list[Point]:
    """All points, or so many of each axis. Those that leave much data come last."""
    axes = [
        [Point(axis="bytes", at=size, body_bytes=size) for size in (100, 1_000, 8_192, 65_536)],
        [Point(axis="receiver", at=int(tls), tls=tls) for tls in (False, True)],
        [Point(axis="hosts", at=hosts, hosts=hosts) for hosts in (1, 10, 100, MOST_HOSTS)],
        [
            Point(
                axis="pollers",
                at=pollers,
                clients=-(-pollers // POLLERS_A_CLIENT),
                pollers=min(pollers, POLLERS_A_CLIENT),
            )
            for pollers in (1, 8, 64, 512, 4_096)
        ],
        [Point(axis="clients", at=clients, clients=clients, pollers=1) for clients in (1, 10, 100, 1_000, 10_000)],
    ]
    return [point for axis in axes for point in axis[:count]]


def tables(authority: Authority) -> Tables:
    """The settings that this phase needs of the deployment."""
    return {"delivery": {"ca_file": str(authority.bundle)}}


def scale(bench: Bench, *, calls: int, seconds: float, count: int | None) -> Figures:
    """`calls` and `seconds` of creates at each point; `count` points of each axis, None: all."""
    assert bench.authority is not None
    wanted = points(count)
    hosts = max(point.hosts for point in wanted)
    tls = bench.authority.issue(bench.directory / "scale", address="127.0.0.1")
    receiver = Receiver(bench.directory / "scale", hosts=0 if hosts == 1 else hosts, tls=tls)
    own = Bench(
        deployment=bench.deployment,
        key=bench.key,
        directory=bench.directory,
        pids={**bench.pids, "receiver": receiver.program.pid},
        other_receiver=receiver,
    )
    try:
        return {"points": list(_measured(own, wanted, calls=calls, seconds=seconds))}
    finally:
        receiver.program.stop(1.0)


def _measured(bench: Bench, wanted: list[Point], *, calls: int, seconds: float) -> Iterator[Figures]:
    registered: dict[tuple[int, int], tuple[list[tuple[str, str]], float]] = {}
    for number, point in enumerate(wanted):
        names = (point.clients, point.pollers)
        if names not in registered:
            registered[names] = _register(bench, f"scale-{number}", point)
        clients, took = registered[names]
        print(f"  {point.axis}: {point.name}", file=sys.stderr, flush=True)
        load = {**_targets(bench, clients, point), "body_bytes": point.body_bytes}
        due = now_ms() + HOUR_MS
        creating: Figures = {"connections": 64, "due_from": due, "due_to": due + HOUR_MS, **load}
        # For a client's first request the API looks up its key and its settings.
        bench.load(count=point.clients, **creating)
        with bench.accounting():
            created = bench.load(seconds=seconds, **creating)
        creates = {
            "created_per_second": created["created_per_second"],
            "cpu_seconds_per_1000": bench.cpu_per_1000(created["created"]),
        }
        asked = calls_of(point, calls)
        batch = batch_of(point, asked)
        lead_seconds = 8.0 + asked / CREATED_A_SECOND["batched" if batch >= 100 else "single"]
        called = phases.calls(
            bench,
            count=asked,
            over_seconds=OVER_SECONDS,
            lead_seconds=lead_seconds,
            load={**load, "batch": batch, "connections": 4 if batch >= 100 else 64},
        )
        shown = ("created_in_time", "fired_per_second", "lost", "repeated", "early", "cpu_seconds_per_1000")
        yield {
            "axis": point.axis,
            "at": point.at,
            "name": point.name,
            "registered_seconds": round(took, 1),
            "creates": creates,
            "calls": {"count": asked, **{name: called[name] for name in shown}},
        }


def calls_of(point: Point, calls: int) -> int:
    """Fewer calls if bodies are long, and at least as many as there are clients and hosts."""
    return max(min(calls, MOST_BYTES // point.body_bytes), point.clients, point.hosts)


def batch_of(point: Point, calls: int) -> int:
    """Schedules per request: every client gets its part, and no request exceeds the limit."""
    return max(1, min(1_000, calls // point.clients, BATCH_BYTES // point.body_bytes))


def _targets(bench: Bench, clients: list[tuple[str, str]], point: Point) -> Figures:
    receiver = bench.receiver
    urls = (
        receiver.host_urls[: point.hosts] if point.hosts > 1 else [receiver.secure_url if point.tls else receiver.url]
    )
    file = bench.directory / "targets.json"
    file.write_text(json.dumps({"clients": clients, "receivers": urls}), encoding="utf-8")
    return {"targets": file}


def _register(bench: Bench, prefix: str, point: Point) -> tuple[list[tuple[str, str]], float]:
    """Ids and keys of so many new clients, once their pollers are owned, and the seconds that took."""
    began, before = time.monotonic(), _held(bench)
    clients = asyncio.run(_registered(bench, prefix, point))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while _held(bench) < before + point.clients * point.pollers:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the pollers of {point} are not owned after {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.5)
    return clients, time.monotonic() - began


async def _registered(bench: Bench, prefix: str, point: Point) -> list[tuple[str, str]]:
    names = iter([f"{prefix}-{number}" for number in range(point.clients)])
    made: list[tuple[str, str]] = []
    deployment = bench.deployment
    async with AsyncMinutehand(deployment.api_url, deployment.admin_key, timeout_seconds=60) as api:

        async def register() -> None:
            settings: ClientSettings = {"create_rate_per_second": 1_000_000}
            for name in names:
                await api.clients.register(name, poller_quota=point.pollers, settings=settings)
                made.append((name, (await api.client(name).keys.create()).key))

        await asyncio.gather(*(register() for _ in range(REGISTERED_AT_ONCE)))
    return made


def _held(bench: Bench) -> int:
    nodes = [name for name in bench.pids if name.startswith("bench-")]
    return sum(round(bench.deployment.metrics(name)["minutehand_leases_held"]) for name in nodes)
