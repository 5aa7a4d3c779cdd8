"""All stores of this room over one connection."""

from collections.abc import Callable
from dataclasses import dataclass

from cql.audit_log import CqlAuditLogStore
from cql.books import CqlAttemptStore, CqlBalanceStore, CqlDeadLetterStore
from cql.clients import CqlClientStore
from cql.connection import Connection
from cql.crons import CqlCronStore
from cql.destinations import CqlDestinationStore
from cql.events import CqlEventStore
from cql.group_commit import GroupCommit
from cql.idempotency import CqlIdempotencyStore
from cql.leases import CqlLeaseStore
from cql.members import CqlMemberStore
from cql.metrics import MeasuredConnection, OnRequest, RequestCounts, StorageMetrics
from cql.migrate import check_schema, load_migrations
from cql.minute_loads import CqlMinuteLoadStore
from cql.reconciliations import CqlReconciliationStore
from cql.reports import CqlArchiveStore, CqlAuditStore, CqlBulkLoadStore, CqlUsageStore
from cql.schedule_keys import CqlScheduleKeyStore
from cql.schedules import CqlScheduleStore
from cql.session import Session
from cql.sessions import CqlSessionStore
from cql.settings import StorageSettings
from cql.statement import load_statements
from cql.subscriptions import CqlSubscriptionStore
from scheduler_service.domain.minute_loads import LoadCounts
from scheduler_service.runtime.clock import Clock, SystemClock
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.randomness import Randomness, SystemRandomness

_log = get_logger("minutehand.storage")
_OF_LIVENESS = ("nodes.", "lives.", "servers.", "pollers.")
"""Prefixes of the statements that the second connection prepares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The stores of one keyspace, on one event loop. `each_quorum` is the group commit for EACH_QUORUM, with separate
    bounds. `connection` and `liveness` are the given ones; the stores use them through wrappers that fill `metrics`.
    `own_leases` is for the node that holds the leases, `leases` for all others."""

    connection: Connection
    liveness: Connection
    metrics: StorageMetrics
    group_commit: GroupCommit
    each_quorum: GroupCommit
    tasks: Tasks
    schedules: CqlScheduleStore
    clients: CqlClientStore
    destinations: CqlDestinationStore
    subscriptions: CqlSubscriptionStore
    crons: CqlCronStore
    events: CqlEventStore
    members: CqlMemberStore
    own_leases: CqlLeaseStore
    leases: CqlLeaseStore
    balances: CqlBalanceStore
    minute_loads: CqlMinuteLoadStore
    attempts: CqlAttemptStore
    dead_letters: CqlDeadLetterStore
    audit_log: CqlAuditLogStore
    idempotency: CqlIdempotencyStore
    schedule_keys: CqlScheduleKeyStore
    reconciliations: CqlReconciliationStore
    sessions: CqlSessionStore
    usage: CqlUsageStore
    bulk_loads: CqlBulkLoadStore
    archives: CqlArchiveStore
    audits: CqlAuditStore

    @classmethod
    def over(
        cls,
        connection: Connection,
        *,
        liveness: Connection | None = None,
        settings: StorageSettings | None = None,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        packs: Callable[[], bool] = lambda: False,
        on_request: OnRequest = lambda seconds, answered: None,
    ) -> "Storage":
        """The stores over any connection: the driver's, an in-memory one, or either behind a decorator. `liveness`: the
        connection for heartbeats, members and own leases, so that other load does not delay them. None: the same.
        `packs` and `on_request` as in `open_storage`."""
        liveness = liveness or connection
        settings = settings or StorageSettings()
        clock = clock or SystemClock()
        metrics = StorageMetrics(requests=RequestCounts(on_request))
        measured = MeasuredConnection(connection, counts=metrics.requests, monotonic=clock.monotonic)
        measured_liveness = MeasuredConnection(liveness, counts=metrics.requests, monotonic=clock.monotonic)
        tasks = Tasks(_report_crash)
        clients = CqlClientStore(measured)
        # The names of writers say nothing, so a simulation need not know them.
        loads = LoadCounts(SystemRandomness())
        group_commit = GroupCommit(
            measured, tasks=tasks, settings=settings, counts=metrics.commits, loads=loads, clock=clock
        )
        each_quorum = GroupCommit(
            measured,
            tasks=tasks,
            settings=settings,
            consistency="EACH_QUORUM",
            counts=metrics.commits,
            loads=loads,
            clock=clock,
        )
        return cls(
            connection=connection,
            liveness=liveness,
            metrics=metrics,
            group_commit=group_commit,
            each_quorum=each_quorum,
            tasks=tasks,
            schedules=CqlScheduleStore(
                measured,
                commits={"LOCAL_QUORUM": group_commit, "EACH_QUORUM": each_quorum},
                settings=settings,
                tasks=tasks,
                clock=clock,
                randomness=randomness or SystemRandomness(),
                loads=loads,
                external_updates=metrics.external_updates,
                pauses=metrics.pauses,
                packs=packs,
            ),
            clients=clients,
            destinations=CqlDestinationStore(measured, announce=clients.announce),
            subscriptions=CqlSubscriptionStore(measured, announce=clients.announce),
            crons=CqlCronStore(measured, tasks=tasks, settings=settings),
            events=CqlEventStore(measured),
            members=CqlMemberStore(measured_liveness),
            own_leases=CqlLeaseStore(measured_liveness),
            leases=CqlLeaseStore(measured),
            balances=CqlBalanceStore(measured),
            minute_loads=CqlMinuteLoadStore(measured, counts=loads),
            attempts=CqlAttemptStore(measured),
            dead_letters=CqlDeadLetterStore(measured),
            audit_log=CqlAuditLogStore(measured),
            idempotency=CqlIdempotencyStore(measured),
            schedule_keys=CqlScheduleKeyStore(measured, tasks=tasks),
            reconciliations=CqlReconciliationStore(measured),
            sessions=CqlSessionStore(measured),
            usage=CqlUsageStore(measured),
            bulk_loads=CqlBulkLoadStore(measured),
            archives=CqlArchiveStore(measured),
            audits=CqlAuditStore(measured),
        )

    async def close(self) -> None:
        """Fail unanswered inserts as unavailable, then close the connections. Idempotent."""
        self.group_commit.close()
        self.each_quorum.close()
        await self.tasks.close()
        await self.connection.close()
        await self.liveness.close()


async def open_storage(
    settings: StorageSettings,
    *,
    packs: Callable[[], bool] = lambda: False,
    on_request: OnRequest = lambda seconds, answered: None,
) -> Storage:
    """Connect to a migrated keyspace, twice: heartbeats and leases have connections of their own. `packs()`: whether
    every running program can read packed cells (`packed`); asked for each write. `on_request` is told of each
    request of the stores.

    Raises StoreUnavailable when no Cassandra answers, SchemaOutdated before `migrate` was run, ProgramOutdated when the
    keyspace has dropped what this program uses, WrongHome for another data centre than the keyspace's, StoreRefused
    for a wrong login.
    """
    session = await Session.open(settings, keyspace=settings.keyspace)
    try:
        await check_schema(session, settings, needed=len(load_migrations()))
        await session.prepare([name for name in load_statements() if not name.startswith("schema.")])
        liveness = await Session.open(settings.for_liveness(), keyspace=settings.keyspace)
    except BaseException:
        await session.close()
        raise
    try:
        await liveness.prepare([name for name in load_statements() if name.startswith(_OF_LIVENESS)])
    except BaseException:
        await liveness.close()
        await session.close()
        raise
    return Storage.over(session, liveness=liveness, settings=settings, packs=packs, on_request=on_request)


def _report_crash(name: str, error: BaseException) -> None:
    _log.error("storage-task-crashed", task=name, exc_info=error)
