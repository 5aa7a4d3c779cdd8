"""Dead letters: schedules that failed for good, listed, acknowledged, and redriven: a selection at a time.

A selection is a window of `failed_at` with a filter, or listed letters. Windows are read step by step: one call reads a
bounded number of partitions and letters, and answers the key to continue after.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import msgspec

from scheduler_service.domain.books import DeadLetter, LetterFilter, LetterKey
from scheduler_service.domain.clients import Client
from scheduler_service.domain.ids import (
    HOUR_MS,
    ClientId,
    Hour,
    Partition,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
    key_of,
    partition_of,
    poller_of,
)
from scheduler_service.domain.notices import EVENTS_CLIENT
from scheduler_service.domain.ports import DeadLetterStore, ScheduleStore
from scheduler_service.domain.schedules import Row
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.cancel_schedules import NoSuchSchedule
from scheduler_service.usecases.reading_steps import HasRead, uncounted
from scheduler_service.usecases.redeliver import RedeliverResult, RedeliverSchedule
from scheduler_service.usecases.redeliver_notices import EventsGone, RedeliverNotice

MAX_READS = 1_100
"""Partitions (poller and hour) that one call reads at most; it always reads one whole hour."""

MAX_SEEN = 5_000
"""Letters that one call reads before it stops; what it has begun to read, it reads to its end."""
LETTER_BYTES = 300

RedrivenAs = RedeliverResult | EventsGone
"""What becomes of one letter."""
_LAST_ID = ScheduleId(UUID(int=(1 << 128) - 1))


class LetterWindow(NamedTuple):
    """Up to `limit` letters after `after` (None: from the start) with start <= failed_at < end that fit the filter."""

    start: UnixMillis
    end: UnixMillis
    after: LetterKey | None
    limit: int
    filter: LetterFilter = LetterFilter()


@dataclass(frozen=True, slots=True)
class Redriven:
    """The result for each letter. `next`: the key to continue after; None: there are no more."""

    results: list[tuple[LetterKey, RedrivenAs]]
    next: LetterKey | None = None


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The letters, as they are now. `changed`: so many were not acknowledged before. `next` as in `Redriven`."""

    letters: list[DeadLetter]
    changed: int
    next: LetterKey | None = None


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


def is_of_notice(letter: DeadLetter) -> bool:
    """Whether it is that of one of the client's notices, or of a schedule with such a label."""
    return letter.label is not None and letter.label.startswith(f"{EVENTS_CLIENT}/")


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

    async def page(self, client: Client, window: LetterWindow, *, has_read: HasRead = uncounted) -> LetterPage:
        """Its next letters, with their schedules. Raises StoreUnavailable."""
        letters, following = await self.letters(client, window, has_read=has_read)
        rows = await self._rows(client, letters)
        return LetterPage([LetterShown(letter, rows.get(letter.schedule_id)) for letter in letters], following)

    async def letters(
        self, client: Client, window: LetterWindow, *, has_read: HasRead = uncounted
    ) -> tuple[list[DeadLetter], LetterKey | None]:
        """The same without their schedules, and the key to continue after. `has_read` hears how many were read."""
        start, limit = window.start, window.limit
        behind = LetterKey(UnixMillis(start - 1), _LAST_ID) if window.after is None else window.after
        found: list[DeadLetter] = []
        pollers, reads, seen = client.poller_ceiling, 0, 0
        whole_instant = behind.schedule_id == _LAST_ID
        for hour in range((behind.failed_at + whole_instant) // HOUR_MS, (window.end - 1) // HOUR_MS + 1):
            more = True
            while more:
                if (reads and reads + pollers > MAX_READS) or seen >= MAX_SEEN:
                    # The key before this hour, or before the part of it that was not read.
                    return found, max(behind, LetterKey(UnixMillis(hour * HOUR_MS - 1), _LAST_ID))
                reads += pollers
                page, read = await self._hour(client, Hour(hour), behind, limit + 1)
                seen, more = seen + read, len(page) > limit
                has_read(read, read * LETTER_BYTES)
                for letter in page:
                    if letter.failed_at >= window.end:
                        return found, None
                    if window.filter.fits(letter):
                        if len(found) == limit:
                            return found, behind
                        found.append(letter)
                    behind = letter.key
        return found, None

    async def _hour(self, client: Client, hour: Hour, behind: LetterKey, limit: int) -> tuple[list[DeadLetter], int]:
        """The first `limit` letters of an hour, over all pollers, and how many were read."""
        pages = await concurrently(
            lambda poller_id: self._letters.read_page(
                client.client_id, PollerId(poller_id), hour, after=behind, limit=limit
            ),
            range(client.poller_ceiling),
        )
        letters = (letter for page in pages for letter in page)
        return heapq.nsmallest(limit, letters, key=lambda letter: letter.key), sum(map(len, pages))

    async def _rows(self, client: Client, letters: list[DeadLetter]) -> dict[ScheduleId, Row]:
        rows = await self._rows_of(client.client_id, [letter.schedule_id for letter in letters])
        notices = [one.schedule_id for one in letters if one.schedule_id not in rows and is_of_notice(one)]
        return rows | await self._rows_of(EVENTS_CLIENT, notices) if notices else rows

    async def _rows_of(self, client_id: ClientId, ids: Sequence[ScheduleId]) -> dict[ScheduleId, Row]:
        wanted: dict[Partition, list[RowKey]] = {}
        for one in ids:
            wanted.setdefault(partition_of(client_id, one), []).append(key_of(one))
        answers = await concurrently(lambda item: self._schedules.find_rows(*item, lean=True), wanted.items())
        return {row.schedule_id: row for rows in answers for row in rows.values() if row.defined}


class RedriveDeadLetters:
    """Redrive: a selection of what failed for good is called again, a bounded number of letters at a time.

    A letter counts only while it describes the schedule's latest end: a schedule that was redelivered since is skipped,
    even if it failed again. So a redrive of the same selection may be repeated, after a lost answer or by several
    callers at once, and each schedule is called again once.

    Letters of the client's notices are redriven likewise, while what they tell of is kept.

    Redelivers schedules of clients that the caller has looked up, and that may create.
    """

    def __init__(
        self, *, letters: ListDeadLetters, redeliver: RedeliverSchedule, redeliver_notice: RedeliverNotice
    ) -> None:
        self._letters = letters
        self._redeliver = redeliver
        self._redeliver_notice = redeliver_notice

    async def window(self, client: Client, window: LetterWindow, *, has_read: HasRead = uncounted) -> Redriven:
        """After StoreUnavailable some of them are called again: repeat the same request."""
        letters, following = await self._letters.letters(client, window, has_read=has_read)
        done = await self.listed(client, [letter.key for letter in letters])
        return Redriven(done.results, following)

    async def listed(self, client: Client, keys: Sequence[LetterKey]) -> Redriven:
        """The same for the letters of these keys."""

        async def redeliver(key: LetterKey) -> tuple[LetterKey, RedrivenAs]:
            result: RedrivenAs = await self._redeliver(client, key.schedule_id, failed_at=key.failed_at)
            if isinstance(result, NoSuchSchedule):
                result = await self._redeliver_notice(client, key.schedule_id, failed_at=key.failed_at)
            return key, result

        return Redriven(await concurrently(redeliver, dict.fromkeys(keys)))


class AcknowledgeDeadLetters:
    """Acknowledge: a selection of letters is marked, and left out of listings from then on. The first acknowledgement
    of a letter stays; of concurrent ones either may be kept.

    Acknowledges letters of clients that the caller has looked up.
    """

    def __init__(self, *, store: DeadLetterStore, letters: ListDeadLetters, clock: Clock) -> None:
        self._store = store
        self._letters = letters
        self._clock = clock

    async def window(
        self, client: Client, window: LetterWindow, *, by: str, has_read: HasRead = uncounted
    ) -> Acknowledged:
        """After StoreUnavailable some of them are acknowledged: repeat the same request."""
        letters, following = await self._letters.letters(client, window, has_read=has_read)
        done = await self._acknowledge(letters, by)
        return Acknowledged(done.letters, done.changed, following)

    async def listed(self, client: Client, keys: Sequence[LetterKey], *, by: str) -> Acknowledged:
        """The same for the letters of these keys; those that are not kept are left out."""
        wanted: dict[tuple[PollerId, Hour], list[LetterKey]] = {}
        for key in dict.fromkeys(keys):
            wanted.setdefault((poller_of(key.schedule_id), Hour(key.failed_at // HOUR_MS)), []).append(key)
        pages = await concurrently(lambda item: self._store.find(client.client_id, *item[0], item[1]), wanted.items())
        return await self._acknowledge([letter for page in pages for letter in page], by)

    async def _acknowledge(self, letters: Sequence[DeadLetter], by: str) -> Acknowledged:
        now = UnixMillis(self._clock.wall_ms())
        changed = [
            msgspec.structs.replace(letter, acknowledged_at=now, acknowledged_by=by)
            for letter in letters
            if letter.acknowledged_at is None
        ]
        if changed:
            await self._store.insert(changed)
        present = {letter.key: letter for letter in (*letters, *changed)}
        return Acknowledged(list(present.values()), len(changed))
