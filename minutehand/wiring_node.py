"""Wires a node: storage, the delivery engine, the node, its ops port."""

import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from cql.metrics import METRICS as STORAGE_METRICS
from cql.migrate import load_migrations
from cql.packed import PACKED_SINCE
from cql.storage import Storage, open_storage
from membership.identity import NodeId, NodeIncarnation
from membership.membership_agent import MembershipAgent, NodeProfile, new_incarnation
from membership.settings import MembershipSettings
from membership.view import MembersView
from minutehand.config import Settings
from minutehand.processes.health import told_health
from minutehand.running import StopSignal, spare_collector, start_unless_stopped, unless_stopped
from minutehand.starting import Starting
from minutehand.tracing.export import METRICS as TRACE_METRICS
from minutehand.tracing.export import SpanExport
from minutehand.tracing.open import open_export
from minutehand.version import VERSION
from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.targets.deliveries import Deliveries
from poller_cluster.delivery.targets.kinds import read_kinds
from poller_cluster.delivery.targets.port import EngineService, OpenKinds
from poller_cluster.delivery.token_fetcher import TokenFetcher
from poller_cluster.dispatch.attempt_traces import UNTRACED, AttemptTraces
from poller_cluster.hint_targets import NodeTargets
from poller_cluster.node import Node
from poller_cluster.ops.metrics import EndedElsewhere, show_node
from poller_cluster.ops.server import OpsServer, StartingServer, advertised_address, listen
from poller_cluster.ops.status import StateChangeLog, unready
from poller_cluster.settings import NodeSettings
from scheduler_service.hints import HintForwarder
from scheduler_service.runtime.certificates import METRICS as CERTIFICATE_METRICS
from scheduler_service.runtime.certificates import Certificates
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.file_secrets import keep_looking
from scheduler_service.runtime.health import LoopHeartbeat
from scheduler_service.runtime.late_bound import LateBound
from scheduler_service.runtime.lifecycle import Service, Tasks
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.metrics import Count, Metrics
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.runtime.tls import FollowedContext, follow_caller, follow_server
from scheduler_service.usecases.authenticate import Catalog
from scheduler_service.usecases.clients import ChangeClient, RegisterClient, create_built_in_clients
from scheduler_service.usecases.secret_encryption import secret_encryption
from scheduler_service.usecases.signing_secrets import SigningSecrets

_log = get_logger("minutehand.node")


async def serve_node(settings: Settings, *, node_id: NodeId, stop: StopSignal) -> None:
    """Be a member until `stop`, then hand all pollers over. Raises MinutehandError when it can't start."""
    clock, randomness = SystemClock(), SystemRandomness()
    kinds = read_kinds(settings.targets)
    encryption = secret_encryption(settings.secrets, randomness=randomness)
    traces = UNTRACED
    async with AsyncExitStack() as parts:
        export = await open_export(settings.trace, program="node", clock=clock, stop=stop, parts=parts)
        if export is not None:
            traces = AttemptTraces(sampling=settings.trace.sampling, sink=export, randomness=randomness)
        starting = Starting(clock=clock, storage=settings.cassandra, stop=stop)
        port = await _open_port(settings, starting, clock=clock, stop=stop, parts=parts)
        budget = _background_budget(settings.node, clock, randomness)
        members = LateBound[MembershipAgent]("the membership agent")
        storage = await starting.answered(
            lambda: open_storage(
                settings.cassandra, packs=lambda: members().view.all_know(PACKED_SINCE), on_request=budget.observe
            )
        )
        if storage is None:
            return
        parts.push_async_callback(storage.close)
        secrets = SigningSecrets(store=storage.clients, encryption=encryption, clock=clock, randomness=randomness)
        register = _registration(storage, settings.node, secrets, clock=clock)
        await starting.answered(lambda: create_built_in_clients(register))
        if stop.requested:
            return
        incarnation = await _begin_incarnation(node_id, storage, settings.membership, clock=clock, stop=stop)
        if incarnation is None:
            return
        hints_dropped = Count()
        hints = _hint_forwarder(settings, lambda: members().view, hints_dropped, clock=clock)
        engine = _engine(settings, kinds, clock=clock)
        node = Node(
            incarnation=incarnation,
            profile=_profile(settings.node, address=advertised_address(settings.ops, port.listener)),
            stores=storage,
            encryption=encryption,
            engine=engine,
            fetcher=TokenFetcher(clock=clock, policy=settings.network, settings=settings.delivery, version=VERSION),
            clock=clock,
            randomness=randomness,
            settings=settings.node,
            membership=settings.membership,
            process=_Process(incarnation, stop),
            budget=budget,
            hints=hints,
            kinds=kinds,
            traces=traces,
        )
        members.bind(node.membership_agent)
        parts.push_async_callback(hints.stop)
        await hints.start()
        metrics = _metrics(
            node, engine, storage, hints_dropped, export, certificates=settings.certificates(of="ops"), clock=clock
        )
        await _serve_port(port, node, settings, metrics, clock=clock, parts=parts)
        if await start_unless_stopped(node, stop, parts):
            _log.info("node-running", incarnation=str(incarnation))
            port.tasks.spawn(StateChangeLog(node=node, clock=clock).run(), name="state-changes")
            port.tasks.spawn(node.recent_calls.run(), name="recent-calls")
            spare_collector()
            await stop.wait()
    _log.info("node-stopped", incarnation=str(incarnation))


def _engine(settings: Settings, kinds: OpenKinds, *, clock: SystemClock) -> EngineService:
    """The HTTP engine, behind what routes calls to targets if there are any."""
    calls = DeliveryEngine(clock=clock, policy=settings.network, settings=settings.delivery)
    if not kinds:
        return calls
    return Deliveries(calls=calls, kinds=kinds, clock=clock, grace_seconds=settings.delivery.stop_grace_seconds)


@dataclass(frozen=True, slots=True)
class _Port:
    """The node's port, open from the process's first moment: answered by `starting` until there is a node."""

    listener: socket.socket
    tls: FollowedContext | None
    starting: Sequence[Service]
    heartbeat: LoopHeartbeat
    tasks: Tasks


async def _open_port(
    settings: Settings, starting: Starting, *, clock: SystemClock, stop: StopSignal, parts: AsyncExitStack
) -> _Port:
    listener = listen(settings.ops)
    parts.callback(listener.close)
    tls = follow_server(settings.ops, table="ops")
    if tls is not None:
        tls.keep_looking(clock)
        parts.callback(tls.stop_looking)
    heartbeat, tasks = LoopHeartbeat(clock=clock), Tasks(stop.crashed)
    parts.push_async_callback(tasks.close)
    tasks.spawn(heartbeat.run(), name="loop-heartbeat")
    tasks.spawn(keep_looking(settings.file_secrets(), clock), name="file-secrets")
    early = (
        StartingServer(listener, unhealthy=heartbeat.reasons, unready=starting.unready, tls=tls),
        *told_health(settings.health, live=heartbeat.reasons, ready=starting.unready),
    )
    for service in early:
        parts.push_async_callback(service.stop)
        await service.start()
    return _Port(listener, tls, early, heartbeat, tasks)


async def _serve_port(
    port: _Port, node: Node, settings: Settings, metrics: Metrics, *, clock: SystemClock, parts: AsyncExitStack
) -> None:
    """From here on the node answers on its port, and tells its health to a parent process, if there is one."""
    token = settings.cluster.token
    assert token is not None
    ops = OpsServer(
        port.listener,
        node=node,
        token=token,
        unhealthy=port.heartbeat.reasons,
        unready=lambda: unready(node, clock=clock),
        metrics=metrics,
        tls=port.tls,
    )
    told = told_health(settings.health, live=port.heartbeat.reasons, ready=lambda: unready(node, clock=clock))
    for early in port.starting:
        await early.stop()
    for service in (ops, *told):
        parts.push_async_callback(service.stop)
        await service.start()


def _registration(
    storage: Storage, settings: NodeSettings, secrets: SigningSecrets, *, clock: SystemClock
) -> RegisterClient:
    """For the built-in clients."""
    catalog = Catalog(store=storage.clients, clock=clock, bounds=settings.clients)
    return RegisterClient(
        store=storage.clients,
        leases=storage.leases,
        catalog=catalog,
        # No built-in client has a feed or an overdue rate, so it does not matter what all nodes know.
        change=ChangeClient(
            store=storage.clients,
            catalog=catalog,
            subscriptions=storage.subscriptions,
            admit_feed=lambda: None,
            admit_rate=lambda: None,
        ),
        secrets=secrets,
        clock=clock,
    )


async def _begin_incarnation(
    node_id: NodeId, storage: Storage, settings: MembershipSettings, *, clock: SystemClock, stop: StopSignal
) -> NodeIncarnation | None:
    """None: the process was told to stop while storage did not answer."""
    begun = new_incarnation(node_id=node_id, store=storage.members, clock=clock, settings=settings)
    return await unless_stopped(begun, stop)


def _hint_forwarder(
    settings: Settings, view: Callable[[], MembersView], dropped: Count, *, clock: SystemClock
) -> HintForwarder:
    """It tells other nodes of rows placed in their pollers, and counts the hints that it drops."""
    token = settings.cluster.token
    assert token is not None
    return HintForwarder(
        members=NodeTargets(view),
        clock=clock,
        settings=settings.hints,
        token=token,
        on_dropped=dropped.add,
        tls=follow_caller(settings.cluster, table="cluster"),
    )


def _background_budget(settings: NodeSettings, clock: SystemClock, randomness: SystemRandomness) -> BackgroundBudget:
    return BackgroundBudget(
        clock=clock,
        randomness=randomness,
        settings=settings.background,
        minutes_at_once=settings.recovery_minutes_at_once,
    )


def _profile(settings: NodeSettings, *, address: str) -> NodeProfile:
    return NodeProfile(
        address=address,
        version=VERSION,
        weight=settings.weight,
        capacity_per_minute=settings.capacity_per_minute,
        knows=len(load_migrations()),
    )


def _metrics(
    node: Node,
    engine: EngineService,
    storage: Storage,
    hints_dropped: Count,
    export: SpanExport | None,
    *,
    certificates: Certificates,
    clock: SystemClock,
) -> Metrics:
    metrics, updates = Metrics(program="node", version=VERSION), storage.metrics.external_updates
    show_node(
        node,
        clock=clock,
        metrics=metrics,
        attempts_in_flight=lambda: engine.in_flight,
        hints_dropped=lambda: hints_dropped.value,
        ended=EndedElsewhere(ended=updates.ended, skipped=updates.skipped),
    )
    metrics.show(STORAGE_METRICS, of=storage.metrics)
    metrics.show(TRACE_METRICS, of=export)
    metrics.show(CERTIFICATE_METRICS, of=certificates)
    return metrics


class _Process:
    """The `NodeProcess`: it ends when the node can't go on."""

    def __init__(self, incarnation: NodeIncarnation, stop: StopSignal) -> None:
        self._incarnation = incarnation
        self._stop = stop

    def node_over(self, reason: str) -> None:
        self._stop.fail(f"The node {self._incarnation} must end ({reason}).")

    def task_crashed(self, name: str, error: BaseException) -> None:
        self._stop.crashed(name, error)

    def work_failed(self, name: str, error: BaseException) -> None:
        _log.error("work-failed", work=name, exc_info=error)
