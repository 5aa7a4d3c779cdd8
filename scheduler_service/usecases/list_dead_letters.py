"""List: what gave up, by the instant at which it did, each with the present state of its schedule.

Letters are filed by hour and lane. The lanes of an hour are read side by side and merged; all of them have one order,
(failed_at, schedule_id), so one key says where every lane goes on. One call reads a bounded number of lanes' hours, so
it may answer fewer letters than asked for, even none, and still say where to go on.

A schedule that gave up again after a redelivery has a letter for each time.
"""

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

MAX_READS = 1_100
"""Lanes' hours that one call begins to read, and never less than a whole hour."""

_LAST_ID = ScheduleId(UUID(int=(1 << 128) - 1))


@dataclass(frozen=True, slots=True)
class LetterShown:
    """A letter, and its schedule as it is now, without content. `row` None: it is not kept any more."""

    letter: DeadLetter
    row: Row | None


@dataclass(frozen=True, slots=True)
class LetterPage:
    """`next` None: the window is exhausted; else the place to go on behind."""

    items: list[LetterShown]
    next: LetterKey | None


class ListDeadLetters:
    """Reads dead letters of clients that the caller has looked up."""

    def __init__(self, *, letters: DeadLetterStore, schedules: ScheduleStore) -> None:
        self._letters = letters
        self._schedules = schedules

    async def page(
        self, client: Client, *, start: UnixMillis, end: UnixMillis, after: LetterKey | None, limit: int
    ) -> LetterPage:
        """Up to `limit` letters behind `after` (None: from the start) with start <= failed_at < end. Raises
        StoreUnavailable."""
        letters, following = await self.letters(client, start=start, end=end, after=after, limit=limit)
        rows = await self._rows(client, letters)
        return LetterPage([LetterShown(letter, rows.get(letter.schedule_id)) for letter in letters], following)

    async def letters(
        self, client: Client, *, start: UnixMillis, end: UnixMillis, after: LetterKey | None, limit: int
    ) -> tuple[list[DeadLetter], LetterKey | None]:
        """The same without their schedules, and where to go on."""
        behind = LetterKey(UnixMillis(start - 1), _LAST_ID) if after is None else after
        found: list[DeadLetter] = []
        lanes, reads = client.poller_ceiling, 0
        whole_instant = behind.schedule_id == _LAST_ID
        for hour in range((behind.failed_at + whole_instant) // HOUR_MS, (end - 1) // HOUR_MS + 1):
            if reads and reads + lanes > MAX_READS:
                return found, LetterKey(UnixMillis(hour * HOUR_MS - 1), _LAST_ID)
            reads += lanes
            for letter in await self._hour(client, Hour(hour), behind, limit - len(found) + 1):
                if letter.failed_at >= end:
                    return found, None
                if len(found) == limit:
                    return found, found[-1].key
                found.append(letter)
        return found, None

    async def _hour(self, client: Client, hour: Hour, behind: LetterKey, limit: int) -> list[DeadLetter]:
        """The first `limit` letters of an hour, out of all its lanes."""
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
