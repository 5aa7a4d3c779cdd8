"""Show: what Spark jobs found out about one client: its usage by day, and audits of its books."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler_service.domain.audits import Audit, AuditId
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.ports import AuditStore, UsageStore
from scheduler_service.domain.usage import DayUsage


@dataclass(frozen=True, slots=True)
class AuditsPage:
    """`next`: the id to continue after; None: there are no more."""

    items: Sequence[Audit]
    next: AuditId | None


class ShowJobResults:
    """Reads only: jobs write, APIs show."""

    def __init__(self, *, usage: UsageStore, audits: AuditStore) -> None:
        self._usage = usage
        self._audits = audits

    async def usage(self, client_id: ClientId, *, first: UnixMillis, last: UnixMillis) -> Sequence[DayUsage]:
        """Days by their beginnings, both inclusive; those never counted are left out. Raises StoreUnavailable."""
        return await self._usage.read(client_id, first=first, last=last)

    async def audits(self, client_id: ClientId, *, after: AuditId | None, limit: int) -> AuditsPage:
        """Up to `limit`, the newest first. Raises StoreUnavailable."""
        found = await self._audits.read_page(client_id, after=after, limit=limit + 1)
        shown = found[:limit]
        return AuditsPage(shown, shown[-1].audit_id if len(found) > limit else None)
