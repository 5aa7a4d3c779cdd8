"""What became of schedules: the books, and what is done and reported about them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from membership.conditional import Answer
from scheduler_service.domain.archives import ArchivedDay, RunId
from scheduler_service.domain.audits import Audit, AuditId
from scheduler_service.domain.books import DeadLetter, FailedAttempt, LetterKey, MinuteBalance
from scheduler_service.domain.ids import (
    ClientId,
    Hour,
    Minute,
    PollerId,
    ScheduleId,
    UnixMillis,
)
from scheduler_service.domain.reconciliations import Reconciliation, ReconciliationId, Slot
from scheduler_service.domain.usage import DayUsage


class BalanceStore(Protocol):
    """The books of pollers' minutes, as they were counted; `domain.books` says which of them still hold."""

    async def write(self, balance: MinuteBalance) -> Answer[int]:
        """Replace the minute's balance if none is stored or its epoch is at most `balance.epoch`.

        Rejected(the higher epoch that is stored). Repeating it is harmless.
        """

    async def read(self, client_id: ClientId, *, first: Minute, last: Minute) -> Sequence[MinuteBalance]:
        """Of [first, last], both inclusive, by minute and poller; minutes without a balance are absent."""


class AttemptStore(Protocol):
    """Failed attempts, one row each."""

    async def record_failed(self, attempts: Sequence[FailedAttempt]) -> None:
        """Insert them; repeating equal values is harmless."""

    async def read(self, client_id: ClientId, schedule_id: ScheduleId) -> Sequence[FailedAttempt]:
        """Those of one schedule, by number."""


class DeadLetterStore(Protocol):
    """What gave up, for listing and redrive. Kept 90 days."""

    async def insert(self, letters: Sequence[DeadLetter]) -> None:
        """Repeating equal values is harmless."""

    async def read_page(
        self, client_id: ClientId, poller_id: PollerId, hour: Hour, *, after: LetterKey | None = None, limit: int = 100
    ) -> Sequence[DeadLetter]:
        """Up to `limit` letters of one poller's hour behind `after`, in the order of failing (at once: of their
        ids)."""


class ReconciliationStore(Protocol):
    """The tables `reconciliations` and `reconciliation_slots`. Kept 90 days.

    A reconciliation holds a slot of its client while it runs, so that there are never more than slots, and so that all
    that may be running is found without looking through every client.
    """

    async def insert(self, reconciliation: Reconciliation) -> None:
        """Insert what was asked for, not what came of it; repeating it is harmless. Moves `changes`, where that
        succeeds: those who search find it a little later otherwise."""

    async def read(
        self, client_id: ClientId, reconciliation_id: ReconciliationId, *, serial: bool = False
    ) -> Reconciliation | None:
        """None: it was not inserted, or is not kept any more. Raises an error for one that can't be decoded."""

    async def read_newest(
        self, client_id: ClientId, *, before: ReconciliationId | None = None, limit: int = 100
    ) -> Sequence[Reconciliation]:
        """Up to `limit` of them, the newest first, older than `before`. Fewer: there are no more. Those that can't be
        decoded are made up for."""

    async def write(
        self, reconciliation: Reconciliation, *, expected_version: int | None
    ) -> Answer[Reconciliation | None]:
        """Replace state, version and progress if the stored version is `expected_version` (None: null)."""

    async def read_slots(self, client_id: ClientId) -> Mapping[int, ReconciliationId]:
        """Serial: who had each slot of a client last. Slots that nobody ever had are absent."""

    async def take_slot(self, slot: Slot, *, expected: ReconciliationId | None) -> Answer[None]:
        """Replace the holder of a slot if it is `expected` (None: nobody)."""

    async def list_slots(self, bucket: int) -> Sequence[Slot]:
        """Those of all clients that a hash puts into one of `SLOT_BUCKETS`: a few of each that ever reconciled."""

    async def changes(self) -> int:
        """Moves when something was asked for: a cheap read for everybody who searches."""


class UsageStore(Protocol):
    """What clients used, day by day, as it was counted last."""

    async def read(self, client_id: ClientId, *, first: UnixMillis, last: UnixMillis) -> Sequence[DayUsage]:
        """The days that begin in [first, last], both inclusive, in order; days that nobody has counted are absent.

        A day is seen as one write left it, never half of it. Reads every month between the two, so the caller bounds
        them.
        """


class AuditStore(Protocol):
    """Reports of audits. Kept 90 days."""

    async def insert(self, audit: Audit) -> None:
        """Repeating equal values is harmless."""

    async def read_page(
        self, client_id: ClientId, *, after: AuditId | None = None, limit: int = 100
    ) -> Sequence[Audit]:
        """Up to `limit` of them behind `after`, newest first."""


class ArchiveStore(Protocol):
    """The table `archived_days`: which days of a client are in the archive. Never deleted from.

    One run at a time writes a client's days. Whoever takes a client takes it from the run before, dead or alive, which
    can mark nothing any more: nobody need know whether it lives.
    """

    async def read(self, client_id: ClientId, *, first: UnixMillis, last: UnixMillis) -> Sequence[ArchivedDay]:
        """The archived days that begin in [first, last], both inclusive, in order."""

    async def read_run(self, client_id: ClientId) -> RunId | None:
        """Serial: the run that has this client. None: none has."""

    async def take(self, client_id: ClientId, run: RunId | None, *, expected: RunId | None) -> Answer[None]:
        """Give the client to `run` (None: to nobody) if it is `expected`'s; to itself: whether it still is."""

    async def mark(self, day: ArchivedDay, *, run: RunId) -> Answer[None]:
        """Write the day, over what was there, if its client is `run`'s."""

    async def mark_stale(self, day: ArchivedDay) -> Answer[None]:
        """Mark that something in it ended again, if it is still archived as of the same instant."""
