"""The store of the audit log."""

from collections.abc import Sequence
from typing import Protocol

from scheduler_service.domain.audit_log import AuditEntry, EntryId
from scheduler_service.domain.ids import (
    ClientId,
)


class AuditLogStore(Protocol):
    """What administrators did, and clients about themselves: all of it, and once more by the client that it was done
    to. Entries are kept 400 days."""

    async def begin(self, entry: AuditEntry) -> None:
        """Insert an entry, its end left out: in the log of all first, then in the client's, so that a failure may leave
        it in the former only. Repeating equal values is harmless."""

    async def end(self, entry: AuditEntry) -> None:
        """Add the end of an entry that was begun: status, problem, details; in the same order. Repeating equal values
        is harmless."""

    async def read_page(
        self, *, client_id: ClientId | None, first: EntryId, last: EntryId, limit: int
    ) -> Sequence[AuditEntry]:
        """Up to `limit` entries with first <= entry_id <= last, newest first; `client_id` None: those of all.

        Reads day by day until `limit` is reached, so the caller bounds the two: a request for each day.
        """
