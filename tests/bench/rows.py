"""Measures what the rows of a poller's minute cost Cassandra and their owner, by the way they are written and read.

python -m tests.bench.rows [--only NAMES] [--rounds N] [--rows N] [--pollers N]

One Cassandra, one process, one store. After warm-up rounds every way is measured once a round, in turn. CPU is in
seconds per 1,000 rows, Cassandra's without its compilers and collector; milliseconds are of one commit, and of the
heartbeats written at the same time.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

import uvloop

from cql.migrate import migrate
from cql.settings import StorageSettings
from cql.storage import Storage, open_storage
from membership.conditional import APPLIED
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from membership.ports import Heartbeat, NodeState
from scheduler_service.domain.ids import (
    ClientId,
    Minute,
    PollerId,
    UnixMillis,
    compose_schedule_id,
    minute_start,
)
from scheduler_service.domain.schedules import Definition, Outcome, OwnerCommit, RowWrite, State
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from tests.bench.cpu import cpu_seconds
from tests.bench.jvm import watched
from tests.support.cassandra import embedded_cassandra
from tests.support.receiver import percentile

FIRST_MINUTE = 29_900_000
INCARNATION = NodeIncarnation(NodeId("bench-1"), IncarnationNumber(1_763_836_800_000))
BEAT_SECONDS = 0.05
SIZES = (130, 250, 500, 1_000)
PAGE_ROWS = 1_000

Pollers = Sequence[Sequence[Definition]]
Way = Callable[["Bench", Pollers], Awaitable[None]]


@dataclass
class Found:
    """The figures of one way, one for each round."""

    cassandra: list[float] = field(default_factory=list)
    owner: list[float] = field(default_factory=list)
    advances_ms: list[float] = field(default_factory=list)
    beats_ms: list[float] = field(default_factory=list)


class Bench:
    """`advances_ms` and `beats_ms` belong to the way that is being measured."""

    def __init__(self, storage: Storage, pid: int, *, pollers: int, rows: int) -> None:
        self.storage = storage
        self.advances_ms: list[float] = []
        self.beats_ms: list[float] = []
        self._pid, self._pollers, self._rows = pid, pollers, rows
        self._minute = FIRST_MINUTE
        self._beat = 0

    def fresh(self) -> Pollers:
        """An unused minute of every poller."""
        self._minute += 1
        return [
            [_definition(self._minute, poller, row, self._rows) for row in range(self._rows)] for poller in self.pollers
        ]

    async def fill(self, pollers: Pollers, *, packs: bool) -> None:
        """Write all of its rows."""
        self.storage.schedules.packs = lambda: packs
        for rows in pollers:
            errors = await self.storage.schedules.insert_many(rows)
            assert not any(errors), errors

    @property
    def pollers(self) -> range:
        return range(self._pollers)

    async def measure(self, way: Way, found: Found, *, prepared: Way | None = None) -> None:
        pollers = self.fresh()
        if prepared is not None:
            await prepared(self, pollers)
        self.advances_ms, self.beats_ms = found.advances_ms, found.beats_ms
        beating = asyncio.ensure_future(self._beat_on())
        with self._accounting(found):
            await way(self, pollers)
        beating.cancel()
        self.advances_ms, self.beats_ms = [], []

    @contextmanager
    def _accounting(self, found: Found) -> Iterator[None]:
        thousands = self._pollers * self._rows / 1000
        with watched(self._pid) as threads:
            server, own = cpu_seconds(self._pid) or 0.0, time.process_time()
            yield
            own_used, used = time.process_time() - own, (cpu_seconds(self._pid) or 0.0) - server
        found.cassandra.append((used - sum(threads.used().values())) / thousands)
        found.owner.append(own_used / thousands)

    async def _beat_on(self) -> None:
        while True:
            self._beat += 1
            began = time.perf_counter()
            await self.storage.members.write_heartbeat(_heartbeat(self._beat))
            self.beats_ms.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(BEAT_SECONDS)


def advances(size: int, *, packs: bool) -> Way:
    """Four pollers at a time claim `size` rows, record them while they claim the next, and so on."""

    async def run(bench: Bench, pollers: Pollers) -> None:
        bench.storage.schedules.packs = lambda: packs
        places = asyncio.Semaphore(4)

        async def of_poller(rows: Sequence[Definition]) -> None:
            async with places:
                await _advance(bench, rows, size)

        await asyncio.gather(*map(of_poller, pollers))

    return run


async def _advance(bench: Bench, rows: Sequence[Definition], size: int) -> None:
    chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
    for number, (ended, claimed) in enumerate(zip([[], *chunks], [*chunks, []], strict=True)):
        advance = OwnerCommit(
            partition=rows[0].partition,
            epoch=1,
            expect_epoch=1 if number else None,
            version=number or None,
            edits=None,
            edits_known=True,
            in_flight=frozenset(row.schedule_id for row in claimed),
            writes=tuple(RowWrite(key=row.key, outcome=_delivered(row)) for row in ended),
        )
        began = time.perf_counter()
        assert await bench.storage.schedules.commit(advance) == APPLIED
        bench.advances_ms.append((time.perf_counter() - began) * 1000)


def creates(*, packs: bool, scattered: bool = False) -> Way:
    """Batches of one poller's rows; with `scattered`, the same number of requests with rows of as many pollers."""

    async def run(bench: Bench, pollers: Pollers) -> None:
        await bench.fill([*zip(*pollers, strict=True)] if scattered else pollers, packs=packs)

    return run


def then(*ways: Way) -> Way:
    """Run one after the other."""

    async def run(bench: Bench, pollers: Pollers) -> None:
        for way in ways:
            await way(bench, pollers)

    return run


def pages(method: str) -> Way:
    """Read one page of every poller."""

    async def run(bench: Bench, pollers: Pollers) -> None:
        for rows in pollers:
            page = await getattr(bench.storage.schedules, method)(rows[0].partition, limit=PAGE_ROWS)
            assert len(page.rows) == min(len(rows), PAGE_ROWS)

    return run


_FORMS = {"columns": False, "packed": True}
_NEW = {form: creates(packs=packs) for form, packs in _FORMS.items()}
_ENDED = {form: then(_NEW[form], advances(500, packs=packs)) for form, packs in _FORMS.items()}
WAYS: Mapping[str, tuple[Way, Way | None]] = {
    **{f"create in batches, {form}": (way, None) for form, way in _NEW.items()},
    **{f"create over pollers, {form}": (creates(packs=packs, scattered=True), None) for form, packs in _FORMS.items()},
    **{
        f"advances of {size}, {form}": (advances(size, packs=packs), _NEW[form])
        for size in SIZES
        for form, packs in _FORMS.items()
    },
    **{
        f"{what}, {form}": (pages(method), before[form])
        for what, method, before in (
            ("read new rows whole", "read_page", _NEW),
            ("read new rows to call them", "read_to_call", _NEW),
            ("read delivered rows whole", "read_page", _ENDED),
            ("sweep delivered rows", "sweep_page", _ENDED),
        )
        for form in _FORMS
    },
}


def main() -> None:
    arguments = _parser().parse_args()
    with embedded_cassandra(heap_mb=1024) as running:
        settings = StorageSettings(
            contact_points=running.contact_points,
            port=running.port,
            local_dc=running.datacenter,
            request_timeout_seconds=60,
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(settings, running.pid, arguments))


async def _run(settings: StorageSettings, pid: int, arguments: argparse.Namespace) -> None:
    await migrate(settings, clock=SystemClock(), randomness=SystemRandomness())
    storage = await open_storage(settings)
    try:
        bench = Bench(storage, pid, pollers=arguments.pollers, rows=arguments.rows)
        chosen = {
            name: ways for name, ways in WAYS.items() if name.startswith(tuple(arguments.only.split(",")) or ("",))
        }
        found = {name: Found() for name in chosen}
        for turn in range(-arguments.warm_up, arguments.rounds):
            for name, (way, prepared) in chosen.items():
                await bench.measure(way, found[name] if turn >= 0 else Found(), prepared=prepared)
    finally:
        await storage.close()
    print(f"{'CPU s per 1,000 rows':36} {'Cassandra':>9} {'owner':>7}   ms: advance p50   p99   heartbeat p50   p99")
    for name, one in found.items():
        took = "".join(_ms(ms, share) for ms in (one.advances_ms, one.beats_ms) for share in (0.5, 0.99))
        print(f"{name:36} {median(one.cassandra):9.4f} {median(one.owner):7.4f}  {took}")


def _ms(took: Sequence[float], share: float) -> str:
    value = percentile(sorted(took), share)
    return f"{'':>8}" if value is None else f"{value:8.1f}"


def _definition(minute: int, poller: int, row: int, rows: int) -> Definition:
    due = UnixMillis(minute_start(Minute(minute)) + row * 60_000 // rows)
    return Definition(
        client_id=ClientId("bench"),
        poller_id=PollerId(poller),
        due=due,
        schedule_id=compose_schedule_id(due=due, poller_id=poller, tail=row),
        method="POST",
        url="http://127.0.0.1:24567/hook",
        headers="[]",
        body=b"x" * 200,
        options="{}",
        created_at=UnixMillis(due - 60_000),
    )


def _delivered(row: Definition) -> Outcome:
    return Outcome(
        state=State.DELIVERED,
        attempts=1,
        first_attempt_at=UnixMillis(row.due + 3),
        finished_at=UnixMillis(row.due + 5),
        last_status=204,
        fired_by=str(INCARNATION),
        fired_epoch=7,
    )


def _heartbeat(beat: int) -> Heartbeat:
    return Heartbeat(
        incarnation=INCARNATION,
        beat=beat,
        state=NodeState.LIVE,
        address="127.0.0.1:1",
        wall_ms=beat,
        version="bench",
        low_watermark=None,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.rows", description="Measure rows, written and read.")
    parser.add_argument("--only", default="", metavar="NAMES", help="ways that begin with one of these, by comma")
    parser.add_argument("--rounds", type=int, default=4, help="in which every way is measured once")
    parser.add_argument("--warm-up", type=int, default=2, help="rounds before them")
    parser.add_argument("--pollers", type=int, default=16, help="partitions of a minute")
    parser.add_argument("--rows", type=int, default=1_000, help="of each")
    return parser


if __name__ == "__main__":
    main()
