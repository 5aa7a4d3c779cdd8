"""One partition's records, handled in their order.

    records ─▶ the next portion
                 ├─ creates and puts: commit the plan ─▶ the API ─▶ dead-letter topic ─▶ position = end
                 └─ cancels:                             the API ─▶ dead-letter topic ─▶ position = end
    the position is committed with the next plan; without one, as soon as nothing more waits

At most one portion of a partition is under way, so offsets are committed in order, and only behind what is durable.

# A plan that is found

The API recognises a token for 15 minutes. Within them, the plan's batch is simply sent again. A later one is refused;
then each id that the token gave is looked up: a schedule that is there was made, whatever became of it, and the others
are made under a new plan. One that is not there, but may have been deleted with its minute, is neither made nor lost:
it becomes a dead letter that says so.

A plan's records may be no more what they were: a log is compacted, or an election or a restore has cut it off and it
grew again. Then all creates of its range become such letters. While its records are missing the partition is not
paused, since they may be beyond `hold_records`; so that what waits stays bounded, a plan that the records so far
contradict, or that is larger than any that these settings make by far, is given up in parts, without its end.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar
from uuid import UUID

from minutehand.client._models import Fault
from minutehand.ingest.api import IngestApi, Refused, TokenRefused, Unreadable
from minutehand.ingest.counts import IngestCounts
from minutehand.ingest.plans import MAX_ITEMS, Plan, body_of, fingerprint_of, ids_under, items_of, left_of, next_portion
from minutehand.ingest.records import Cancel, Create, Poison, Reading, Record
from minutehand.ingest.waiting import until_decided
from scheduler_service.domain.ids import DAY_MS, due_of
from scheduler_service.domain.once import parse_once
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.randomness import Randomness

AT_ONCE = 16
"""Requests of one partition that look up or cancel at the same time."""
_SLACK_RECORDS = 2_000
_SLACK_BYTES = 64 << 20
T = TypeVar("T")
_log = get_logger("minutehand.ingest")


class PartitionLost(Exception):
    """Another member of the group has this partition, or will have it: nothing more may be done here."""


class Letters(Protocol):
    """Where records go that will never succeed."""

    async def send(self, record: Record, kind: str, faults: Sequence[Fault]) -> None:
        """Return when it is durable. Raises Later."""


class Commit(Protocol):
    """Stores an offset of the group, with metadata."""

    async def __call__(self, offset: int, metadata: str) -> None:
        """Return when it is stored. Raises Later, PartitionLost."""


class PartitionWorker:
    """From `offset` on, the first that is not handled. `found`: the plan that was stored with it. `read`: what a record
    asks for. `hold_records`, `hold_bytes`: of records that wait, above which the partition is to be paused."""

    def __init__(
        self,
        name: str,
        *,
        offset: int,
        found: Plan | None,
        read: Callable[[Record], Reading],
        api: IngestApi,
        letters: Letters,
        commit: Commit,
        clock: Clock,
        randomness: Randomness,
        counts: IngestCounts,
        batch_records: int = MAX_ITEMS,
        batch_bytes: int = 1 << 20,
        hold_records: int = 4000,
        hold_bytes: int = 8 << 20,
    ) -> None:
        self.name = name
        self.paused = False
        """Kept by the consumer, which pauses it."""
        self._position = self._committed = self._reached = offset
        self._plan = found if found is not None and found.end > offset else None
        self._read = read
        self._api = api
        self._letters = letters
        self._commit = commit
        self._clock = clock
        self._randomness = randomness
        self._counts = counts
        self._most_items = self._batch_records = batch_records
        self._batch_bytes = batch_bytes
        self._hold = hold_records, hold_bytes
        # A turn of the consumer may go beyond the hold, and the process that made a plan may have had a larger one.
        self._most = 4 * hold_records + _SLACK_RECORDS, 4 * hold_bytes + _SLACK_BYTES
        self._waiting: deque[tuple[Record, Reading]] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self.stopping = False

    @property
    def full(self) -> bool:
        """Whether more than enough records wait. Not while the records of a plan are missing that may still be what
        they were."""
        if self._plan is not None and self._reached < self._plan.end and not self._given_up(self._plan):
            return False
        return len(self._waiting) >= self._hold[0] or self._bytes >= self._hold[1]

    @property
    def has_room(self) -> bool:
        """Whether a paused partition shall go on."""
        return len(self._waiting) * 2 < self._hold[0] and self._bytes * 2 < self._hold[1]

    @property
    def position(self) -> int:
        """The first offset that is not handled."""
        return self._position

    @property
    def busy(self) -> bool:
        """Whether a commit may be asked for soon."""
        return bool(self._waiting) or self._plan is not None or self.uncommitted

    @property
    def uncommitted(self) -> bool:
        return self._position > self._committed

    def feed(self, records: Sequence[Record]) -> None:
        """Records that follow those fed before."""
        for record in records:
            self._waiting.append((record, self._read(record)))
            self._bytes += record.size
            self._counts.held_bytes += record.size
            self._reached = record.offset + 1
        self._news.set()

    def reached(self, offset: int) -> None:
        """There is no record before `offset` beyond those that were fed."""
        self._reached = max(self._reached, offset)
        self._news.set()

    def stop(self) -> None:
        """End after the portion under way."""
        self.stopping = True
        self._news.set()

    def abandon(self) -> None:
        """Forget the records that wait; call it when `run` has ended."""
        self._drop(len(self._waiting))

    def _given_up(self, plan: Plan) -> bool:
        """Whether the records that wait, a part of the plan's, can't be what they were."""
        if plan.broken or len(self._waiting) > self._most[0] or self._bytes > self._most[1]:
            return bool(self._waiting)
        return plan.contradicted_by(reading for _, reading in self._waiting)

    async def run(self) -> None:
        """Handle records until stopped. What was handled last may not be committed: see `position`."""
        while not self.stopping:
            if self._plan is not None and self._reached < self._plan.end:
                if self._given_up(self._plan):
                    await self._doubt(self._plan, self._reached)
                else:
                    await self._await_news()
            elif self._plan is not None:
                await self._repeat(self._plan)
            elif self._waiting:
                await self._go_on()
            elif self.uncommitted:
                await self._store(self._position, "")
            else:
                await self._await_news()

    async def _await_news(self) -> None:
        self._news.clear()
        await self._news.wait()

    async def _go_on(self) -> None:
        """Handle the next portion."""
        portion = next_portion(
            [reading for _, reading in self._waiting], most_items=self._most_items, most_bytes=self._batch_bytes
        )
        entries = [self._waiting[at] for at in range(portion.records)]
        if portion.cancels:
            await self._cancels(entries)
            return
        creates = [reading for _, reading in entries if isinstance(reading, Create)]
        end = entries[-1][0].offset + 1
        if not creates:
            await self._finish(entries, [], end)
            return
        plan, body = await self._planned(creates, range(len(creates)), end)
        await self._store(self._position, plan.text())
        await self._create(entries, creates, plan, body)

    async def _repeat(self, plan: Plan) -> None:
        """Handle the portion of a plan that was stored before."""
        self._counts.repeated_plans += 1
        entries = [entry for entry in self._waiting if entry[0].offset < plan.end]
        creates = [reading for _, reading in entries if isinstance(reading, Create)]
        body = body_of(items_of(creates, plan.among(creates), oldest=plan.oldest))
        if fingerprint_of(body) == plan.fingerprint and not any(isinstance(reading, Cancel) for _, reading in entries):
            await self._create(entries, creates, plan, body)
            return
        # Compaction has removed some, or this is another program's plan: their ids can't be found any more.
        await self._doubt(plan, plan.end)

    async def _doubt(self, plan: Plan, end: int) -> None:
        """Give up the creates of a plan, up to `end`; it may have more behind that."""
        entries = [entry for entry in self._waiting if entry[0].offset < end]
        _log.error("ingest-plan-broken", partition=self.name, offset=self._position, end=plan.end, records=len(entries))
        fault = Fault(pointer="", detail="may have been created: the records of its batch have changed since")
        results = [Refused("in-doubt", (fault,)) if isinstance(one, Create) else None for _, one in entries]
        # A cancel does no harm if it was done before.
        await self._cancel(entries, results)
        await self._finish(entries, results, end, as_results=True)
        if end < plan.end:
            # Stored, so that the next owner doubts the rest as well.
            self._plan = plan.break_at(plan.end)
            await self._store(self._position, self._plan.text())

    async def _planned(self, creates: Sequence[Create], positions: Sequence[int], end: int) -> tuple[Plan, bytes]:
        token, asked_at = await self._until_decided(self._api.token)
        terms = await self._until_decided(self._api.terms)
        oldest = asked_at - max(int(terms.accept_past_seconds * 1000) - 2 * MAX_ITEMS, 0)
        body = body_of(items_of(creates, positions, oldest=oldest))
        left = None if len(positions) == len(creates) else left_of(positions)
        return Plan(end, token, oldest, fingerprint_of(body), left), body

    async def _create(
        self, entries: Sequence[tuple[Record, Reading]], creates: Sequence[Create], plan: Plan, body: bytes
    ) -> None:
        """Make what the stored plan says, and move on."""
        self._plan = plan
        results: list[Refused | None] = [None] * len(creates)
        while positions := self._plan.among(creates):
            used = self._plan
            try:
                create = partial(self._api.create, used.token, body, len(positions))
                decided = await self._until_decided(create)
                for at, result in zip(positions, decided, strict=True):
                    results[at] = result
                break
            except Unreadable as error:
                if len(positions) == 1:
                    results[positions[0]] = Refused("invalid", error.faults)
                    break
                # Nothing was made, so the records may be divided otherwise.
                self._most_items = max(len(positions) // 2, 1)
                self._plan = None
                return
            except TokenRefused:
                left, lost = await self._not_made(creates, used)
                for at in lost:
                    results[at] = lost[at]
                self._plan, body = await self._planned(creates, left, used.end)
                await self._store(self._position, self._plan.text())
        self._most_items = min(self._most_items * 2, self._batch_records)
        await self._finish(entries, results, self._plan.end)

    async def _not_made(self, creates: Sequence[Create], plan: Plan) -> tuple[list[int], dict[int, Refused]]:
        """The positions of what a token that is refused has not made, and of what it may have made."""
        positions = plan.among(creates)
        _log.info("ingest-token-over", partition=self.name, offset=self._position, end=plan.end, creates=len(positions))
        items = items_of(creates, positions, oldest=plan.oldest)
        ids = ids_under(plan.token, self._api.client_id, body_of(items), items)
        now = parse_once((await self._until_decided(self._api.token))[0]).asked_at
        terms = await self._until_decided(partial(self._api.terms, within_seconds=0.0))
        oldest = now - terms.retention_days * DAY_MS
        left: list[int] = []
        lost: dict[int, Refused] = {}

        async def look(asked: tuple[int, UUID | None]) -> None:
            at, schedule_id = asked
            if schedule_id is None:
                left.append(at)
            elif await self._was_made(creates[at], schedule_id):
                return
            elif due_of(schedule_id) < oldest:
                detail = "may have been created, called and deleted since: it was asked for too long ago"
                lost[at] = Refused("in-doubt", (Fault(pointer="", detail=detail),))
            else:
                left.append(at)

        await self._several(look, list(zip(positions, ids, strict=True)))
        return sorted(left), lost

    async def _was_made(self, create: Create, schedule_id: UUID) -> bool:
        if await self._until_decided(lambda: self._api.exists(schedule_id)):
            return True
        if create.key is None:
            return False
        # One that is due earlier because of a `latest` has another due in its id, and all else is equal.
        key = create.key
        named = await self._until_decided(lambda: self._api.named(key))
        return named is not None and (named.int ^ schedule_id.int) & ((1 << 80) - 1) == 0

    async def _cancels(self, entries: Sequence[tuple[Record, Reading]]) -> None:
        results: list[Refused | None] = [None] * len(entries)
        await self._cancel(entries, results)
        await self._finish(entries, results, entries[-1][0].offset + 1, as_results=True)

    async def _cancel(self, entries: Sequence[tuple[Record, Reading]], results: list[Refused | None]) -> None:
        """Do all cancels among these; `results` gets the refusals, each at its record's place."""

        async def cancel(entry: tuple[int, Cancel]) -> None:
            at, asked = entry
            refused = await self._until_decided(lambda: self._api.cancel(key=asked.key, schedule_id=asked.schedule_id))
            if refused is None:
                self._counts.records["cancelled"] += 1
            elif asked.tombstone:
                self._counts.records["nothing-to-cancel"] += 1
            else:
                results[at] = refused

        asked = [(at, reading) for at, (_, reading) in enumerate(entries) if isinstance(reading, Cancel)]
        await self._several(cancel, asked)

    async def _finish(
        self,
        entries: Sequence[tuple[Record, Reading]],
        results: Sequence[Refused | None],
        end: int,
        *,
        as_results: bool = False,
    ) -> None:
        """Write the refused records of a portion, and move on behind it. `results`: of its creates in order, or one for
        each record."""
        of_creates = iter(results)
        letters: list[tuple[Record, Refused]] = []
        for at, (record, reading) in enumerate(entries):
            if isinstance(reading, Poison):
                faults = tuple(Fault(pointer=one.pointer, detail=one.detail) for one in reading.faults)
                letters.append((record, Refused("unreadable", faults)))
                continue
            refused = results[at] if as_results else next(of_creates)
            if refused is not None:
                letters.append((record, refused))
            elif isinstance(reading, Create):
                self._counts.records["created"] += 1
        await self._several(self._dead, letters)
        self._drop(len(entries))
        self._position, self._plan = max(self._position, end), None

    async def _dead(self, letter: tuple[Record, Refused]) -> None:
        record, refused = letter
        await self._until_decided(lambda: self._letters.send(record, refused.kind, refused.faults))
        self._counts.records["dead-letter"] += 1

    def _drop(self, count: int) -> None:
        for _ in range(count):
            record, _ = self._waiting.popleft()
            self._bytes -= record.size
            self._counts.held_bytes -= record.size

    async def _store(self, offset: int, metadata: str) -> None:
        await self._until_decided(lambda: self._commit(offset, metadata))
        self._committed = offset

    async def _several(self, work: Callable[[T], Awaitable[None]], over: Sequence[T]) -> None:
        """Work over all of it, some at a time. An exception ends the rest."""
        rest = iter(over)

        async def some() -> None:
            for one in rest:
                await work(one)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(over))):
                group.create_task(some())

    async def _until_decided(self, ask: Callable[[], Awaitable[T]]) -> T:
        return await until_decided(
            ask, name=self.name, clock=self._clock, randomness=self._randomness, counts=self._counts
        )
