"""Everything this room offers, put together over one connection."""

import logging
from dataclasses import dataclass

from cql.audit import CqlAuditStore
from cql.books import CqlAttemptStore, CqlBalanceStore, CqlDeadLetterStore
from cql.clients import CqlClientStore
from cql.connection import Connection
from cql.crons import CqlCronStore
from cql.group_commit import GroupCommit
from cql.idempotency import CqlIdempotencyStore
from cql.leases import CqlLeaseStore
from cql.members import CqlMemberStore
from cql.migrate import check_schema, load_migrations
from cql.reconciliations import CqlReconciliationStore
from cql.schedules import CqlScheduleStore
from cql.session import Session
from cql.settings import StorageSettings
from cql.statement import load_statements
from scheduler_service.runtime.lifecycle import Tasks

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The stores of one keyspace. Belongs to one event loop. `each_quorum` commits what asks for EACH_QUORUM, with
    bounds of its own."""

    connection: Connection
    group_commit: GroupCommit
    each_quorum: GroupCommit
    tasks: Tasks
    schedules: CqlScheduleStore
    clients: CqlClientStore
    crons: CqlCronStore
    members: CqlMemberStore
    leases: CqlLeaseStore
    balances: CqlBalanceStore
    attempts: CqlAttemptStore
    dead_letters: CqlDeadLetterStore
    audit: CqlAuditStore
    idempotency: CqlIdempotencyStore
    reconciliations: CqlReconciliationStore

    @classmethod
    def over(cls, connection: Connection, *, settings: StorageSettings | None = None) -> "Storage":
        """The stores over any connection: the driver's, an in-memory one, or either behind a decorator."""
        settings = settings or StorageSettings()
        tasks = Tasks(_report_crash)
        group_commit = GroupCommit(connection, tasks=tasks, settings=settings)
        each_quorum = GroupCommit(connection, tasks=tasks, settings=settings, consistency="EACH_QUORUM")
        return cls(
            connection=connection,
            group_commit=group_commit,
            each_quorum=each_quorum,
            tasks=tasks,
            schedules=CqlScheduleStore(
                connection, group_commit=group_commit, each_quorum=each_quorum, settings=settings
            ),
            clients=CqlClientStore(connection),
            crons=CqlCronStore(connection, tasks=tasks, settings=settings),
            members=CqlMemberStore(connection),
            leases=CqlLeaseStore(connection),
            balances=CqlBalanceStore(connection),
            attempts=CqlAttemptStore(connection),
            dead_letters=CqlDeadLetterStore(connection),
            audit=CqlAuditStore(connection),
            idempotency=CqlIdempotencyStore(connection),
            reconciliations=CqlReconciliationStore(connection),
        )

    async def close(self) -> None:
        """Inserts not yet answered fail as unavailable; then the connection closes. Idempotent."""
        self.group_commit.close()
        self.each_quorum.close()
        await self.tasks.close()
        await self.connection.close()


async def open_storage(settings: StorageSettings) -> Storage:
    """Connect to a migrated keyspace.

    Raises StoreUnavailable when no Cassandra answers, SchemaOutdated before `migrate` was run, WrongHome for another
    data centre than the keyspace's, StoreRefused for a wrong login.
    """
    session = await Session.open(settings, keyspace=settings.keyspace)
    try:
        await check_schema(session, settings, needed=len(load_migrations()))
        await session.prepare([name for name in load_statements() if not name.startswith("schema.")])
    except BaseException:
        await session.close()
        raise
    return Storage.over(session, settings=settings)


def _report_crash(name: str, error: BaseException) -> None:
    _log.error("storage-task-crashed task=%s", name, exc_info=error)
