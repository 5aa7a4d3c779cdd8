"""The use cases that routes call, and how they are built from ports.

    storage, clock, randomness
        -> the catalog, and who is calling
        -> the schedule writer, admission and the callback policy, which all that creates rows share
        -> the verbs of each noun: clients, schedules, dead letters, crons, reconciliations, books, cluster

A noun with several use cases has a class here, whose attributes are verbs: `services.crons.show`. A noun with one use
case is that use case: `services.keys`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from membership.ports import LeaseStore
from scheduler_service.api.event_readers import WaitingReaders
from scheduler_service.api.goscheduler.callers import GoSchedulerCallers
from scheduler_service.api.health import ApiHealth
from scheduler_service.api.rate_limit import RateLimit
from scheduler_service.api.request_budget import BodyCapacity, RequestBudget
from scheduler_service.api.settings import ApiSettings
from scheduler_service.domain.acknowledgements import ACKS_SINCE
from scheduler_service.domain.destinations import DESTINATIONS_SINCE
from scheduler_service.domain.end_notices import END_NOTICES_SINCE
from scheduler_service.domain.events import EVENTS_SINCE
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.overdue_rates import OVERDUE_RATES_SINCE
from scheduler_service.domain.ports import (
    AttemptStore,
    AuditLogStore,
    AuditStore,
    BalanceStore,
    ClientStore,
    CronStore,
    DeadLetterStore,
    DestinationStore,
    EventStore,
    HintSender,
    IdempotencyStore,
    MinuteLoadStore,
    NodePorts,
    ReconciliationStore,
    ScheduleKeyStore,
    ScheduleStore,
    SecretEncryption,
    SessionStore,
    SubscriptionStore,
    TrialCaller,
    UsageStore,
)
from scheduler_service.domain.quotas import PollerChooser
from scheduler_service.domain.revisions import REVISED_SINCE
from scheduler_service.domain.sessions import NO_RIGHTS, Rights
from scheduler_service.domain.subscriptions import NOTICES_SINCE
from scheduler_service.domain.success_deadlines import DEADLINES_SINCE
from scheduler_service.domain.targets import NO_KINDS, TargetKinds
from scheduler_service.domain.wires import WIRES_SINCE
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.acknowledge import AcknowledgeWork, CheckAddress, ack_fault
from scheduler_service.usecases.admission import AdmitCreates, AdmitKnown, JudgeClock
from scheduler_service.usecases.audit_log import AuditActions
from scheduler_service.usecases.authenticate import Authenticate, Catalog
from scheduler_service.usecases.backfill_crons import BackfillCron
from scheduler_service.usecases.backlog import ShowBacklog
from scheduler_service.usecases.balance import ShowBalance
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.clients import (
    ChangeClient,
    ChangeOwnSettings,
    DeleteClient,
    PauseClient,
    RegisterClient,
    ShowClients,
    SuspendClient,
    SwitchFeedOn,
)
from scheduler_service.usecases.cluster import DrainNode, ShowCluster, ShowPollers
from scheduler_service.usecases.create_schedules import CreateSchedules
from scheduler_service.usecases.create_traces import CreateTraces
from scheduler_service.usecases.crons import ChangeCrons, RequestCrons
from scheduler_service.usecases.dead_letters import AcknowledgeDeadLetters, ListDeadLetters, RedriveDeadLetters
from scheduler_service.usecases.destination_figures import ShowDestinationFigures
from scheduler_service.usecases.destination_users import FindDestinationUsers
from scheduler_service.usecases.destinations import Destinations
from scheduler_service.usecases.explain_schedule import ExplainSchedule
from scheduler_service.usecases.forecast import ShowForecast
from scheduler_service.usecases.held_back import FindHeldBack
from scheduler_service.usecases.idempotency import CreateIdempotently, RememberRequest, SeeCreated
from scheduler_service.usecases.key_uses import RecordKeyUses
from scheduler_service.usecases.keys import Keys
from scheduler_service.usecases.latest_audits import ShowLatestAudits
from scheduler_service.usecases.list_schedules import ListSchedules
from scheduler_service.usecases.members import WatchMembers
from scheduler_service.usecases.minute_loads import KeepMinuteLoads
from scheduler_service.usecases.named_destinations import CachedDestinations
from scheduler_service.usecases.open_minutes import FindOpenMinutes
from scheduler_service.usecases.overdue_rate import ClusterOverdueRate
from scheduler_service.usecases.pause_crons import PauseCrons
from scheduler_service.usecases.public_keys import ShowPublicKeys
from scheduler_service.usecases.read_events import ReadEvents
from scheduler_service.usecases.recent_calls import ShowRecentCalls
from scheduler_service.usecases.reconciliations import RequestReconciliations, ShowReconciliations
from scheduler_service.usecases.reconciliations_under_way import ListUnderWay
from scheduler_service.usecases.redeliver import RedeliverSchedule
from scheduler_service.usecases.redeliver_notices import RedeliverNotice
from scheduler_service.usecases.reports import ShowJobResults
from scheduler_service.usecases.reschedule_schedule import RescheduleSchedule
from scheduler_service.usecases.reschedule_window import RescheduleWindow
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_keys import ScheduleKeys
from scheduler_service.usecases.schedule_request import CallbackPolicy
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.sessions import Sessions
from scheduler_service.usecases.show_attempts import ShowAttempts
from scheduler_service.usecases.show_crons import ShowCrons
from scheduler_service.usecases.signing_secrets import SigningSecrets
from scheduler_service.usecases.storage_probes import ProbeStorage
from scheduler_service.usecases.subscriptions import Subscriptions
from scheduler_service.usecases.trial_call import SendTrialCall
from scheduler_service.usecases.trigger_crons import TriggerCron


class StoragePorts(Protocol):
    """The stores that the API needs."""

    @property
    def schedules(self) -> ScheduleStore: ...

    @property
    def clients(self) -> ClientStore: ...

    @property
    def destinations(self) -> DestinationStore: ...

    @property
    def subscriptions(self) -> SubscriptionStore: ...

    @property
    def leases(self) -> LeaseStore: ...

    @property
    def minute_loads(self) -> MinuteLoadStore: ...

    @property
    def balances(self) -> BalanceStore: ...

    @property
    def crons(self) -> CronStore: ...

    @property
    def attempts(self) -> AttemptStore: ...

    @property
    def dead_letters(self) -> DeadLetterStore: ...

    @property
    def events(self) -> EventStore: ...

    @property
    def audit_log(self) -> AuditLogStore: ...

    @property
    def idempotency(self) -> IdempotencyStore: ...

    @property
    def schedule_keys(self) -> ScheduleKeyStore: ...

    @property
    def reconciliations(self) -> ReconciliationStore: ...

    @property
    def sessions(self) -> SessionStore: ...

    @property
    def usage(self) -> UsageStore: ...

    @property
    def audits(self) -> AuditStore: ...


class EventServices:
    """Clients' feeds, and who waits for them."""

    def __init__(self, *, storage: StoragePorts, clock: Clock) -> None:
        self.read = ReadEvents(store=storage.events, clock=clock)
        self.waiting = WaitingReaders()


class ClientServices:
    """Clients as administrators and they themselves see them."""

    def __init__(
        self,
        *,
        storage: StoragePorts,
        catalog: Catalog,
        keys: Keys,
        secrets: SigningSecrets,
        clock: Clock,
        admit_feed: Callable[[], None],
        admit_rate: Callable[[], None],
    ) -> None:
        clients = storage.clients
        change = ChangeClient(
            store=clients,
            catalog=catalog,
            subscriptions=storage.subscriptions,
            admit_feed=admit_feed,
            admit_rate=admit_rate,
        )
        suspension = SuspendClient(change=change)
        self.show = ShowClients(store=clients)
        self.register = RegisterClient(
            store=clients, leases=storage.leases, catalog=catalog, change=change, secrets=secrets, clock=clock
        )
        self.suspend = suspension.suspend
        self.resume = suspension.resume
        pausing = PauseClient(change=change)
        self.pause = pausing.pause
        self.unpause = pausing.unpause
        self.change_own_settings = ChangeOwnSettings(change=change)
        self.switch_feed_on = SwitchFeedOn(change=change, store=clients)
        self.delete = DeleteClient(store=clients, change=change, keys=keys)


class ScheduleServices:
    """Schedules; `idempotently` has the verbs that take an idempotency key, `trigger` of crons among them."""

    def __init__(
        self,
        *,
        storage: StoragePorts,
        writer: ScheduleWriter,
        trigger: TriggerCron,
        admit: AdmitCreates,
        policy: CallbackPolicy,
        clock: Clock,
        randomness: Randomness,
        in_place: Callable[[], bool],
        has_feed: Callable[[ClientId], bool],
        traces: CreateTraces | None,
    ) -> None:
        """`in_place()`: whether schedules may be updated in place. `has_feed`: as for `CancelSchedules`."""
        schedules, pollers = storage.schedules, PollerChooser(randomness)
        self.create = CreateSchedules(
            writer=writer,
            pollers=pollers,
            policy=policy,
            admit=admit,
            clock=clock,
            randomness=randomness,
            traces=traces,
        )
        self.list = ListSchedules(schedules=schedules)
        self.resolve = ResolveSchedule(schedules=schedules, writer=writer)
        self.attempts = ShowAttempts(resolve=self.resolve, attempts=storage.attempts)
        self.explain = ExplainSchedule(
            resolve=self.resolve, attempts=storage.attempts, leases=storage.leases, clock=clock
        )
        self.cancel = CancelSchedules(schedules=schedules, writer=writer, clock=clock, has_feed=has_feed)
        self.redeliver = RedeliverSchedule(schedules=schedules, attempts=storage.attempts, writer=writer, clock=clock)
        self.reschedule = RescheduleSchedule(
            schedules=schedules,
            resolve=self.resolve,
            cancel=self.cancel,
            writer=writer,
            pollers=pollers,
            policy=policy,
            clock=clock,
            in_place=in_place,
            traces=traces,
        )
        remember = RememberRequest(keys=storage.idempotency)
        self.reschedule_window = RescheduleWindow(
            schedules=schedules, listing=self.list, reschedule=self.reschedule, remember=remember
        )
        self.by_key = ScheduleKeys(
            create=self.create,
            resolve=self.resolve,
            cancel=self.cancel,
            writer=writer,
            clock=clock,
        )
        self.idempotently = CreateIdempotently(
            remember=remember,
            create=self.create,
            redeliver=self.redeliver,
            reschedule=self.reschedule,
            by_key=self.by_key,
            trigger=trigger,
            see_created=SeeCreated(resolve=self.resolve, writer=writer, clock=clock),
            clock=clock,
        )


class DeadLetterServices:
    """Schedules that failed for good."""

    def __init__(self, *, storage: StoragePorts, catalog: Catalog, redeliver: RedeliverSchedule, clock: Clock) -> None:
        notice = RedeliverNotice(
            schedules=storage.schedules, events=storage.events, redeliver=redeliver, catalog=catalog
        )
        self.list = ListDeadLetters(letters=storage.dead_letters, schedules=storage.schedules)
        self.acknowledge = AcknowledgeDeadLetters(store=storage.dead_letters, letters=self.list, clock=clock)
        self.redrive = RedriveDeadLetters(letters=self.list, redeliver=redeliver, redeliver_notice=notice)


class CronServices:
    """Crons; `request` has the changes that may lead to calls, `change` the others."""

    def __init__(
        self,
        *,
        storage: StoragePorts,
        catalog: Catalog,
        writer: ScheduleWriter,
        trigger: TriggerCron,
        redeliver: RedeliverSchedule,
        admit: AdmitCreates,
        policy: CallbackPolicy,
        clock: Clock,
    ) -> None:
        crons = storage.crons
        self.trigger = trigger
        resolve = ResolveSchedule(schedules=storage.schedules, writer=writer)
        self.change = ChangeCrons(
            crons=crons, catalog=catalog, writer=writer, encryption=policy.encryption, clock=clock
        )
        self.request = RequestCrons(change=self.change, admit=admit, policy=policy, clock=clock)
        self.backfill = BackfillCron(crons=crons, writer=writer, resolve=resolve, redeliver=redeliver, clock=clock)
        self.many = PauseCrons(crons=crons, change=self.change)
        self.show = ShowCrons(crons=crons, resolve=resolve, clock=clock)


class ReconciliationServices:
    """Durable requests about everything due in a window."""

    def __init__(
        self, *, storage: StoragePorts, admit: AdmitCreates, clock: Clock, randomness: Randomness, max_days: int
    ) -> None:
        self.request = RequestReconciliations(
            store=storage.reconciliations,
            remember=RememberRequest(keys=storage.idempotency),
            admit=admit,
            clock=clock,
            randomness=randomness,
            max_days=max_days,
        )
        self.show = ShowReconciliations(store=storage.reconciliations)
        self.under_way = ListUnderWay(store=storage.reconciliations, clients=storage.clients, clock=clock)


class BookServices:
    """The books, and what Spark jobs have counted and audited."""

    def __init__(self, *, storage: StoragePorts, clock: Clock) -> None:
        results = ShowJobResults(usage=storage.usage, audits=storage.audits)
        self.balance = ShowBalance(schedules=storage.schedules, balances=storage.balances, clock=clock)
        self.usage = results.usage
        self.audits = results.audits
        self.latest_audits = ShowLatestAudits(clients=storage.clients, audits=storage.audits, clock=clock)


class ClusterServices:
    """Nodes and the pollers that they own."""

    def __init__(
        self,
        *,
        storage: StoragePorts,
        members: WatchMembers,
        nodes: NodePorts,
        clock: Clock,
        admit_rate: Callable[[], None],
    ) -> None:
        leases = storage.leases
        draining = DrainNode(members=members, nodes=nodes)
        open_minutes = FindOpenMinutes(members=members, leases=leases, schedules=storage.schedules)
        self.backlog = ShowBacklog(
            members=members,
            clients=storage.clients,
            open_minutes=open_minutes,
            balances=storage.balances,
            loads=storage.minute_loads,
            destinations=storage.destinations,
            held_back=FindHeldBack(members=members, nodes=nodes),
            clock=clock,
        )
        self.overdue_rate = ClusterOverdueRate(store=storage.clients, admit_rate=admit_rate)
        self.show = ShowCluster(members=members, clients=storage.clients, leases=leases, clock=clock)
        self.pollers = ShowPollers(members=members, open_minutes=open_minutes, clock=clock)
        self.destination_figures = ShowDestinationFigures(members=members, nodes=nodes)
        self.recent_calls = ShowRecentCalls(members=members, nodes=nodes, clock=clock)
        self.drain = draining.drain
        self.undrain = draining.undrain


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServices:
    """What the routes may call: use cases and parts of the API, never a store (a test checks)."""

    clock: Clock
    randomness: Randomness
    encryption: SecretEncryption
    catalog: Catalog
    key_uses: RecordKeyUses
    authenticate: Authenticate
    sessions: Sessions
    audit_log: AuditActions
    rate_limit: RateLimit
    request_budget: RequestBudget
    body_capacity: BodyCapacity
    health: ApiHealth
    clients: ClientServices
    keys: Keys
    signing_secrets: SigningSecrets
    public_keys: ShowPublicKeys
    check_address: CheckAddress
    acknowledge: AcknowledgeWork
    schedules: ScheduleServices
    dead_letters: DeadLetterServices
    crons: CronServices
    destinations: Destinations
    subscriptions: Subscriptions
    reconciliations: ReconciliationServices
    books: BookServices
    events: EventServices
    cluster: ClusterServices
    forecast: ShowForecast
    minute_loads: KeepMinuteLoads
    send_trial_call: SendTrialCall
    goscheduler_callers: GoSchedulerCallers
    traces: CreateTraces | None


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
    kinds: TargetKinds = NO_KINDS,
    traces: CreateTraces | None = None,
    rights: Rights = NO_RIGHTS,
) -> ApiServices:
    """The use cases of one process over one storage. `clock_limit_ms`: creates are refused at this clock offset.
    `kinds`: what destinations may be beside http. `traces` None: creates are not traced. `rights`: those of people
    whom an OpenID provider knows."""
    clients = storage.clients
    catalog = Catalog(store=clients, clock=clock, bounds=settings.clients)
    keys = Keys(store=clients, catalog=catalog, clock=clock, randomness=randomness)
    secrets = SigningSecrets(store=clients, encryption=encryption, clock=clock, randomness=randomness)
    key_uses = RecordKeyUses(store=clients, clock=clock)
    judge_clock = JudgeClock(clock=clock, compared=members, limit_ms=clock_limit_ms)
    admit = AdmitCreates(
        judge_clock=judge_clock,
        admit_wires=AdmitKnown(
            members, since=WIRES_SINCE, older="would send such calls without the headers of this API"
        ),
    )
    policy = CallbackPolicy(
        network=settings.network,
        bounds=settings.clients,
        encryption=encryption,
        destinations=CachedDestinations(
            store=storage.destinations, catalog=catalog, encryption=encryption, clock=clock
        ),
        kinds=kinds,
        check_ack=partial(
            ack_fault,
            settings=settings.acknowledgements,
            admit=AdmitKnown(members, since=ACKS_SINCE, older="take a 202 for the end of a call with ack"),
        ),
        admit_ends=AdmitKnown(members, since=END_NOTICES_SINCE, older="do not know on_success and on_failure"),
        admit_deadline=AdmitKnown(members, since=DEADLINES_SINCE, older="know no success deadlines"),
    )
    writer = ScheduleWriter(
        schedules=storage.schedules,
        keys=storage.schedule_keys,
        leases=storage.leases,
        clock=clock,
        randomness=randomness,
        hints=hints,
        low_watermark_of=members.low_watermark_of,
        clock_doubted=judge_clock.doubted,
    )
    trigger = TriggerCron(crons=storage.crons, writer=writer, clock=clock)
    schedules = ScheduleServices(
        storage=storage,
        writer=writer,
        trigger=trigger,
        admit=admit,
        policy=policy,
        clock=clock,
        randomness=randomness,
        in_place=lambda: members.knows >= REVISED_SINCE,
        has_feed=catalog.has_feed,
        traces=traces,
    )
    admit_rate = AdmitKnown(members, since=OVERDUE_RATES_SINCE, older="keep to no overdue rate")
    client_services = ClientServices(
        storage=storage,
        catalog=catalog,
        keys=keys,
        secrets=secrets,
        clock=clock,
        admit_feed=AdmitKnown(members, since=EVENTS_SINCE, older="append no events"),
        admit_rate=admit_rate,
    )
    authenticate = Authenticate(catalog=catalog, uses=key_uses, clock=clock, admin_key=settings.admin_key)
    return ApiServices(
        clock=clock,
        randomness=randomness,
        encryption=encryption,
        catalog=catalog,
        key_uses=key_uses,
        authenticate=authenticate,
        sessions=Sessions(
            store=storage.sessions, authenticate=authenticate, clock=clock, randomness=randomness, rights=rights
        ),
        audit_log=AuditActions(store=storage.audit_log, clock=clock, randomness=randomness),
        rate_limit=RateLimit(clock=clock),
        request_budget=RequestBudget(settings=settings, clock=clock),
        body_capacity=BodyCapacity(settings=settings),
        health=ApiHealth(clock=clock, probe=ProbeStorage(store=clients, clock=clock), judge_clock=judge_clock),
        clients=client_services,
        keys=keys,
        signing_secrets=secrets,
        public_keys=ShowPublicKeys(store=clients, catalog=catalog, clock=clock),
        check_address=CheckAddress(clients=clients, encryption=encryption, clock=clock),
        acknowledge=AcknowledgeWork(schedules=storage.schedules, attempts=storage.attempts, writer=writer, clock=clock),
        schedules=schedules,
        dead_letters=DeadLetterServices(storage=storage, catalog=catalog, redeliver=schedules.redeliver, clock=clock),
        crons=CronServices(
            storage=storage,
            catalog=catalog,
            writer=writer,
            trigger=trigger,
            redeliver=schedules.redeliver,
            admit=admit,
            policy=policy,
            clock=clock,
        ),
        destinations=Destinations(
            store=storage.destinations,
            users=FindDestinationUsers(
                schedules=storage.schedules,
                crons=storage.crons,
                subscriptions=storage.subscriptions,
                leases=storage.leases,
                clock=clock,
            ),
            policy=policy,
            clock=clock,
            admit_new=AdmitKnown(members, since=DESTINATIONS_SINCE, older="do not know destinations"),
        ),
        subscriptions=Subscriptions(
            store=storage.subscriptions,
            named=policy.destinations,
            switch_on=client_services.switch_feed_on,
            clock=clock,
            admit_new=AdmitKnown(members, since=NOTICES_SINCE, older="send no notices"),
        ),
        reconciliations=ReconciliationServices(
            storage=storage, admit=admit, clock=clock, randomness=randomness, max_days=settings.max_reconciled_days
        ),
        books=BookServices(storage=storage, clock=clock),
        events=EventServices(storage=storage, clock=clock),
        cluster=ClusterServices(storage=storage, members=members, nodes=nodes, clock=clock, admit_rate=admit_rate),
        forecast=ShowForecast(
            members=members, clients=clients, crons=storage.crons, loads=storage.minute_loads, clock=clock
        ),
        minute_loads=KeepMinuteLoads(store=storage.minute_loads, clock=clock, reads=True),
        send_trial_call=SendTrialCall(
            clients=clients,
            destinations=storage.destinations,
            caller=trial_calls,
            policy=policy,
            admit=admit,
            clock=clock,
            randomness=randomness,
        ),
        goscheduler_callers=GoSchedulerCallers(
            settings=settings.goscheduler, authenticate=authenticate, catalog=catalog
        ),
        traces=traces,
    )
