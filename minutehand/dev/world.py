"""One world: tables, a node and an API over one virtual clock, in this process. A reset replaces it by another."""

from collections.abc import Callable
from contextlib import AsyncExitStack

from aiohttp import web

from cql.memory.connection import InMemoryConnection
from cql.migrate import load_migrations
from cql.storage import Storage
from membership.identity import NodeId
from membership.membership_agent import NodeProfile, new_incarnation
from membership.settings import MembershipSettings
from minutehand.config import Settings
from minutehand.dev.clock import RealWaits, VirtualClock
from minutehand.dev.engine import AwaitedFetcher, RecordingEngine, UnderWay
from minutehand.dev.receivers import Receivers
from minutehand.version import VERSION
from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.token_fetcher import TokenFetcher
from poller_cluster.node import Node
from poller_cluster.ops.metrics import EndedElsewhere, show_node
from poller_cluster.ops.server import OpsServer, OpsSettings, advertised_address, listen
from poller_cluster.ops.status import unready
from poller_cluster.trial_calls import TrialCalls
from scheduler_service.api.app import build_app
from scheduler_service.api.services import ApiServices, build_services
from scheduler_service.console.routes import console_wire
from scheduler_service.domain.ids import Partition, RowKey
from scheduler_service.node_ports import HttpNodePorts
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.metrics import Metrics
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.clients import create_built_in_clients
from scheduler_service.usecases.members import WatchMembers
from scheduler_service.usecases.secret_encryption import NoEncryption

ALONE = MembershipSettings(
    beat_seconds=10.0,
    gap_seconds=20.0,
    trust_seconds=1e11,
    dead_after_seconds=2e11,
)
"""No other process can act for its pollers or declare it dead, so however far time is moved, its trust does not end."""
_log = get_logger("minutehand.dev")


class _OneNode(WatchMembers):
    """The members as the API sees them: one node, which has the same clock."""

    @property
    def offset_ms(self) -> int | None:
        return 0

    @property
    def first_offset_ms(self) -> int | None:
        return 0

    def _judge_clock(self) -> None:
        """A heartbeat may be read long after it was written, by a clock that has been moved."""


class _Process:
    """The `NodeProcess`. `fail(reason)` ends the whole server."""

    def __init__(self, fail: Callable[[str], None]) -> None:
        self._fail = fail

    def node_over(self, reason: str) -> None:
        self._fail(f"The node must end ({reason}).")

    def task_crashed(self, name: str, error: BaseException) -> None:
        _log.error("task-crashed", task=name, exc_info=error)
        self._fail(f"The part {name!r} raised an unhandled exception ({type(error).__name__}); see the log.")

    def work_failed(self, name: str, error: BaseException) -> None:
        _log.error("work-failed", work=name, exc_info=error)


class World:
    """Its parts run from `start` to `stop`. `memory` has what is stored, `clock` moves all of it."""

    def __init__(
        self,
        *,
        settings: Settings,
        memory: InMemoryConnection,
        clock: VirtualClock,
        real: Clock,
        receivers: Receivers,
        own_url: str,
        fail: Callable[[str], None],
    ) -> None:
        self.memory, self.clock, self.receivers = memory, clock, receivers
        self._settings, self._real, self._own_url, self._fail = settings, real, own_url, fail
        self.grace_ms = settings.node.minute.grace_ms
        self.under_way = UnderWay()
        self._parts = AsyncExitStack()
        self.app: web.Application
        self.services: ApiServices
        self.node: Node
        self.engine: RecordingEngine
        self._members: WatchMembers

    async def open(self) -> None:
        """Build all parts, and open what waits for the machine."""
        settings, clock, waits = self._settings, self.clock, RealWaits(self.clock, self._real)
        token = settings.cluster.token
        assert token is not None
        assert settings.api is not None
        self.memory.server_clocks = [clock.system_ms]
        randomness, process = SystemRandomness(), _Process(self._fail)
        budget = BackgroundBudget(
            clock=clock,
            randomness=randomness,
            settings=settings.node.background,
            minutes_at_once=settings.node.recovery_minutes_at_once,
        )
        storage = Storage.over(
            self.memory, clock=clock, randomness=randomness, packs=lambda: True, on_request=budget.observe
        )
        self._parts.push_async_callback(storage.tasks.close)
        self._members = members = _OneNode(
            store=storage.members, clock=waits, settings=ALONE, on_crash=process.task_crashed
        )
        trial_calls = TrialCalls(
            clock=waits,
            policy=settings.network,
            settings=settings.delivery,
            receivers=settings.node.receivers,
            version=VERSION,
            kinds={},
        )
        self._parts.push_async_callback(trial_calls.stop)
        self.services = services = build_services(
            storage=storage,
            clock=waits,
            randomness=randomness,
            hints=self,
            members=members,
            nodes=HttpNodePorts(token=token),
            trial_calls=trial_calls,
            encryption=NoEncryption(),
            settings=settings.api,
            clock_limit_ms=ALONE.clock_limit_ms,
        )
        await create_built_in_clients(services.clients.register)
        self.engine = RecordingEngine(
            sockets=DeliveryEngine(clock=waits, policy=settings.network, settings=settings.delivery),
            clock=clock,
            receivers=self.receivers,
            own_url=self._own_url,
            under_way=self.under_way,
        )
        listener = listen(OpsSettings())
        self._parts.callback(listener.close)
        self.node = node = Node(
            incarnation=await new_incarnation(
                node_id=NodeId("dev"), store=storage.members, clock=clock, settings=ALONE
            ),
            profile=NodeProfile(
                address=advertised_address(OpsSettings(), listener),
                version=VERSION,
                weight=settings.node.weight,
                capacity_per_minute=settings.node.capacity_per_minute,
                knows=len(load_migrations()),
            ),
            stores=storage,
            encryption=NoEncryption(),
            engine=self.engine,
            fetcher=AwaitedFetcher(
                TokenFetcher(clock=waits, policy=settings.network, settings=settings.delivery, version=VERSION),
                self.under_way,
            ),
            clock=clock,
            randomness=randomness,
            settings=settings.node,
            membership=ALONE,
            process=process,
            budget=budget,
        )
        metrics = Metrics(program="node", version=VERSION)
        show_node(
            node,
            clock=clock,
            metrics=metrics,
            attempts_in_flight=lambda: self.engine.in_flight,
            hints_dropped=lambda: 0,
            ended=EndedElsewhere(
                ended=storage.metrics.external_updates.ended, skipped=storage.metrics.external_updates.skipped
            ),
        )
        ops = OpsServer(
            listener,
            node=node,
            token=token,
            unhealthy=list,
            unready=lambda: unready(node, clock=clock),
            metrics=metrics,
        )
        self._parts.push_async_callback(ops.stop)
        await ops.start()
        self._parts.push_async_callback(members.stop)
        self.app = build_app(
            services=services, settings=settings.api, wires=console_wire(settings.console, settings.api)
        )
        self._parts.push_async_callback(self.app.cleanup)

    async def start(self) -> None:
        """Return when the node is a member, and the API knows. It waits for virtual time, and for nothing else."""
        await self.node.start()
        await self._members.start()

    async def stop(self) -> None:
        """Hand over every poller, and end the node. It waits for virtual time, and for calls under way."""
        await self.node.stop()

    async def close(self) -> None:
        """End all else."""
        await self._parts.aclose()

    def hint(self, partition: Partition, key: RowKey) -> None:
        """The `HintSender` of the API: the node is told at once."""
        self.node.pollers.hinted([(partition, key)])
