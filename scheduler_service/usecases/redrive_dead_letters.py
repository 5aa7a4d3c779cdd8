"""Redrive: everything that gave up within a window is called again, a bounded number of letters at a time.

A letter counts while it is the last word about its schedule: what was redelivered since, and may have given up again,
is passed over. So a redrive of a window that is over may be repeated, by a caller without an answer or by several at
once, and each schedule is called again once.
"""

from dataclasses import dataclass

from scheduler_service.domain.books import DeadLetter, LetterKey
from scheduler_service.domain.clients import Client
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.list_dead_letters import ListDeadLetters
from scheduler_service.usecases.redeliver import Redelivering, RedeliverResult, RedeliverSchedule


@dataclass(frozen=True, slots=True)
class Redriven:
    """How many schedules are called again, and how many letters were passed over. `next` None: the window is
    exhausted; else the place to go on behind."""

    redelivered: int
    passed_over: int
    next: LetterKey | None


class RedriveDeadLetters:
    """Redelivers what gave up of clients that the caller has looked up, and that may create."""

    def __init__(self, *, letters: ListDeadLetters, redeliver: RedeliverSchedule) -> None:
        self._letters = letters
        self._redeliver = redeliver

    async def __call__(
        self, client: Client, *, start: UnixMillis, end: UnixMillis, after: LetterKey | None, limit: int
    ) -> Redriven:
        """Of up to `limit` letters behind `after` (None: from the start) with start <= failed_at < end. Raises
        StoreUnavailable, and then some of them are called again: ask for the same once more."""
        letters, following = await self._letters.letters(client, start=start, end=end, after=after, limit=limit)

        async def redeliver(letter: DeadLetter) -> RedeliverResult:
            return await self._redeliver(client, letter.schedule_id, failed_at=letter.failed_at)

        results = await concurrently(redeliver, letters)
        redelivered = sum(isinstance(result, Redelivering) for result in results)
        return Redriven(redelivered, len(results) - redelivered, following)
