"""One task of a bulk load: it turns its rows into schedules, chunk by chunk.

A few chunks are in progress at once, so that rows are judged while storage answers for others. Any failure fails the
task, and with it the run: no row is skipped. Valid rows may be written again, so a task may be repeated.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import msgspec

from cql.packed import PACKED_SINCE
from cql.settings import StorageSettings
from cql.storage import open_storage
from membership.ports import MemberStore, NodeState
from scheduler_service.domain.bulk_loads import BulkLoad
from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.clients import Client, ClientState
from scheduler_service.domain.errors import ClientSuspended, FieldError, Invalid
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.late_bound import LateBound
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.bulk_load import Item, JudgeItems, Loaded, LoadSchedules, LoadThrottle, Result
from scheduler_service.usecases.minute_loads import KeepMinuteLoads
from scheduler_service.usecases.named_destinations import ListedDestinations
from scheduler_service.usecases.schedule_request import CallbackPolicy, ScheduleRequest
from scheduler_service.usecases.secret_encryption import SecretSettings, secret_encryption
from spark.jobs.bulk_rows import Line, Reader
from spark.transforms.bulk import OTHER, SAME
from spark.writer import unhinted_writer

CHUNK_ROWS = 1000
CHUNK_BYTES = 4 << 20
CHUNKS_UNDER_WAY = 3

_decode = msgspec.json.Decoder(Line).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The input of every task of a run. `client` and its `destinations`: as of the start of the run, and read again by
    each task that writes. `rate`: rows a second of one task. `again`: not the load's first run. `storage` None: nothing
    is written."""

    storage: StorageSettings | None
    secrets: SecretSettings
    policy: NetworkPolicy
    bounds: ClientBounds
    client: Client
    destinations: Collection[str]
    load: BulkLoad
    again: bool
    flat: bool
    rate: float
    ahead_ms: int


class Reject(NamedTuple):
    """A rejected row. `id`: its position in the input."""

    id: int
    key: str
    reasons: list[str]


class Part(NamedTuple):
    """The result of one task: how many rows are `added`, `present`, `repeated`, `rejected`."""

    counts: dict[str, int]
    rejects: list[Reject]


def load_part(work: Work, rows: Iterable[bytes]) -> Iterator[Part]:
    """Yields one part. Raises MinutehandError where the task fails."""
    yield asyncio.run(_load(work, rows))


async def _load(work: Work, rows: Iterable[bytes]) -> Part:
    clock, randomness = SystemClock(), SystemRandomness()
    encryption = secret_encryption(work.secrets, randomness=randomness)

    def judging(destinations: Collection[str]) -> JudgeItems:
        policy = CallbackPolicy(
            network=work.policy,
            bounds=work.bounds,
            encryption=encryption,
            destinations=ListedDestinations(destinations),
        )
        return JudgeItems(policy=policy, clock=clock, ahead_ms=work.ahead_ms)

    if work.storage is None:
        return await _Task(work, judging(work.destinations), None, work.client)(rows)
    packs = LateBound[bool]("what all programs can read")
    storage = await open_storage(work.storage, packs=packs)
    try:
        packs.bind(await all_know(storage.members, PACKED_SINCE))
        found = await storage.clients.read_client(work.client.client_id)
        if found is None or found.state is not ClientState.ACTIVE:
            raise ClientSuspended(f"client {work.client.client_id!r} was suspended or deleted meanwhile")
        judge = judging(await storage.destinations.list_names(found.client_id))
        writer = unhinted_writer(storage, clock=clock, randomness=randomness)
        pace = LoadThrottle(clock=clock, rate=work.rate)
        load = LoadSchedules(judge=judge, writer=writer, schedules=storage.schedules, clock=clock, pace=pace)
        return await _Task(work, judge, load, work.bounds.in_force(found))(rows)
    finally:
        await KeepMinuteLoads(store=storage.minute_loads, clock=clock).finish()
        await storage.close()


async def all_know(members: MemberStore, number: int) -> bool:
    """Whether the programs of all nodes can read stored forms up to this number (`Heartbeat`). False where there are no
    nodes."""
    claiming = [one for one in await members.read_heartbeats() if one.state is not NodeState.LEFT]
    for incarnation in (one.incarnation for one in claiming if one.knows < number):
        record = await members.read_incarnation(incarnation)
        if record is not None and record.alive:
            return False
    return any(one.knows >= number for one in claiming)


class _Task:
    def __init__(self, work: Work, judge: JudgeItems, load: LoadSchedules | None, client: Client) -> None:
        self._work = work
        self._judge = judge
        self._load = load
        self._client = client
        self._reader = Reader(flat=work.flat, key=work.load.key_column)
        self._faults = partial(judge.faults, client)
        self._counts: Counter[str] = Counter()
        self._rejects: list[Reject] = []

    async def __call__(self, rows: Iterable[bytes]) -> Part:
        chunks = self._chunks(rows)
        # Collected, not raised at once: chunks in progress must end before the session is closed.
        ended = await asyncio.gather(*(self._take(chunks) for _ in range(CHUNKS_UNDER_WAY)), return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error
        return Part(dict(self._counts), self._rejects)

    async def _take(self, chunks: Generator[list[Line], None, None]) -> None:
        """Load chunks, one after the other, from the iterator that all of these coroutines share."""
        try:
            for lines in chunks:
                self._note(lines, await self._results([Item(line.key, self._request(line)) for line in lines]))
        finally:
            # After an error the others must begin no further chunk.
            chunks.close()

    async def _results(self, items: Sequence[Item]) -> Sequence[Result]:
        if self._load is not None:
            return await self._load(self._client, self._work.load, items, again=self._work.again)
        judged = self._judge(self._client, self._work.load, items)
        return [Invalid(one.faults) if one.faults else Loaded.ADDED for one in judged]

    def _chunks(self, rows: Iterable[bytes]) -> Generator[list[Line], None, None]:
        lines: list[Line] = []
        size = 0
        for row in rows:
            line = _decode(row)
            if line.place == SAME:
                self._counts["repeated"] += 1
                continue
            lines.append(line)
            size += len(row)
            if len(lines) >= CHUNK_ROWS or size >= CHUNK_BYTES:
                yield lines
                lines, size = [], 0
        if lines:
            yield lines

    def _request(self, line: Line) -> ScheduleRequest | Invalid:
        if line.broken is not None:
            return Invalid([FieldError("", line.broken)])
        request = self._reader.request(line.row, self._faults)
        faults = list(request.errors) if isinstance(request, Invalid) else []
        if not line.key.strip():
            faults.append(FieldError("", f"has no key: {self._work.load.key_column} is not given"))
        elif line.place == OTHER:
            faults.append(FieldError("", "its key is that of an earlier row, which asks for something else"))
        return Invalid(faults) if faults else request

    def _note(self, lines: Sequence[Line], results: Sequence[Result]) -> None:
        for line, result in zip(lines, results, strict=True):
            if isinstance(result, Loaded):
                self._counts[result.value] += 1
                continue
            errors = result.errors if isinstance(result, Invalid) else [FieldError("", str(result))]
            self._counts["rejected"] += 1
            self._rejects.append(Reject(line.id, line.key, self._reader.reasons(errors)))
