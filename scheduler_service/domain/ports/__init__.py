"""Interfaces that use cases and nodes need; `cql` implements the stores (over Cassandra, or in memory).

Reads are at LOCAL_QUORUM unless marked serial; a serial read sees every conditional write applied before it began.
`consistency` is for clients' requests: their reads (LOCAL_ONE: a write of a moment ago may be missing) and their
creates (EACH_QUORUM: unavailable while any data centre is). Reads that decide anything never pass it. Conditional
writes answer Applied, Rejected(current) or Unknown and never raise for storage trouble. Reads and plain writes raise
`StoreUnavailable` if no answer came; a plain write may then have taken effect all the same.
"""

from membership.ports import StoreUnavailable
from scheduler_service.domain.ports.audit_log import AuditLogStore
from scheduler_service.domain.ports.books import AttemptStore, BalanceStore, DeadLetterStore
from scheduler_service.domain.ports.calls import HintSender, NodePorts, TrialCaller
from scheduler_service.domain.ports.clients import CatalogPart, ClientStore, SecretEncryption
from scheduler_service.domain.ports.crons import CronStore
from scheduler_service.domain.ports.destinations import DestinationStore
from scheduler_service.domain.ports.events import EventStore
from scheduler_service.domain.ports.idempotency import IdempotencyStore
from scheduler_service.domain.ports.minute_loads import MinuteLoadStore
from scheduler_service.domain.ports.reconciliations import ReconciliationStore
from scheduler_service.domain.ports.reports import ArchiveStore, AuditStore, UsageStore
from scheduler_service.domain.ports.schedule_keys import ScheduleKeyStore
from scheduler_service.domain.ports.schedules import ScheduleStore
from scheduler_service.domain.ports.sessions import SessionStore
from scheduler_service.domain.ports.subscriptions import SubscriptionStore

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
    "DestinationStore",
    "EventStore",
    "HintSender",
    "IdempotencyStore",
    "MinuteLoadStore",
    "NodePorts",
    "ReconciliationStore",
    "ScheduleKeyStore",
    "ScheduleStore",
    "SecretEncryption",
    "SessionStore",
    "StoreUnavailable",
    "SubscriptionStore",
    "TrialCaller",
    "UsageStore",
]
