"""Show: the newest audit of each client, those with most findings first.

    clients by id -> one read each, in bounded numbers -> those with an audit, ranked

One look reads a bounded number of clients; the others are counted. What was found is kept for ten times as long as that
took, at least ten seconds, so pages of it agree.

The newest audit of a client may be of another window than one that found something. So the findings that stand are
counted as well, by the runs over all clients, as for the alert.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler_service.domain.audits import EVERY_CLIENT, Audit, standing_findings
from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import AuditStore, ClientStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.shared_looks import KeptLook
from scheduler_service.usecases.storage_probes import REPORTS

MAX_AUDITED_CLIENTS = 5_000
"""Clients whose newest audit one look reads."""
LATEST_KEPT_SECONDS: Final = 10.0


class _Latest(NamedTuple):
    audits: Sequence[Audit]
    unaudited: int
    left_out: int
    standing: int | None


class LatestAudits(NamedTuple):
    """A page of the newest audits, one of each client, without what was found in full. `clients`: how many have one;
    `unaudited`: how many have none; `left_out`: how many were not looked at. `standing`: findings that no newer run
    over all clients supersedes; None: there was no such run. `more`: others follow."""

    items: Sequence[Audit]
    clients: int
    unaudited: int
    left_out: int
    standing: int | None
    more: bool


class ShowLatestAudits:
    """Concurrent callers share one look."""

    def __init__(self, *, clients: ClientStore, audits: AuditStore, clock: Clock) -> None:
        self._clients = clients
        self._audits = audits
        self._all = KeptLook(self._look, least_seconds=LATEST_KEPT_SECONDS, clock=clock)

    async def __call__(self, *, after: tuple[int, ClientId] | None, limit: int) -> LatestAudits:
        """Up to `limit` with fewer findings than `after` says, or as many and a later client; None: from most on.
        Raises StoreUnavailable."""
        found = await self._all()
        left = [one for one in found.audits if after is None or audit_rank(one) > (-after[0], after[1])]
        return LatestAudits(
            items=left[:limit],
            clients=len(found.audits),
            unaudited=found.unaudited,
            left_out=found.left_out,
            standing=found.standing,
            more=len(left) > limit,
        )

    async def _look(self) -> _Latest:
        clients = sorted(
            one.client_id for one in await self._clients.list_clients() if one.state is not ClientState.DELETED
        )
        asked = clients[:MAX_AUDITED_CLIENTS]
        found = [one for one in await concurrently(self._newest, asked) if one is not None]
        runs = await self._audits.read_page(EVERY_CLIENT, limit=REPORTS)
        return _Latest(
            audits=sorted(found, key=audit_rank),
            unaudited=len(asked) - len(found),
            left_out=len(clients) - len(asked),
            standing=standing_findings(runs) if runs else None,
        )

    async def _newest(self, client_id: ClientId) -> Audit | None:
        for audit in await self._audits.read_page(client_id, limit=1):
            return msgspec.structs.replace(audit, shown=())
        return None


def audit_rank(audit: Audit) -> tuple[int, ClientId]:
    """Orders audits, those with most findings first."""
    return -sum(audit.findings.values()), audit.client_id
