"""The stores of a node."""

from typing import Protocol

from membership.ports import LeaseStore, MemberStore
from scheduler_service.domain.ports import (
    ArchiveStore,
    AttemptStore,
    AuditLogStore,
    BalanceStore,
    ClientStore,
    CronStore,
    DeadLetterStore,
    DestinationStore,
    EventStore,
    MinuteLoadStore,
    ReconciliationStore,
    ScheduleKeyStore,
    ScheduleStore,
    SubscriptionStore,
)


class NodeStores(Protocol):
    """The stores that a node needs. `own_leases` takes and keeps its pollers' leases; `leases` reads those of any
    node."""

    @property
    def schedules(self) -> ScheduleStore: ...

    @property
    def schedule_keys(self) -> ScheduleKeyStore: ...

    @property
    def clients(self) -> ClientStore: ...

    @property
    def destinations(self) -> DestinationStore: ...

    @property
    def events(self) -> EventStore: ...

    @property
    def subscriptions(self) -> SubscriptionStore: ...

    @property
    def members(self) -> MemberStore: ...

    @property
    def own_leases(self) -> LeaseStore: ...

    @property
    def leases(self) -> LeaseStore: ...

    @property
    def minute_loads(self) -> MinuteLoadStore: ...

    @property
    def balances(self) -> BalanceStore: ...

    @property
    def attempts(self) -> AttemptStore: ...

    @property
    def dead_letters(self) -> DeadLetterStore: ...

    @property
    def crons(self) -> CronStore: ...

    @property
    def reconciliations(self) -> ReconciliationStore: ...

    @property
    def audit_log(self) -> AuditLogStore: ...

    @property
    def archives(self) -> ArchiveStore: ...
