"""The shell that runs a node: its membership, its leases, and the pollers that it holds of each client.

    MembershipAgent --trust--> LeaseBalancer --granted/drain/revoked--> ClientPollers --claims--> Dispatcher
    ServedClients --quota, state, settings---------------------------------^   |
    hints ---------------------------------------------------------------------'

A node is a `PollerHost`: the lease balancer tells it which pollers it owns and under which epoch. It sends and writes
only for those, and only while trusted. Stopping is a drain: the node hands over every poller before it leaves."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from membership.identity import NodeIncarnation, PollerKey
from membership.lease_balancer import LeaseBalancer
from membership.membership_agent import MembershipAgent
from membership.ports import LeaseStore, MemberStore
from membership.settings import MembershipSettings
from membership.view import MembersView
from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.backlog import Backlog
from poller_cluster.bookkeeping import Bookkeeper, Recounts
from poller_cluster.clients import ServedClients
from poller_cluster.counters import CallCounts
from poller_cluster.crons.expander import CronEngine
from poller_cluster.crons.wiring import CronWork
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.due_clock import DueClock
from poller_cluster.dispatch.job import Engine
from poller_cluster.dispatch.request import Sender
from poller_cluster.hand_over import HandOver
from poller_cluster.minute.runner import MinuteContext, RecordPace, RowWindow
from poller_cluster.pollers import ClientPollers
from poller_cluster.reconciliation import build_reconciler
from poller_cluster.retention import Retention
from poller_cluster.set_back import SetBack
from poller_cluster.settings import NodeSettings
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId, RowKey
from scheduler_service.domain.ports import (
    ArchiveStore,
    AttemptStore,
    BalanceStore,
    ClientStore,
    CronStore,
    DeadLetterStore,
    HintSender,
    ReconciliationStore,
    ScheduleStore,
    SecretEncryption,
)
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.runtime.timekeeper import DisciplinedClock, Timekeeper
from scheduler_service.usecases.balance import CountMinute
from scheduler_service.usecases.members import HintTargets
from scheduler_service.usecases.schedule_writer import ScheduleWriter


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


class DeliveryEngine(Engine, Protocol):
    """The engine as a service."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class Node:
    """A `Service` and a `PollerHost`. `on_over(reason)` is called when the incarnation has ended without `stop`, for
    instance because others declared it dead: the process must exit."""

    def __init__(
        self,
        *,
        incarnation: NodeIncarnation,
        address: str,
        version: str,
        stores: NodeStores,
        engine: DeliveryEngine,
        clock: DisciplinedClock,
        randomness: Randomness,
        settings: NodeSettings,
        membership: MembershipSettings,
        on_over: Callable[[str], None],
        on_crash: Callable[[str, BaseException], None],
        on_fault: Callable[[str, BaseException], None],
        hints: HintSender | None = None,
        knows: int = 0,
    ) -> None:
        """`hints` tells other nodes of rows placed in their pollers near their due. `knows`: see `Heartbeat`."""
        self.incarnation = incarnation
        self._hints = hints
        self._on_fault = on_fault
        self._clock = clock
        self._randomness = randomness
        self._settings = settings
        self._stores = stores
        self._engine = engine
        self._tasks = Tasks(on_crash)
        self._clients: dict[ClientId, ClientPollers] = {}
        self._client_tasks: dict[ClientId, list[asyncio.Task[Any]]] = {}
        self._shares: dict[ClientId, float] = {}
        self.running = False
        """Whether the node is started, and a member."""
        self.budget = BackgroundBudget(
            clock=clock,
            randomness=randomness,
            settings=settings.background,
            minutes_at_once=settings.recovery_minutes_at_once,
        )
        self.clients = ServedClients(
            store=stores.clients,
            encryption=stores.encryption,
            clock=clock,
            randomness=randomness,
            on_change=self._clients_changed,
            bounds=settings.clients,
        )
        self.membership_agent = MembershipAgent(
            incarnation=incarnation,
            address=address,
            version=version,
            weight=settings.weight,
            capacity_per_minute=settings.capacity_per_minute,
            knows=knows,
            store=stores.members,
            clock=clock,
            settings=membership,
            spawn=self._spawn,
            on_over=on_over,
            low_watermark=self._low_watermark,
        )
        self._set_back = SetBack(
            clock=clock,
            grace_ms=settings.minute.grace_ms,
            ahead_of_servers_ms=self.membership_agent.servers.ahead_of_most_ms,
            leases=lambda: self.balancer.leases(),
            clients=self._clients.values,
            start_again=lambda poller, epoch: self.balancer.suspect(poller, epoch=epoch),
        )
        self.balancer = LeaseBalancer(
            incarnation=incarnation,
            members=self.membership_agent,
            store=stores.own_leases,
            host=self,
            clock=clock,
            settings=membership,
            spawn=self._spawn,
        )
        self.hand_over = HandOver(
            incarnation=incarnation,
            members=self.membership_agent,
            store=stores.members,
            balancer=self.balancer,
            clock=clock,
            silent_after=membership.dead_after_seconds,
            spawn=self._spawn,
        )
        self.books = Bookkeeper(
            balances=stores.balances,
            dead_letters=stores.dead_letters,
            attempts=stores.attempts,
            clock=clock,
            spawn=self._spawn,
            counts=CallCounts(named_clients=settings.named_clients),
        )
        self.backlog = Backlog(clients=self._clients.values, clock=clock)
        count = CountMinute(schedules=stores.schedules, balances=stores.balances, clock=clock)
        self.recounts = Recounts(count=count, budget=self.budget, clock=clock, spawn=self._spawn, on_fault=on_fault)
        writer = ScheduleWriter(
            schedules=stores.schedules, leases=stores.leases, clock=clock, randomness=randomness, hints=self
        )
        self.crons = CronWork(
            crons=stores.crons,
            clients=stores.clients,
            schedules=stores.schedules,
            writer=writer,
            served=self.clients,
            pollers=lambda: self._positions(CRON_CLIENT),
            trusted=self.membership_agent.trusted,
            budget=self.budget,
            clock=clock,
            randomness=randomness,
            spawn=self._spawn,
            on_fault=on_fault,
        )
        self.reconciler = build_reconciler(
            store=stores.reconciliations,
            schedules=stores.schedules,
            attempts=stores.attempts,
            writer=writer,
            clients=self.clients,
            pollers=self._held,
            trusted=self.membership_agent.trusted,
            budget=self.budget,
            clock=clock,
            randomness=randomness,
            settings=settings.reconciliations,
            spawn=self._spawn,
            on_fault=on_fault,
        )
        due_clock = DueClock(clock=clock, view=lambda: self.membership_agent.view, limit_ms=membership.clock_limit_ms)
        self.dispatcher = Dispatcher(
            engine=CronEngine(calls=engine, expander=self.crons.expander),
            clients=self.clients,
            clock=clock,
            randomness=randomness,
            sender=Sender(incarnation=str(incarnation), version=version),
            trusted=lambda: self.membership_agent.trusted() and due_clock.known,
            due_clock=due_clock,
            on_result=self.books.attempt_made,
            on_fault=on_fault,
            destinations=settings.destinations,
            share=self._share,
            on_free=self._destination_free,
        )
        self._context = MinuteContext(
            schedules=stores.schedules,
            writer=writer,
            cron_fire_guard=self.crons.children,
            dispatcher=self.dispatcher,
            clock=clock,
            randomness=randomness,
            trusted=self.membership_agent.trusted,
            spawn=self._spawn,
            books=self.books,
            record_pace=RecordPace(settings.minute),
            row_window=RowWindow(settings.minute),
            page_reads=asyncio.Semaphore(settings.minute.page_reads_at_once),
            budget=self.budget,
            client=self.clients.get,
            breaker_longest_seconds=settings.destinations.breaker_longest_seconds,
            recount=self.recounts.ask,
        )

    # Service.

    async def start(self) -> None:
        await self._engine.start()
        while not await self.clients.refresh():
            await self._clock.sleep(0.5)
        await self.membership_agent.start()
        timekeeper = Timekeeper(
            clock=self._clock,
            witnesses=lambda: self.membership_agent.view.witnesses,
            alone=lambda: len(self.membership_agent.view.members) <= 1,
            servers=self.membership_agent.servers.ahead_ms,
            accepted=self._set_back.step_accepted,
        )
        self._spawn(timekeeper.run(), "timekeeper")
        self._spawn(self.clients.run(), "clients")
        self._spawn(self.dispatcher.run(), "dispatcher")
        retention = Retention(
            schedules=self._stores.schedules,
            clock=self._clock,
            clients=self.clients.all,
            positions=self._positions,
            trusted=self.membership_agent.trusted,
            budget=self.budget,
            randomness=self._randomness,
            archives=self._stores.archives if self._settings.retention_waits_for_archive else None,
        )
        self._spawn(retention.run(), "retention")
        self._spawn(self.crons.search.run(), "overdue scan of crons")
        self._spawn(self.reconciler.run(), "search for reconciliations")
        await self.balancer.start()
        self._clients_changed()
        self.running = True

    async def stop(self) -> None:
        """Hand over every poller, leave the cluster, stop."""
        await self.hand_over.finish()
        await self.balancer.stop()
        await self.membership_agent.stop()
        await self._engine.stop()
        await self.books.flush()
        await self._tasks.close()

    @property
    def draining(self) -> bool:
        """Whether its pollers are being handed over, or have been."""
        return self.hand_over.begun

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        return self._tasks.spawn(work, name=name)

    # PollerHost.

    def granted(self, poller: PollerKey, *, epoch: int, start: int) -> None:
        client_id = ClientId(poller.client_id)
        pollers = self._clients.get(client_id) or self._begin_client(client_id)
        pollers.grant(PollerId(poller.poller_id), epoch=epoch, start=Minute(start))
        self._shares.pop(client_id, None)
        self._set_back.granted(poller, epoch, start)

    def position(self, poller: PollerKey) -> int:
        return self._clients[ClientId(poller.client_id)].position(PollerId(poller.poller_id))

    def credible(self, poller: PollerKey, mark: int) -> int:
        return self._set_back.credible(poller, mark)

    def credible_low_watermark(self, low_watermark: int) -> int:
        return self._set_back.credible_low_watermark(low_watermark)

    async def drain(self, poller: PollerKey) -> None:
        pollers = self._clients.get(ClientId(poller.client_id))
        if pollers is not None:
            await pollers.drain(PollerId(poller.poller_id))

    def revoked(self, poller: PollerKey) -> None:
        client_id = ClientId(poller.client_id)
        pollers = self._clients.get(client_id)
        if pollers is None:
            return
        pollers.revoke(PollerId(poller.poller_id))
        self._shares.pop(client_id, None)
        if not pollers.pollers:
            del self._clients[client_id]
            for task in self._client_tasks.pop(client_id):
                task.cancel()

    def gone(self, poller: PollerKey) -> None:
        self._set_back.gone(poller)

    def _begin_client(self, client_id: ClientId) -> ClientPollers:
        pollers = self._clients[client_id] = ClientPollers(
            client_id=client_id,
            context=self._context,
            settings=self._settings.minute,
            stagger=self._randomness.fraction(),
            spawn=self._spawn,
            on_lost=lambda poller_id, epoch: self.balancer.suspect(PollerKey(client_id, poller_id), epoch=epoch),
            on_fault=self._on_fault,
        )
        self._client_tasks[client_id] = [
            self._spawn(pollers.run(), f"pollers {client_id}"),
            self._spawn(pollers.recover(), f"recovery {client_id}"),
        ]
        self._follow_state(client_id, pollers)
        return pollers

    # Hints: a node tells itself of the rows it places in pollers it holds, and is told by others through its port.

    def hint(self, partition: Partition, key: RowKey) -> None:
        pollers = self._clients.get(partition.client_id)
        if pollers is not None and partition.poller_id in pollers.pollers:
            self.hinted([(partition, key)])
        elif self._hints is not None:
            self._hints.hint(partition, key)

    def hinted(self, hints: Sequence[tuple[Partition, RowKey | None]]) -> None:
        """Rows placed near their due. A partition with None for the row has too many to be named."""
        for partition, key in hints:
            pollers = self._clients.get(partition.client_id)
            if pollers is not None:
                pollers.hint(partition.poller_id, partition.minute, None if key is None else [key])

    # What the node's parts ask of it.

    def _clients_changed(self) -> None:
        self._shares.clear()
        self.balancer.set_pollers(
            {str(client.client_id): client.record.poller_ceiling for client in self.clients.all()}
        )
        for client_id, pollers in self._clients.items():
            self._follow_state(client_id, pollers)
        self.dispatcher.wake()

    def _follow_state(self, client_id: ClientId, pollers: ClientPollers) -> None:
        client = self.clients.get(client_id)
        if client is not None and client.active:
            pollers.resume()
            pollers.wake()
        else:
            pollers.suspend()

    def _share(self, client_id: ClientId) -> float:
        """This node's share of a client: the part of the quota's pollers that it holds. Pollers beyond a quota that was
        lowered don't count; a node that holds only such has the share of one poller."""
        share = self._shares.get(client_id)
        if share is None:
            pollers, client = self._clients.get(client_id), self.clients.get(client_id)
            if pollers is None or client is None:
                return 1.0
            held = sum(poller_id < client.quota for poller_id in pollers.pollers)
            share = self._shares[client_id] = min(max(held, 1) / max(client.quota, 1), 1.0)
        return share

    def _destination_free(self, client_id: ClientId) -> None:
        pollers = self._clients.get(client_id)
        if pollers is not None:
            pollers.wake()

    def _positions(self, client_id: ClientId) -> dict[PollerId, Minute]:
        pollers = self._clients.get(client_id)
        return {} if pollers is None else {poller_id: pollers.position(poller_id) for poller_id in pollers.pollers}

    def _held(self, client_id: ClientId) -> Collection[PollerId]:
        """Pollers that this node holds and is not about to hand over."""
        pollers = self._clients.get(client_id)
        if pollers is None or self.draining:
            return ()
        return [poller_id for poller_id, poller in pollers.pollers.items() if not poller.leaving]

    def _low_watermark(self) -> int | None:
        return self.balancer.low_watermark()


class NodeTargets:
    """The nodes that a node sends hints to, about rows that it places in their pollers: the members in its own view.

    `targets` is the same object until they change, and empty until `watch` was called.
    """

    def __init__(self) -> None:
        self._view: Callable[[], MembersView] | None = None
        self._seen: MembersView | None = None
        self._targets = HintTargets()

    def watch(self, view: Callable[[], MembersView]) -> None:
        self._view = view

    @property
    def targets(self) -> HintTargets:
        view = None if self._view is None else self._view()
        if view is not None and view is not self._seen:
            self._seen = view
            weights = view.hint_weights()
            addresses = {
                beat.incarnation.node_id: beat.address for beat in view.members if beat.incarnation.node_id in weights
            }
            targets = HintTargets(addresses, weights)
            if targets != self._targets:
                self._targets = targets
        return self._targets
