"""The use cases that routes call, and how they are built from ports."""

from dataclasses import dataclass
from typing import Protocol

from membership.ports import LeaseStore
from scheduler_service.api.health import ApiHealth
from scheduler_service.api.rate_limit import RateLimit
from scheduler_service.api.request_budget import BodyRoom, RequestBudget
from scheduler_service.api.settings import ApiSettings
from scheduler_service.domain.ports import (
    AttemptStore,
    AuditLogStore,
    AuditStore,
    BalanceStore,
    ClientStore,
    CronStore,
    DeadLetterStore,
    HintSender,
    IdempotencyStore,
    NodePorts,
    ReconciliationStore,
    ScheduleStore,
    SecretEncryption,
    TrialCaller,
    UsageStore,
)
from scheduler_service.domain.quotas import PollerChooser
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.admission import AdmitCreates, JudgeClock
from scheduler_service.usecases.audit_log import AuditActions
from scheduler_service.usecases.authenticate import Authenticate, Catalog
from scheduler_service.usecases.balance import ShowBalance
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.clients import ChangeClient, DeleteClient, RegisterClient, ShowClients, SuspendClient
from scheduler_service.usecases.cluster import DrainNode, ShowCluster, ShowPollers
from scheduler_service.usecases.create_schedules import CreateSchedules
from scheduler_service.usecases.crons import ChangeCrons, RequestCrons
from scheduler_service.usecases.idempotency import CreateIdempotently, RememberRequest
from scheduler_service.usecases.keys import Keys
from scheduler_service.usecases.list_schedules import ListSchedules, ShowAttempts
from scheduler_service.usecases.members import WatchMembers
from scheduler_service.usecases.reconciliations import RequestReconciliations, ShowReconciliations
from scheduler_service.usecases.redeliver import ListDeadLetters, RedeliverSchedule, RedriveDeadLetters
from scheduler_service.usecases.reports import ShowJobResults
from scheduler_service.usecases.reschedule_schedule import RescheduleSchedule
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_request import CallbackPolicy
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.show_crons import ShowCrons
from scheduler_service.usecases.signing_secrets import SigningSecrets
from scheduler_service.usecases.storage_probes import ProbeStorage
from scheduler_service.usecases.trial_call import SendTrialCall


class StoragePorts(Protocol):
    """The stores that the API needs."""

    @property
    def schedules(self) -> ScheduleStore: ...

    @property
    def clients(self) -> ClientStore: ...

    @property
    def leases(self) -> LeaseStore: ...

    @property
    def balances(self) -> BalanceStore: ...

    @property
    def crons(self) -> CronStore: ...

    @property
    def attempts(self) -> AttemptStore: ...

    @property
    def dead_letters(self) -> DeadLetterStore: ...

    @property
    def audit_log(self) -> AuditLogStore: ...

    @property
    def idempotency(self) -> IdempotencyStore: ...

    @property
    def reconciliations(self) -> ReconciliationStore: ...

    @property
    def usage(self) -> UsageStore: ...

    @property
    def audits(self) -> AuditStore: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """What the routes may call: use cases and parts of the API, never a store (a test checks)."""

    clock: Clock
    randomness: Randomness
    catalog: Catalog
    encryption: SecretEncryption
    authenticate: Authenticate
    show_clients: ShowClients
    register_client: RegisterClient
    suspend_client: SuspendClient
    delete_client: DeleteClient
    keys: Keys
    signing_secrets: SigningSecrets
    rate_limit: RateLimit
    request_budget: RequestBudget
    body_room: BodyRoom
    create_schedules: CreateSchedules
    resolve_schedule: ResolveSchedule
    cancel_schedules: CancelSchedules
    list_schedules: ListSchedules
    show_attempts: ShowAttempts
    list_dead_letters: ListDeadLetters
    redeliver_schedule: RedeliverSchedule
    redrive_dead_letters: RedriveDeadLetters
    reschedule_schedule: RescheduleSchedule
    create_idempotently: CreateIdempotently
    change_crons: ChangeCrons
    request_crons: RequestCrons
    show_crons: ShowCrons
    show_balance: ShowBalance
    send_trial_call: SendTrialCall
    request_reconciliations: RequestReconciliations
    show_reconciliations: ShowReconciliations
    show_job_results: ShowJobResults
    health: ApiHealth
    show_cluster: ShowCluster
    show_pollers: ShowPollers
    drain_node: DrainNode
    audit_log: AuditActions


def build_services(
    *,
    storage: StoragePorts,
    clock: Clock,
    randomness: Randomness,
    hints: HintSender,
    members: WatchMembers,
    nodes: NodePorts,
    trial_calls: TrialCaller,
    encryption: SecretEncryption,
    settings: ApiSettings,
    clock_limit_ms: int,
) -> ApiServices:
    """The use cases of one process over one storage. `clock_limit_ms`: creates are refused at this clock offset."""
    catalog = Catalog(store=storage.clients, clock=clock, bounds=settings.clients)
    change = ChangeClient(store=storage.clients, catalog=catalog)
    keys = Keys(store=storage.clients, catalog=catalog, clock=clock, randomness=randomness)
    judge_clock = JudgeClock(clock=clock, compared=members, limit_ms=clock_limit_ms)
    writer = ScheduleWriter(
        schedules=storage.schedules,
        leases=storage.leases,
        clock=clock,
        randomness=randomness,
        hints=hints,
        low_watermark_of=members.low_watermark_of,
        clock_doubted=judge_clock.doubted,
    )
    resolve = ResolveSchedule(schedules=storage.schedules, writer=writer)
    cancel = CancelSchedules(schedules=storage.schedules, writer=writer, clock=clock)
    letters = ListDeadLetters(letters=storage.dead_letters, schedules=storage.schedules)
    redeliver = RedeliverSchedule(schedules=storage.schedules, attempts=storage.attempts, writer=writer, clock=clock)
    pollers = PollerChooser(randomness)
    admit = AdmitCreates(judge_clock=judge_clock)
    policy = CallbackPolicy(network=settings.network, bounds=settings.clients, encryption=encryption)
    create = CreateSchedules(
        writer=writer,
        pollers=pollers,
        policy=policy,
        admit=admit,
        clock=clock,
        randomness=randomness,
    )
    reschedule = RescheduleSchedule(
        schedules=storage.schedules,
        resolve=resolve,
        cancel=cancel,
        writer=writer,
        pollers=pollers,
        policy=policy,
        clock=clock,
    )
    remember = RememberRequest(keys=storage.idempotency)
    change_crons = ChangeCrons(crons=storage.crons, catalog=catalog, writer=writer, encryption=encryption, clock=clock)
    return ApiServices(
        clock=clock,
        randomness=randomness,
        catalog=catalog,
        encryption=encryption,
        authenticate=Authenticate(catalog=catalog, admin_key=settings.admin_key),
        show_clients=ShowClients(store=storage.clients),
        register_client=RegisterClient(
            store=storage.clients, leases=storage.leases, catalog=catalog, change=change, clock=clock
        ),
        suspend_client=SuspendClient(change=change),
        delete_client=DeleteClient(store=storage.clients, change=change, keys=keys),
        keys=keys,
        signing_secrets=SigningSecrets(
            store=storage.clients, encryption=encryption, clock=clock, randomness=randomness
        ),
        rate_limit=RateLimit(clock=clock),
        request_budget=RequestBudget(
            clock=clock,
            client_per_second=settings.client_budget_per_second,
            admin_per_second=settings.admin_budget_per_second,
        ),
        body_room=BodyRoom(
            limit=max(settings.held_body_bytes, settings.max_body_bytes), connections=settings.max_connections
        ),
        create_schedules=create,
        resolve_schedule=resolve,
        cancel_schedules=cancel,
        list_schedules=ListSchedules(schedules=storage.schedules),
        redeliver_schedule=redeliver,
        reschedule_schedule=reschedule,
        create_idempotently=CreateIdempotently(
            remember=remember,
            create=create,
            redeliver=redeliver,
            reschedule=reschedule,
            resolve=resolve,
            writer=writer,
            clock=clock,
        ),
        redrive_dead_letters=RedriveDeadLetters(letters=letters, redeliver=redeliver),
        show_attempts=ShowAttempts(resolve=resolve, attempts=storage.attempts),
        list_dead_letters=letters,
        change_crons=change_crons,
        request_crons=RequestCrons(
            change=change_crons,
            admit=admit,
            policy=policy,
            clock=clock,
        ),
        show_balance=ShowBalance(schedules=storage.schedules, balances=storage.balances, clock=clock),
        send_trial_call=SendTrialCall(
            clients=storage.clients,
            encryption=encryption,
            caller=trial_calls,
            policy=policy,
            admit=admit,
            clock=clock,
            randomness=randomness,
        ),
        show_job_results=ShowJobResults(usage=storage.usage, audits=storage.audits),
        show_crons=ShowCrons(crons=storage.crons, resolve=resolve, clock=clock),
        request_reconciliations=RequestReconciliations(
            store=storage.reconciliations,
            remember=remember,
            admit=admit,
            clock=clock,
            randomness=randomness,
            max_days=settings.max_reconciled_days,
        ),
        show_reconciliations=ShowReconciliations(store=storage.reconciliations),
        health=ApiHealth(clock=clock, probe=ProbeStorage(store=storage.clients, clock=clock), judge_clock=judge_clock),
        show_cluster=ShowCluster(members=members, clients=storage.clients, leases=storage.leases, clock=clock),
        show_pollers=ShowPollers(members=members, leases=storage.leases, schedules=storage.schedules, clock=clock),
        drain_node=DrainNode(members=members, nodes=nodes),
        audit_log=AuditActions(store=storage.audit_log, clock=clock, randomness=randomness),
    )
