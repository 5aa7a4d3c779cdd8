"""Wires a node: storage, the delivery engine, the node, its ops port."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from cql.metrics import METRICS as STORAGE_METRICS
from cql.migrate import load_migrations
from cql.packed import PACKED_SINCE
from cql.storage import open_storage
from membership.identity import NodeId, NodeIncarnation
from membership.membership_agent import new_incarnation
from minutehand.config import Settings
from minutehand.processes.health import told_health
from minutehand.running import StopSignal, spare_collector, start_unless_stopped, unless_stopped
from minutehand.version import VERSION
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.node import Node, NodeStores, NodeTargets
from poller_cluster.ops.metrics import EndedElsewhere, show_node
from poller_cluster.ops.server import OpsServer, StartingServer, advertised_address, listen
from poller_cluster.ops.status import StateChangeLog, unready
from scheduler_service.node_client import HintForwarder
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.health import LoopHeartbeat, Reason
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.metrics import Count, Metrics
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.authenticate import Catalog
from scheduler_service.usecases.clients import ChangeClient, RegisterClient, create_built_in_clients
from scheduler_service.usecases.secret_encryption import secret_encryption

_log = get_logger("minutehand.node")


async def serve_node(settings: Settings, *, node_id: NodeId, stop: StopSignal) -> None:
    """Be a member until `stop`, then hand all pollers over. Raises MinutehandError when it can't start."""
    token = settings.cluster.token
    assert token is not None
    clock, randomness = SystemClock(), SystemRandomness()
    metrics = Metrics(program="node", version=VERSION)
    encryption = secret_encryption(settings.secrets, randomness=randomness)
    async with AsyncExitStack() as parts:
        listener = listen(settings.ops)
        parts.callback(listener.close)
        heartbeat, tasks = LoopHeartbeat(clock=clock), Tasks(stop.crashed)
        parts.push_async_callback(tasks.close)
        tasks.spawn(heartbeat.run(), name="loop-heartbeat")
        starting = StartingServer(listener, unhealthy=heartbeat.reasons)
        parts.push_async_callback(starting.stop)
        await starting.start()
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
        incarnations: list[NodeIncarnation] = []

        async def begin() -> None:
            incarnations.append(
                await new_incarnation(node_id=node_id, store=storage.members, clock=clock, settings=settings.membership)
            )

        if not await unless_stopped(begin(), stop):
            return
        (incarnation,) = incarnations
        engine = DeliveryEngine(clock=clock, policy=settings.network, settings=settings.delivery)
        targets = NodeTargets()
        dropped = Count()
        hints = HintForwarder(
            members=targets, clock=clock, settings=settings.hints, token=token, on_dropped=dropped.add
        )
        parts.push_async_callback(hints.stop)
        await hints.start()
        node = Node(
            incarnation=incarnation,
            address=advertised_address(settings.ops, listener),
            version=VERSION,
            stores=NodeStores(
                schedules=storage.schedules,
                clients=storage.clients,
                members=storage.members,
                own_leases=storage.own_leases,
                leases=storage.leases,
                balances=storage.balances,
                attempts=storage.attempts,
                dead_letters=storage.dead_letters,
                crons=storage.crons,
                reconciliations=storage.reconciliations,
                encryption=encryption,
                archives=storage.archives,
            ),
            engine=engine,
            clock=clock,
            randomness=randomness,
            settings=settings.node,
            membership=settings.membership,
            on_over=lambda reason: stop.fail(f"The node {incarnation} must end ({reason})."),
            on_crash=stop.crashed,
            on_fault=_report_fault,
            hints=hints,
            knows=len(load_migrations()),
        )
        storage.schedules.packs = lambda: node.membership_agent.view.all_know(PACKED_SINCE)
        storage.metrics.requests.listener = node.budget.observe
        targets.watch(lambda: node.membership_agent.view)
        updates = storage.metrics.external_updates
        show_node(
            node,
            clock=clock,
            metrics=metrics,
            attempts_in_flight=lambda: engine.in_flight,
            hints_dropped=lambda: dropped.value,
            ended=EndedElsewhere(ended=updates.ended, skipped=updates.skipped),
        )
        metrics.show(STORAGE_METRICS, of=storage.metrics)
        ops = OpsServer(
            listener,
            token=token,
            incarnation=incarnation,
            on_hints=node.hinted,
            on_drain=lambda force: node.hand_over.ask(force=force),
            on_undrain=node.hand_over.take_back,
            unhealthy=heartbeat.reasons,
            unready=lambda: unready(node, clock=clock),
            metrics=metrics,
        )
        told = told_health(settings.health, live=heartbeat.reasons, ready=lambda: _at_once(unready(node, clock=clock)))
        await starting.stop()
        for service in (ops, *told):
            parts.push_async_callback(service.stop)
            await service.start()
        if await start_unless_stopped(node, stop, parts):
            _log.info("node-running", incarnation=str(incarnation))
            tasks.spawn(StateChangeLog(node=node, clock=clock).run(), name="state-changes")
            spare_collector()
            await stop.wait()
    _log.info("node-stopped", incarnation=str(incarnation))


async def _at_once(reasons: Sequence[Reason]) -> Sequence[Reason]:
    return reasons


def _report_fault(name: str, error: BaseException) -> None:
    """Log an unhandled exception of a minute or a row. It is retried or fails alone; the node goes on."""
    _log.error("work-failed", work=name, exc_info=error)
