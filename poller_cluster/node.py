"""The service that a node is: its parts, and how they start and stop.

    MembershipAgent --trust, members--> LeaseBalancer --granted/drain/revoked--> PollerGrants
             HandOver --release all-----------^                                       | begins, ends
                                                                                      v
    ServedClients --quota, state--> NodePollers --holds--> ClientPollers --claims--> Dispatcher
                                         |                       '--outcomes--> Bookkeeper
    CronWork, Reconciler, Retention <----'

A node sends and writes only for the pollers that the lease balancer grants it, under the epoch that comes with each,
and only while trusted; after a lapse of trust it reads its clients before it acts (`clients`). Stopping is a drain: the
node hands over every poller before it leaves."""

from typing import Protocol

from membership.identity import NodeIncarnation, PollerKey
from membership.lease_balancer import LeaseBalancer
from membership.membership_agent import MembershipAgent, NodeProfile
from membership.settings import MembershipSettings
from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.backlog import Backlog
from poller_cluster.bookkeeping import Bookkeeper, Recounts
from poller_cluster.clients import ServedClients
from poller_cluster.clock_correction import ClockCorrection
from poller_cluster.counters import CallCounts
from poller_cluster.crons.cron_work import CronWork
from poller_cluster.crons.expander import CronEngine
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.targets.port import EngineService
from poller_cluster.destination_figures import CollectFigures
from poller_cluster.dispatch.attempt_traces import UNTRACED, AttemptTraces
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.due_clock import DueClock
from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.preparation import Preparation
from poller_cluster.dispatch.request import Sender
from poller_cluster.dispatch.tokens import Fetcher
from poller_cluster.events.outcome_events import OutcomeEvents
from poller_cluster.events.tracks import EventTracks
from poller_cluster.hand_over import HandOver
from poller_cluster.minute.context import MinuteContext
from poller_cluster.minute.limits import MinuteLimits
from poller_cluster.node_pollers import NodePollers, PollerGrants
from poller_cluster.node_runtime import NodeRuntime
from poller_cluster.node_stores import NodeStores
from poller_cluster.notices.calls import NoticeCalls
from poller_cluster.notices.collector import NoticeCollector
from poller_cluster.notices.ends import EndNotices
from poller_cluster.notices.node_events import NodeEvents
from poller_cluster.notices.success_deadlines import SuccessDeadlines
from poller_cluster.recent_calls import RecentCalls
from poller_cluster.reconciliation import Reconciler, reconcile_over
from poller_cluster.retention import Retention
from poller_cluster.settings import NodeSettings
from scheduler_service.domain.events import Event
from scheduler_service.domain.ids import ClientId, PollerId
from scheduler_service.domain.notices import EVENTS_CLIENT
from scheduler_service.domain.ports import HintSender, SecretEncryption
from scheduler_service.domain.schedules import Outcome
from scheduler_service.domain.targets import NO_KINDS, TargetKinds
from scheduler_service.runtime.lifecycle import Service, Tasks
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.runtime.timekeeper import DisciplinedClock, Timekeeper
from scheduler_service.usecases.balance import CountMinute
from scheduler_service.usecases.minute_loads import KeepMinuteLoads
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter

CLIENTS_PAUSE_SECONDS = 0.5
"""Pause between attempts to read the clients at the start, while storage does not answer."""


class FetcherService(Fetcher, Service, Protocol):
    """The fetcher of tokens that a node starts and stops."""


class NodeProcess(Protocol):
    """The process that a node runs in, as the node reports to it."""

    def node_over(self, reason: str) -> None:
        """The incarnation has ended without `stop`, for instance because others declared it dead: exit."""

    def task_crashed(self, name: str, error: BaseException) -> None:
        """A task of the node has ended with an unhandled exception: exit."""

    def work_failed(self, name: str, error: BaseException) -> None:
        """Processing a minute or row raised an unhandled exception. It is retried or fails alone; the node goes on."""


class Node:
    """A `Service`."""

    def __init__(
        self,
        *,
        incarnation: NodeIncarnation,
        profile: NodeProfile,
        stores: NodeStores,
        encryption: SecretEncryption,
        engine: EngineService,
        fetcher: FetcherService,
        clock: DisciplinedClock,
        randomness: Randomness,
        settings: NodeSettings,
        membership: MembershipSettings,
        process: NodeProcess,
        budget: BackgroundBudget,
        hints: HintSender | None = None,
        kinds: TargetKinds = NO_KINDS,
        traces: AttemptTraces = UNTRACED,
    ) -> None:
        """`kinds` are those of the engine's targets. `budget` is told of all requests of `stores`. `hints` tells other
        nodes of rows placed in their pollers near their due. Parts that an earlier one needs are looked up when they
        are called."""
        self.incarnation = incarnation
        self.budget = budget
        self.running = False
        """Whether the node is started, and a member."""
        self._stores, self._settings, self._membership = stores, settings, membership
        self._clock, self._randomness = clock, randomness
        self._engine, self._fetcher, self._kinds, self._traces = engine, fetcher, kinds, traces
        self._tasks = Tasks(process.task_crashed)
        self.membership_agent = MembershipAgent(
            incarnation=incarnation,
            profile=profile,
            store=stores.members,
            clock=clock,
            settings=membership,
            spawn=self._tasks.spawn,
            on_over=process.node_over,
            low_watermark=lambda: self.balancer.low_watermark(),
            on_trusted=lambda: self.clients.recheck(),
        )
        self._runtime = NodeRuntime(
            clock=clock,
            randomness=randomness,
            spawn=self._tasks.spawn,
            budget=budget,
            trusted=lambda: self.membership_agent.trusted() and self.clients.current,
            on_fault=process.work_failed,
        )
        self.clients = self._build_clients(encryption)
        self.pollers = NodePollers(clients=self.clients, elsewhere=hints, draining=lambda: self.draining)
        self.backlog = Backlog(pollers=self.pollers, clock=clock)
        self._writer = ScheduleWriter(
            schedules=stores.schedules,
            keys=stores.schedule_keys,
            leases=stores.leases,
            clock=clock,
            randomness=randomness,
            hints=self.pollers,
        )
        self.crons = CronWork(
            stores=stores,
            writer=self._writer,
            clients=self.clients,
            pollers=self.pollers,
            node_id=incarnation.node_id,
            runtime=self._runtime,
            missed=lambda fire: self.node_events.cron_missed(fire),
            placed=traces.expanded,
        )
        self.reconciler = self._build_reconciler()
        self._retention = self._build_retention()
        self.books = self._build_books()
        self.collector = NoticeCollector(clients=self.clients, writer=self._writer, runtime=self._runtime)
        self.tracks = EventTracks(
            store=stores.events,
            runtime=self._runtime,
            on_appended=self.books.counts.events_appended,
            placed=self.collector.place,
        )
        self.dispatcher = self._build_dispatcher(
            Sender(incarnation=str(incarnation), version=profile.version, acknowledgements=settings.acknowledgements)
        )
        self.ends = EndNotices(clients=self.clients, schedules=stores.schedules, writer=self._writer)
        self.node_events = NodeEvents(clients=self.clients, writer=self._writer, runtime=self._runtime)

        async def append(poller_id: PollerId, client_id: ClientId, event: Event) -> None:
            await self.tracks.append(EVENTS_CLIENT, poller_id, event, feed=client_id)

        self.notices = NoticeCalls(
            dispatcher=self.dispatcher,
            clients=self.clients,
            stored=stores.clients,
            pollers=self.pollers,
            events=stores.events,
            subscriptions=stores.subscriptions,
            destinations=stores.destinations,
            runtime=self._runtime,
            append=append,
            deadlines=SuccessDeadlines(
                resolve=ResolveSchedule(schedules=stores.schedules, writer=self._writer),
                clients=stores.clients,
                destinations=stores.destinations,
                append=append,
                clock=clock,
            ),
        )
        self.destinations = CollectFigures(
            counts=self.books.counts.destinations,
            clients=self.clients,
            dispatcher=self.dispatcher,
            pollers=self.pollers,
            clock=clock,
        )
        self.recent_calls = RecentCalls(counts=self.books.counts, clock=clock)
        self._minute_loads = KeepMinuteLoads(store=stores.minute_loads, clock=clock)
        self._clock_correction = self._build_clock_correction()
        self.balancer = self._build_balancer(self._build_grants())
        self.hand_over = self._build_hand_over()

    # Its parts.

    def _build_clients(self, encryption: SecretEncryption) -> ServedClients:
        return ServedClients(
            store=self._stores.clients,
            destinations=self._stores.destinations,
            encryption=encryption,
            clock=self._clock,
            randomness=self._randomness,
            on_change=self._clients_changed,
            on_confirmed=lambda client_id: self.pollers.wake(client_id),
            bounds=self._settings.clients,
            kinds=self._kinds,
        )

    def _build_reconciler(self) -> Reconciler:
        return Reconciler(
            store=self._stores.reconciliations,
            reconcile=reconcile_over(self._stores, writer=self._writer, clients=self.clients, runtime=self._runtime),
            clients=self.clients,
            pollers=self.pollers,
            settings=self._settings.reconciliations,
            runtime=self._runtime,
        )

    def _build_retention(self) -> Retention:
        return Retention(
            schedules=self._stores.schedules,
            archives=self._stores.archives if self._settings.retention_waits_for_archive else None,
            clients=self.clients,
            pollers=self.pollers,
            runtime=self._runtime,
        )

    def _build_books(self) -> Bookkeeper:
        return Bookkeeper(
            balances=self._stores.balances,
            dead_letters=self._stores.dead_letters,
            attempts=self._stores.attempts,
            clock=self._clock,
            spawn=self._tasks.spawn,
            counts=CallCounts(named_clients=self._settings.named_clients),
        )

    def _build_dispatcher(self, sender: Sender) -> Dispatcher:
        preparation = Preparation(
            clients=self.clients,
            sender=sender,
            fetcher=self._fetcher,
            runtime=self._runtime,
            on_token=lambda jobs: self.dispatcher.resume(jobs),
            on_fetched=lambda key, failure: self.books.counts.token_fetched(key, failure, now=self._clock.wall_ms()),
            traces=self._traces,
        )
        limit_ms = self._membership.clock_limit_ms
        return Dispatcher(
            engine=CronEngine(calls=self._engine, expander=self.crons.expander),
            clients=self.clients,
            pollers=self.pollers,
            preparation=preparation,
            due_clock=DueClock(clock=self._clock, view=lambda: self.membership_agent.view, limit_ms=limit_ms),
            runtime=self._runtime,
            on_result=self._attempt_made,
            on_breaker=lambda job, name, opened: self.node_events.breaker_changed(job, name, opened),
            receivers=self._settings.receivers,
        )

    def _attempt_made(self, job: Job, result: AttemptResult, outcome: Outcome) -> None:
        self.books.attempt_made(job, result, outcome)
        if result.answer is not None:
            self.ends.attempt_made(job, result, outcome)

    def _build_clock_correction(self) -> ClockCorrection:
        return ClockCorrection(
            clock=self._clock,
            grace_ms=self._settings.minute.grace_ms,
            ahead_of_servers_ms=self.membership_agent.servers.ahead_of_most_ms,
            leases=lambda: self.balancer.leases(),
            pollers=self.pollers,
            start_again=self._start_again,
        )

    def _build_grants(self) -> PollerGrants:
        stores = self._stores
        count = CountMinute(schedules=stores.schedules, balances=stores.balances, clock=self._clock)
        context = MinuteContext(
            runtime=self._runtime,
            schedules=stores.schedules,
            writer=self._writer,
            clients=self.clients,
            dispatcher=self.dispatcher,
            notices=self.notices,
            node_events=self.node_events,
            fire_guard=self.crons.fire_guard,
            books=self.books,
            limits=MinuteLimits(self._settings.minute),
            breaker_longest_seconds=self._settings.receivers.breaker_longest_seconds,
            recount=Recounts(count=count, runtime=self._runtime).ask,
            events=OutcomeEvents(
                tracks=self.tracks,
                store=stores.events,
                schedules=stores.schedules,
                leases=stores.leases,
                clients=self.clients,
                runtime=self._runtime,
            ),
            ends=self.ends,
        )
        return PollerGrants(
            pollers=self.pollers,
            context=context,
            settings=self._settings.minute,
            clock_correction=self._clock_correction,
            on_lost=self._start_again,
        )

    def _build_balancer(self, grants: PollerGrants) -> LeaseBalancer:
        return LeaseBalancer(
            incarnation=self.incarnation,
            members=self.membership_agent,
            store=self._stores.own_leases,
            host=grants,
            credibility=self._clock_correction,
            clock=self._clock,
            settings=self._membership,
            spawn=self._tasks.spawn,
        )

    def _build_hand_over(self) -> HandOver:
        return HandOver(
            incarnation=self.incarnation,
            members=self.membership_agent,
            store=self._stores.members,
            balancer=self.balancer,
            clock=self._clock,
            silent_after=self._membership.dead_after_seconds,
            spawn=self._tasks.spawn,
        )

    # What happens between them.

    def _clients_changed(self) -> None:
        self.balancer.set_pollers(
            {str(client.client_id): client.record.poller_ceiling for client in self.clients.all()}
        )
        self.pollers.clients_changed()
        self.notices.clients_changed()
        self.dispatcher.wake()

    def _start_again(self, poller: PollerKey, epoch: int) -> None:
        """Give a poller up, and take it under a new epoch."""
        self.balancer.suspect(poller, epoch=epoch)

    # Service.

    async def start(self) -> None:
        await self._engine.start()
        await self._fetcher.start()
        while not await self.clients.refresh():
            await self._clock.sleep(CLIENTS_PAUSE_SECONDS)
        await self.membership_agent.start()
        timekeeper = Timekeeper(
            clock=self._clock,
            witnesses=lambda: self.membership_agent.view.witnesses,
            alone=lambda: len(self.membership_agent.view.members) <= 1,
            servers=self.membership_agent.servers.ahead_ms,
            accepted=self._clock_correction.step_accepted,
        )
        spawn = self._tasks.spawn
        spawn(timekeeper.run(), name="timekeeper")
        spawn(self.clients.run(), name="clients")
        spawn(self.dispatcher.run(), name="dispatcher")
        spawn(self._retention.run(), name="retention")
        spawn(self.crons.overdue_scan.run(), name="overdue scan of crons")
        spawn(self.reconciler.run(), name="search for reconciliations")
        spawn(self._minute_loads.run(), name="minute loads")
        await self.balancer.start()
        self._clients_changed()
        self.running = True

    async def stop(self) -> None:
        """Hand over every poller, leave the cluster, stop."""
        await self.hand_over.finish()
        await self.balancer.stop()
        await self.membership_agent.stop()
        await self._fetcher.stop()
        await self._engine.stop()
        await self.books.flush()
        await self._minute_loads.finish()
        await self._tasks.close()

    @property
    def draining(self) -> bool:
        """Whether its pollers are being handed over, or have been."""
        return self.hand_over.begun
