"""Stores of the books: balances, failed attempts, dead letters."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from membership.conditional import Answer
from scheduler_service.domain.acknowledgements import KeptWord
from scheduler_service.domain.books import AttemptRecord, DeadLetter, LetterKey, MinuteBalance
from scheduler_service.domain.ids import (
    ClientId,
    Hour,
    Minute,
    PollerId,
    ScheduleId,
)


class BalanceStore(Protocol):
    """Balances of pollers' minutes, as counted; `domain.books` says which of them still hold."""

    async def write(self, balance: MinuteBalance) -> Answer[int]:
        """Replace the minute's balance if none is stored or its epoch is at most `balance.epoch`.

        Rejected(the higher epoch that is stored). Repeating it is harmless.
        """

    async def read(self, client_id: ClientId, *, first: Minute, last: Minute) -> Sequence[MinuteBalance]:
        """Balances of [first, last], both inclusive, by minute and poller; minutes without one are absent."""


class AttemptStore(Protocol):
    """Attempts that failed, and those that delivered after others had failed: one row each."""

    async def record(self, attempts: Sequence[AttemptRecord]) -> None:
        """Insert them; repeating equal values is harmless."""

    async def read(self, client_id: ClientId, schedule_id: ScheduleId) -> Sequence[AttemptRecord]:
        """Those of one schedule, by attempt number."""

    async def record_word(self, client_id: ClientId, schedule_id: ScheduleId, attempt: int, word: KeptWord) -> None:
        """Keep what a receiver said of this attempt; it replaces what it had said before."""

    async def read_words(self, client_id: ClientId, schedule_id: ScheduleId) -> Mapping[int, KeptWord]:
        """What receivers have said of one schedule's attempts, by attempt number."""


class DeadLetterStore(Protocol):
    """Schedules that failed for good, for listing and redrive. Kept 90 days after the last insert."""

    async def insert(self, letters: Sequence[DeadLetter]) -> None:
        """Repeating equal values is harmless. What is None keeps the stored value: an acknowledgement stays when its
        letter is inserted again without it."""

    async def read_page(
        self, client_id: ClientId, poller_id: PollerId, hour: Hour, *, after: LetterKey | None = None, limit: int = 100
    ) -> Sequence[DeadLetter]:
        """Up to `limit` letters of one poller's hour behind `after`, in the order of failing (then by id)."""

    async def find(
        self, client_id: ClientId, poller_id: PollerId, hour: Hour, keys: Sequence[LetterKey]
    ) -> Sequence[DeadLetter]:
        """Those of one poller's hour with these keys, in any order; keys without a letter are absent."""
