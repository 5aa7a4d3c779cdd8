"""A poller process, put together: storage, the delivery engine, the node, its own port."""

from contextlib import AsyncExitStack

import structlog

from cql.storage import open_storage
from membership.heartbeater import new_life
from membership.identity import NodeId
from minutehand.config import Settings
from minutehand.running import StopSignal, spare_collector, start_unless_stopped
from minutehand.version import VERSION
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.gauges import show_node
from poller_cluster.hint_targets import NodeTargets
from poller_cluster.node import Node, NodeStores
from poller_cluster.ops import OpsServer, advertised_address, listen
from scheduler_service.api.hints import HintForwarder
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.metrics import Metrics
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.built_in_clients import create_built_in_clients
from scheduler_service.usecases.catalog import Catalog
from scheduler_service.usecases.change_client import ChangeClient
from scheduler_service.usecases.register_client import RegisterClient

_log = structlog.get_logger("minutehand.poller")


async def serve_poller(settings: Settings, *, node_id: NodeId, stop: StopSignal) -> None:
    """Be a member until `stop`, then hand everything over. Raises MinutehandError when it can't begin."""
    token = settings.cluster.token
    assert token is not None
    clock, randomness = SystemClock(), SystemRandomness()
    metrics = Metrics(program="poller", version=VERSION)
    async with AsyncExitStack() as parts:
        listener = listen(settings.ops)
        parts.callback(listener.close)
        storage = await open_storage(settings.cassandra)
        parts.push_async_callback(storage.close)
        catalog = Catalog(store=storage.clients, clock=clock, bounds=settings.node.clients)
        await create_built_in_clients(
            RegisterClient(
                store=storage.clients,
                leases=storage.leases,
                catalog=catalog,
                change=ChangeClient(store=storage.clients, catalog=catalog),
                clock=clock,
            )
        )
        life = await new_life(node_id=node_id, store=storage.members, clock=clock, settings=settings.membership)
        engine = DeliveryEngine(clock=clock, policy=settings.network, settings=settings.delivery)
        targets = NodeTargets()
        hints = HintForwarder(
            members=targets, clock=clock, settings=settings.hints, token=token, on_dropped=lambda hints: None
        )
        parts.push_async_callback(hints.stop)
        await hints.start()
        node = Node(
            life=life,
            address=advertised_address(settings.ops, listener),
            version=VERSION,
            stores=NodeStores(
                schedules=storage.schedules,
                clients=storage.clients,
                members=storage.members,
                leases=storage.leases,
                balances=storage.balances,
                attempts=storage.attempts,
                dead_letters=storage.dead_letters,
                crons=storage.crons,
                reconciliations=storage.reconciliations,
            ),
            engine=engine,
            clock=clock,
            randomness=randomness,
            settings=settings.node,
            membership=settings.membership,
            on_over=lambda reason: stop.fail(f"The node {life} must end ({reason})."),
            on_crash=stop.crashed,
            on_fault=_report_fault,
            hints=hints,
        )
        targets.watch(lambda: node.heartbeater.view)
        show_node(node, clock=clock, metrics=metrics)
        metrics.gauge("minutehand_attempts_in_flight", "Calls that this node is making now.", lambda: engine.in_flight)
        ops = OpsServer(
            listener,
            token=token,
            life=life,
            on_hints=node.hinted,
            on_drain=node.begin_hand_over,
            unready=lambda: _unready(node, clock),
            metrics=metrics,
        )
        parts.push_async_callback(ops.stop)
        await ops.start()
        if await start_unless_stopped(node, stop, parts):
            _log.info("node-running", life=str(life))
            spare_collector()
            await stop.wait()
    _log.info("node-stopped", life=str(life))


def _unready(node: Node, clock: SystemClock) -> str | None:
    """Why this node may not call anybody now."""
    if not node.heartbeater.trusted():
        return "its heartbeats are not confirmed: storage does not answer, or it has only just started"
    if not clock.wall_trusted():
        return "the system's clock was stepped and does not agree with the other nodes'"
    return None


def _report_fault(name: str, error: BaseException) -> None:
    """A minute or a row met an error that nobody foresaw. It is tried again or failed alone; the node goes on."""
    _log.error("work-failed", work=name, exc_info=error)
