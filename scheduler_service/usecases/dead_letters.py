"""Dead letters: schedules that failed for good, listed, and redriven a window at a time."""

import heapq
from dataclasses import dataclass
from uuid import UUID

from scheduler_service.domain.books import DeadLetter, LetterKey
from scheduler_service.domain.clients import Client
from scheduler_service.domain.ids import (
    HOUR_MS,
    Hour,
    Partition,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
    key_of,
    partition_of,
)
from scheduler_service.domain.ports import DeadLetterStore, ScheduleStore
from scheduler_service.domain.schedules import Row
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.redeliver import Redelivering, RedeliverResult, RedeliverSchedule

MAX_READS = 1_100
"""Partitions (poller and hour) that one call reads at most; it always reads one whole hour."""

_LAST_ID = ScheduleId(UUID(int=(1 << 128) - 1))


@dataclass(frozen=True, slots=True)
class Redriven:
    """The number of schedules called again, and of letters skipped. `next`: the key to continue after; None: the window
    is exhausted."""

    redelivered: int
    passed_over: int
    next: LetterKey | None


@dataclass(frozen=True, slots=True)
class LetterShown:
    """A letter, and the present row of its schedule, without content. `row` None: retention has deleted it."""

    letter: DeadLetter
    row: Row | None


@dataclass(frozen=True, slots=True)
class LetterPage:
    """`next`: the key to continue after; None: the window is exhausted."""

    items: list[LetterShown]
    next: LetterKey | None


class ListDeadLetters:
    """List: schedules that failed for good, by the instant of failure, each with its present state.

    Letters are filed by hour and poller. The pollers of an hour are read side by side and merged; all share one order,
    (failed_at, schedule_id), so one key says where every poller continues. One call reads a bounded number of
    partitions, so it may answer fewer letters than asked for, even none, and still return a key to continue after.

    A schedule that failed for good again after a redelivery has a letter for each time.

    Reads dead letters of clients that the caller has looked up.
    """

    def __init__(self, *, letters: DeadLetterStore, schedules: ScheduleStore) -> None:
        self._letters = letters
        self._schedules = schedules

    async def page(
        self, client: Client, *, start: UnixMillis, end: UnixMillis, after: LetterKey | None, limit: int
    ) -> LetterPage:
        """Up to `limit` letters after `after` (None: from the start) with start <= failed_at < end. Raises
        StoreUnavailable."""
        letters, following = await self.letters(client, start=start, end=end, after=after, limit=limit)
        rows = await self._rows(client, letters)
        return LetterPage([LetterShown(letter, rows.get(letter.schedule_id)) for letter in letters], following)

    async def letters(
        self, client: Client, *, start: UnixMillis, end: UnixMillis, after: LetterKey | None, limit: int
    ) -> tuple[list[DeadLetter], LetterKey | None]:
        """The same without their schedules, and the key to continue after."""
        behind = LetterKey(UnixMillis(start - 1), _LAST_ID) if after is None else after
        found: list[DeadLetter] = []
        pollers, reads = client.poller_ceiling, 0
        whole_instant = behind.schedule_id == _LAST_ID
        for hour in range((behind.failed_at + whole_instant) // HOUR_MS, (end - 1) // HOUR_MS + 1):
            if reads and reads + pollers > MAX_READS:
                # The last key of the previous hour: the next call begins with this one.
                return found, LetterKey(UnixMillis(hour * HOUR_MS - 1), _LAST_ID)
            reads += pollers
            for letter in await self._hour(client, Hour(hour), behind, limit - len(found) + 1):
                if letter.failed_at >= end:
                    return found, None
                if len(found) == limit:
                    return found, found[-1].key
                found.append(letter)
        return found, None

    async def _hour(self, client: Client, hour: Hour, behind: LetterKey, limit: int) -> list[DeadLetter]:
        """The first `limit` letters of an hour, over all pollers."""
        pages = await concurrently(
            lambda poller_id: self._letters.read_page(
                client.client_id, PollerId(poller_id), hour, after=behind, limit=limit
            ),
            range(client.poller_ceiling),
        )
        return heapq.nsmallest(limit, (letter for page in pages for letter in page), key=lambda letter: letter.key)

    async def _rows(self, client: Client, letters: list[DeadLetter]) -> dict[ScheduleId, Row]:
        wanted: dict[Partition, list[RowKey]] = {}
        for letter in letters:
            home = partition_of(client.client_id, letter.schedule_id)
            wanted.setdefault(home, []).append(key_of(letter.schedule_id))
        answers = await concurrently(lambda item: self._schedules.find_rows(*item, lean=True), wanted.items())
        return {row.schedule_id: row for rows in answers for row in rows.values() if row.defined}


class RedriveDeadLetters:
    """Redrive: everything that failed for good within a window is called again, a bounded number of letters at a time.

    A letter counts only while it describes the schedule's latest end: a schedule that was redelivered since is skipped,
    even if it failed again. So a redrive of a past window may be repeated, after a lost answer or by several callers at
    once, and each schedule is called again once.

    Redelivers schedules of clients that the caller has looked up, and that may create.
    """

    def __init__(self, *, letters: ListDeadLetters, redeliver: RedeliverSchedule) -> None:
        self._letters = letters
        self._redeliver = redeliver

    async def __call__(
        self, client: Client, *, start: UnixMillis, end: UnixMillis, after: LetterKey | None, limit: int
    ) -> Redriven:
        """Redrive up to `limit` letters after `after` (None: from the start) with start <= failed_at < end. After
        StoreUnavailable some of them are called again: repeat the same request."""
        letters, following = await self._letters.letters(client, start=start, end=end, after=after, limit=limit)

        async def redeliver(letter: DeadLetter) -> RedeliverResult:
            return await self._redeliver(client, letter.schedule_id, failed_at=letter.failed_at)

        results = await concurrently(redeliver, letters)
        redelivered = sum(isinstance(result, Redelivering) for result in results)
        return Redriven(redelivered, len(results) - redelivered, following)
