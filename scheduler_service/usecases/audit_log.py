"""Audit: every action of an administrator has a record, and every one by which a client manages itself.

    begin -> the action -> end -> the answer

The beginning is durable before the action; where it can't be written, the action is not done (StoreUnavailable). The
end is written before the answer is sent. Where only the end can't be written, the action has taken place and its answer
may hold a key that is never shown again: the answer is sent, the entry stays without an end, and the caller is told so
that it can log that. A process that is killed in between leaves such an entry too. So an entry without an end means
that the action may have been done.

What a node decides by itself for a client is recorded in the same way, with the node among the details.

Each is recorded for the operator, and for the client that it was done to. Requests that are refused for their key are
not recorded: nobody's action was begun.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from membership.errors import StoreUnavailable
from scheduler_service.domain.audit_log import (
    SYSTEM,
    AuditEntry,
    EntryId,
    entry_id_before,
    first_entry_id,
    new_entry_id,
)
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import AuditLogStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.authenticate import Principal

BY_SYSTEM: Final = Principal(SYSTEM)
"""Who acts where a node does so by itself."""
MAX_DETAIL = 128
"""Characters of a name in a path, or of an id: longer ones are cut."""


class AuditPage(NamedTuple):
    """Newest first. `next`: the entry to continue after; None: the window is exhausted."""

    items: Sequence[AuditEntry]
    next: EntryId | None


class AuditActions:
    """Writes and lists the audit log."""

    def __init__(self, *, store: AuditLogStore, clock: Clock, randomness: Randomness) -> None:
        self._store = store
        self._clock = clock
        self._randomness = randomness

    async def begin(
        self, principal: Principal, *, action: str, target: Mapping[str, str], request_id: str
    ) -> AuditEntry:
        """Raises StoreUnavailable: then the action must not be done."""
        entry = AuditEntry(
            entry_id=new_entry_id(self._clock.wall_ms(), randomness=self._randomness),
            actor=principal.name,
            key_id=principal.key_id,
            action=action,
            target={name: value[:MAX_DETAIL] for name, value in target.items()},
            request_id=request_id,
            by_client=principal.client_id is not None,
        )
        await self._store.begin(entry)
        return entry

    async def end(
        self, entry: AuditEntry, *, status: int, problem: str | None, details: Mapping[str, str | int]
    ) -> bool:
        """Whether it was written."""
        cut = {name: value[:MAX_DETAIL] if isinstance(value, str) else value for name, value in details.items()}
        try:
            await self._store.end(msgspec.structs.replace(entry, status=status, problem=problem, details=cut))
        except StoreUnavailable:
            return False
        return True

    async def page(
        self, client_id: ClientId | None, *, start: int, end: int, after: EntryId | None, limit: int
    ) -> AuditPage:
        """Entries of one client (None: of all) with start <= at < end after `after` (None: from the newest on). The
        caller bounds the window, since every day in it may cost a request. Raises StoreUnavailable."""
        last = entry_id_before(first_entry_id(end) if after is None else after)
        found = await self._store.read_page(client_id=client_id, first=first_entry_id(start), last=last, limit=limit)
        return AuditPage(found, found[-1].entry_id if len(found) == limit else None)
