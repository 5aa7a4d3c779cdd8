"""The stores of a node."""

from dataclasses import dataclass

from membership.ports import LeaseStore, MemberStore
from scheduler_service.domain.ports import (
    ArchiveStore,
    AttemptStore,
    BalanceStore,
    ClientStore,
    CronStore,
    DeadLetterStore,
    ReconciliationStore,
    ScheduleStore,
    SecretEncryption,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStores:
    """The stores a node works with. `own_leases` takes and keeps its pollers' leases; `leases` reads those of any
    node."""

    schedules: ScheduleStore
    clients: ClientStore
    members: MemberStore
    own_leases: LeaseStore
    leases: LeaseStore
    balances: BalanceStore
    attempts: AttemptStore
    dead_letters: DeadLetterStore
    crons: CronStore
    reconciliations: ReconciliationStore
    encryption: SecretEncryption
    archives: ArchiveStore
