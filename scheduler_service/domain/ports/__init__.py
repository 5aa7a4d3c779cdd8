"""What use cases and nodes need from the world, implemented by `cql` (and, for tests, over its in-memory connection).

Reads are at LOCAL_QUORUM unless marked serial; a serial read sees every conditional write applied before it began.
`consistency` is for what clients ask: their looking (LOCAL_ONE: what was written a moment ago may not be seen) and
their creates (EACH_QUORUM: unavailable while any data centre is). What decides anything never gives it.
Conditional writes answer Applied, Rejected(current) or Unknown and never raise for storage trouble. Reads and plain
writes raise `StoreUnavailable` when no answer came; a plain write may then have taken effect all the same.
"""

from membership.ports import StoreUnavailable
from scheduler_service.domain.ports.books import (
    ArchiveStore,
    AttemptStore,
    AuditStore,
    BalanceStore,
    DeadLetterStore,
    ReconciliationStore,
    UsageStore,
)
from scheduler_service.domain.ports.calls import HintSender, NodePorts, TrialCaller
from scheduler_service.domain.ports.clients import (
    AuditLogStore,
    CatalogPart,
    ClientStore,
    IdempotencyStore,
    SecretEncryption,
)
from scheduler_service.domain.ports.schedules import CronStore, ScheduleStore

__all__ = [
    "ArchiveStore",
    "AttemptStore",
    "AuditLogStore",
    "AuditStore",
    "BalanceStore",
    "CatalogPart",
    "ClientStore",
    "CronStore",
    "DeadLetterStore",
    "HintSender",
    "IdempotencyStore",
    "NodePorts",
    "ReconciliationStore",
    "ScheduleStore",
    "SecretEncryption",
    "StoreUnavailable",
    "TrialCaller",
    "UsageStore",
]
