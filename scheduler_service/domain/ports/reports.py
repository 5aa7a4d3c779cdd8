"""Stores of what Spark's jobs have counted, audited and archived."""

from collections.abc import Sequence
from typing import Protocol

from membership.conditional import Answer
from scheduler_service.domain.archives import ArchivedDay, RunId
from scheduler_service.domain.audits import Audit, AuditId
from scheduler_service.domain.ids import (
    ClientId,
    UnixMillis,
)
from scheduler_service.domain.usage import DayUsage


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
