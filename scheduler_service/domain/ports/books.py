"""Stores of the books, and of what is reported and done about them."""

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
    """Balances of pollers' minutes, as counted; `domain.books` says which of them still hold."""

    async def write(self, balance: MinuteBalance) -> Answer[int]:
        """Replace the minute's balance if none is stored or its epoch is at most `balance.epoch`.

        Rejected(the higher epoch that is stored). Repeating it is harmless.
        """

    async def read(self, client_id: ClientId, *, first: Minute, last: Minute) -> Sequence[MinuteBalance]:
        """Balances of [first, last], both inclusive, by minute and poller; minutes without one are absent."""


class AttemptStore(Protocol):
    """Failed attempts, one row each."""

    async def record_failed(self, attempts: Sequence[FailedAttempt]) -> None:
        """Insert them; repeating equal values is harmless."""

    async def read(self, client_id: ClientId, schedule_id: ScheduleId) -> Sequence[FailedAttempt]:
        """Those of one schedule, by attempt number."""


class DeadLetterStore(Protocol):
    """Schedules that failed for good, for listing and redrive. Kept 90 days."""

    async def insert(self, letters: Sequence[DeadLetter]) -> None:
        """Repeating equal values is harmless."""

    async def read_page(
        self, client_id: ClientId, poller_id: PollerId, hour: Hour, *, after: LetterKey | None = None, limit: int = 100
    ) -> Sequence[DeadLetter]:
        """Up to `limit` letters of one poller's hour behind `after`, in the order of failing (then by id)."""


class ReconciliationStore(Protocol):
    """The tables `reconciliations` and `reconciliation_slots`. Kept 90 days.

    A reconciliation holds a slot of its client while it runs. So there are never more than slots, and all that may be
    running are found without a scan over all clients.
    """

    async def insert(self, reconciliation: Reconciliation) -> None:
        """Insert the request, without its progress; repeating it is harmless. Then changes `changes`; if that fails,
        nodes find it a little later."""

    async def read(
        self, client_id: ClientId, reconciliation_id: ReconciliationId, *, serial: bool = False
    ) -> Reconciliation | None:
        """None: it was not inserted, or has expired. Raises an error for one that can't be decoded."""

    async def read_newest(
        self, client_id: ClientId, *, before: ReconciliationId | None = None, limit: int = 100
    ) -> Sequence[Reconciliation]:
        """Up to `limit` of them, the newest first, older than `before`. Fewer: there are no more. Ones that can't be
        decoded are left out, and don't count."""

    async def write(
        self, reconciliation: Reconciliation, *, expected_version: int | None
    ) -> Answer[Reconciliation | None]:
        """Replace state, version and progress if the stored version is `expected_version` (None: null)."""

    async def read_slots(self, client_id: ClientId) -> Mapping[int, ReconciliationId]:
        """Serial: the last holder of each slot of a client. Slots that were never held are absent."""

    async def take_slot(self, slot: Slot, *, expected: ReconciliationId | None) -> Answer[None]:
        """Replace the holder of a slot if it is `expected` (None: none)."""

    async def list_slots(self, bucket: int) -> Sequence[Slot]:
        """The slots in one of `SLOT_BUCKETS`, over all clients: a few of each client that ever reconciled."""

    async def changes(self) -> int:
        """A number that changes after an `insert`: a cheap read that spares a search."""


class UsageStore(Protocol):
    """Clients' usage, day by day, as last counted."""

    async def read(self, client_id: ClientId, *, first: UnixMillis, last: UnixMillis) -> Sequence[DayUsage]:
        """The days that begin in [first, last], both inclusive, in order; days that were never counted are absent.

        A day is written atomically. Reads every month between the two, so the caller bounds them.
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

    One run at a time writes a client's days. A run takes a client from the run before, dead or alive, which can mark
    nothing any more, so no failure detection is needed.
    """

    async def read(self, client_id: ClientId, *, first: UnixMillis, last: UnixMillis) -> Sequence[ArchivedDay]:
        """The archived days that begin in [first, last], both inclusive, in order."""

    async def read_run(self, client_id: ClientId) -> RunId | None:
        """Serial: the run that holds this client, if any."""

    async def take(self, client_id: ClientId, run: RunId | None, *, expected: RunId | None) -> Answer[None]:
        """Give the client to `run` (None: release it) if `expected` holds it. With `run` equal to `expected` it tests
        whether that still holds it."""

    async def mark(self, day: ArchivedDay, *, run: RunId) -> Answer[None]:
        """Write the day, replacing an earlier entry, if `run` holds its client."""

    async def mark_stale(self, day: ArchivedDay) -> Answer[None]:
        """Mark that a row of it ended again, if it is still archived as of the same instant."""
