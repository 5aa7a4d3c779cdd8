"""The entry point of the client: operations of the whole cluster, and the scopes of single clients."""

import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from minutehand.client import _calls as calls
from minutehand.client._async.client_scope import AsyncClientScope
from minutehand.client._async.parts import every
from minutehand.client._async.sender import AsyncSender
from minutehand.client._audits import LatestAudits, list_latest_audits
from minutehand.client._backlog import ClusterBacklog, get_cluster_backlog
from minutehand.client._forecast import Forecast, get_forecast
from minutehand.client._models import (
    AdminKey,
    Calendar,
    Client,
    Cluster,
    CronPreview,
    DrainingNode,
    Dst,
    Health,
    NewAdminKey,
)
from minutehand.client._outcomes import AuditEntry
from minutehand.client._overdue_rate import OverdueRate, get_overdue_rate, remove_overdue_rate, set_overdue_rate
from minutehand.client._recent_calls import RecentCalls, get_cluster_calls
from minutehand.client._reconciliations import ReconciliationsUnderWay, list_under_way
from minutehand.client._retries import DEFAULT_DEADLINE_SECONDS, DEFAULT_RETRIES, Limits
from minutehand.client._runtime import Runtime, SystemRuntime
from minutehand.client._settings import ClientSettings

T = TypeVar("T")


class AsyncMinutehand:
    """A connection to one API with one key. An asynchronous context manager; belongs to one event loop."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_seconds: float = calls.DEFAULT_TIMEOUT_SECONDS,
        retries: int = DEFAULT_RETRIES,
        retry_deadline_seconds: float = DEFAULT_DEADLINE_SECONDS,
        transport: httpx.AsyncBaseTransport | None = None,
        runtime: Runtime | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        """`timeout_seconds` bounds one request. Repeats (see the package) are at most `retries`, and none begins later
        than `retry_deadline_seconds` after the first request; 0 disables them. `ssl_context` holds the trusted
        authorities and the certificate to present; None: the public authorities."""
        self._sender = AsyncSender(
            url,
            key,
            timeout_seconds=timeout_seconds,
            limits=Limits(retries, retry_deadline_seconds),
            transport=transport,
            runtime=runtime or SystemRuntime(),
            ssl_context=ssl_context,
        )
        self.clients = AsyncClients(self)
        self.nodes = AsyncNodes(self)
        self.admin_keys = AsyncAdminKeys(self)

    def client(self, client_id: str) -> AsyncClientScope:
        """The scope of one client. Sends nothing."""
        return AsyncClientScope(self.perform, client_id)

    async def health(self) -> Health:
        """Whether the API process is ready."""
        return await self.perform(calls.health())

    async def cluster(self) -> Cluster:
        """The nodes, which of them own the pollers, and guarantees against capacity. For administrators."""
        return await self.perform(calls.get_cluster())

    async def recent_calls(self) -> RecentCalls:
        """What nodes called within the last minute: how many a second, how late, for whom. For administrators."""
        return await self.perform(get_cluster_calls())

    async def forecast(self, *, start: datetime | str | None = None, end: datetime | str | None = None) -> Forecast:
        """What each minute is to call of all clients from `start` (now) until before `end` (24 hours later), 31 days at
        most. For administrators."""
        return await self.perform(get_forecast(None, start=start, end=end))

    async def backlog(self, *, cursor: str | None = None, page_size: int | None = None) -> ClusterBacklog:
        """What is overdue of all clients, and the clients that have most of it (20). For administrators."""
        return await self.perform(get_cluster_backlog(cursor=cursor, page_size=page_size))

    async def reconciliations_under_way(
        self, *, cursor: str | None = None, page_size: int | None = None
    ) -> ReconciliationsUnderWay:
        """The reconciliations of all clients that run, the oldest first (20). For administrators."""
        return await self.perform(list_under_way(cursor=cursor, page_size=page_size))

    async def latest_audits(self, *, cursor: str | None = None, page_size: int | None = None) -> LatestAudits:
        """The newest audit of each client's books, those with most findings first (20). For administrators."""
        return await self.perform(list_latest_audits(cursor=cursor, page_size=page_size))

    async def overdue_rate(self) -> OverdueRate:
        """How many overdue calls of all clients are made a second. For administrators."""
        return await self.perform(get_overdue_rate())

    async def set_overdue_rate(self, per_second: float) -> OverdueRate:
        """Limit how many calls a second are made, over all nodes and clients, of those that are more than a minute
        late. For administrators."""
        return await self.perform(set_overdue_rate(per_second))

    async def remove_overdue_rate(self) -> None:
        """Let overdue calls be made as fast as limits permit. For administrators."""
        await self.perform(remove_overdue_rate())

    def audit_log(
        self,
        *,
        start: datetime | str | None = None,
        end: datetime | str | None = None,
        page_size: int | None = None,
    ) -> AsyncIterator[AuditEntry]:
        """What administrators did, and clients about themselves, newest first, page by page, from `start` (24 hours
        before `end`; at most 31 days) until before `end` (now). For administrators."""
        return every(self.perform, calls.list_audit_log(None, start=start, end=end, page_size=page_size))

    async def preview_cron(
        self,
        expression: str,
        *,
        timezone: str,
        dialect: str | None = None,
        also: Sequence[str] | None = None,
        excluding: Sequence[str] | None = None,
        calendar: Calendar | None = None,
        dst: Dst | None = None,
        start: datetime | str | None = None,
        count: int | None = None,
    ) -> CronPreview:
        """The first `count` (5, at most 100) fires of a rule from `start` (now) on. For any key."""
        given = {"dialect": dialect, "also": also, "excluding": excluding, "calendar": calendar, "dst": dst}
        return await self.perform(calls.preview_cron(expression, timezone, start, count, given))

    async def perform(self, operation: calls.Operation[T]) -> T:
        """Send one operation, repeated where that is safe. Raises MinutehandApiError, MinutehandUnreachable."""
        return await self._sender.perform(operation)

    async def close(self) -> None:
        await self._sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncNodes:
    """The cluster's nodes, for administrators."""

    def __init__(self, api: AsyncMinutehand) -> None:
        self._perform = api.perform

    async def drain(self, node_id: str, *, force: bool = False) -> DrainingNode:
        """Have a node hand over all its pollers; it stays a member, draining, until its process stops. Refused (409
        `last-node`) where no other node takes pollers, unless `force`: then no calls are made."""
        return await self._perform(calls.drain_node(node_id, force=force))

    async def undrain(self, node_id: str) -> DrainingNode:
        """Have a draining node take its share of pollers again. Refused (409) while its process is stopping."""
        return await self._perform(calls.undrain_node(node_id))


class AsyncAdminKeys:
    """Administrators' own keys, made and revoked by the configured administrator only."""

    def __init__(self, api: AsyncMinutehand) -> None:
        self._perform = api.perform

    async def create(self, name: str) -> NewAdminKey:
        """Make a key for the administrator of this name; it is shown this once."""
        return await self._perform(calls.create_admin_key(name))

    async def list(self) -> tuple[AdminKey, ...]:
        """Revoked ones included."""
        return (await self._perform(calls.list_admin_keys())).items

    async def revoke(self, key_id: str) -> None:
        await self._perform(calls.revoke_admin_key(key_id))


class AsyncClients:
    """The cluster's clients, for administrators."""

    def __init__(self, api: AsyncMinutehand) -> None:
        self._perform = api.perform

    async def register(
        self,
        client_id: str,
        *,
        poller_quota: int,
        settings: ClientSettings | Mapping[str, Any] | None = None,
        revision: int | None = None,
        absent: bool = False,
    ) -> Client:
        """Create a client, or replace its quota and settings (None: the defaults; `stored_settings`: no change).

        `revision`: only if the client is at this one; `absent`: only if there is none. Otherwise PreconditionFailed.
        """
        operation = calls.register_client(client_id, poller_quota, settings, revision=revision, absent=absent)
        return await self._perform(operation)

    async def get(self, client_id: str) -> Client:
        return await self._perform(calls.get_client(client_id))

    async def list(self) -> tuple[Client, ...]:
        return (await self._perform(calls.list_clients())).items

    async def suspend(self, client_id: str, *, revision: int | None = None) -> Client:
        """Hold the client's calls and refuse its creates. `revision`: as for `register`."""
        return await self._perform(calls.suspend_client(client_id, revision=revision))

    async def resume(self, client_id: str, *, revision: int | None = None) -> Client:
        return await self._perform(calls.resume_client(client_id, revision=revision))

    async def delete(self, client_id: str, *, revision: int | None = None) -> None:
        """Only suspended clients can be deleted."""
        await self._perform(calls.delete_client(client_id, revision=revision))
