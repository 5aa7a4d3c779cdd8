"""Wires an API process: storage, use cases, hints to the nodes, the server."""

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack

from cql.metrics import METRICS as STORAGE_METRICS
from cql.metrics import StorageMetrics
from cql.packed import PACKED_SINCE
from cql.storage import open_storage
from minutehand.config import Settings
from minutehand.metrics_port import MetricsPort
from minutehand.processes.health import HealthSettings, told_health
from minutehand.running import StopSignal, spare_collector
from minutehand.starting import Starting
from minutehand.tracing.export import METRICS as TRACE_METRICS
from minutehand.tracing.export import SpanExport
from minutehand.tracing.open import open_export
from minutehand.version import VERSION
from poller_cluster.delivery.targets.kinds import read_kinds
from poller_cluster.delivery.targets.port import OpenKinds
from poller_cluster.trial_calls import TrialCalls
from scheduler_service.api.app import build_app
from scheduler_service.api.health import ApiHealth
from scheduler_service.api.http.server import ApiServer
from scheduler_service.api.http.starting import StartingApi
from scheduler_service.api.metrics import PROCESS_METRICS, Exposition, Shown
from scheduler_service.api.services import ApiServices, build_services
from scheduler_service.api.settings import ApiSettings
from scheduler_service.console.routes import console_wire
from scheduler_service.console.settings import ConsoleSettings
from scheduler_service.hints import HintForwarder
from scheduler_service.node_ports import HttpNodePorts
from scheduler_service.runtime.certificates import METRICS as CERTIFICATE_METRICS
from scheduler_service.runtime.certificates import Certificates
from scheduler_service.runtime.clock import Clock, SystemClock
from scheduler_service.runtime.file_secrets import keep_looking
from scheduler_service.runtime.late_bound import LateBound
from scheduler_service.runtime.lifecycle import Service, Tasks
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.metrics import Count, Metrics
from scheduler_service.runtime.metrics_pages import SharedPage
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.runtime.timekeeper import Timekeeper
from scheduler_service.runtime.tls import follow_caller
from scheduler_service.usecases.clients import create_built_in_clients
from scheduler_service.usecases.create_traces import CreateTraces
from scheduler_service.usecases.members import WatchMembers
from scheduler_service.usecases.secret_encryption import secret_encryption
from scheduler_service.usecases.storage_probes import WatchAudits

_log = get_logger("minutehand.api")


async def serve_api(settings: Settings, stop: StopSignal) -> None:
    """Serve until `stop`. Raises MinutehandError when it can't start. `settings` must hold what an API requires."""
    api, token = settings.api, settings.cluster.token
    assert api is not None
    assert token is not None
    clock, randomness = SystemClock(), SystemRandomness()
    kinds = read_kinds(settings.targets)
    watched = LateBound[WatchMembers]("the watch over members")
    encryption = secret_encryption(
        settings.secrets, randomness=randomness, older_programs=lambda: watched().older_programs
    )
    async with AsyncExitStack() as parts:
        export = await open_export(settings.trace, program="api", clock=clock, stop=stop, parts=parts)
        traces = None if export is None else CreateTraces(sampling=settings.trace.sampling, sink=export, clock=clock)
        starting = Starting(clock=clock, storage=settings.cassandra, stop=stop)
        early = await _answer_early(settings.health, api, starting, randomness=randomness, parts=parts)
        storage = await starting.answered(
            lambda: open_storage(settings.cassandra, packs=lambda: watched().knows >= PACKED_SINCE)
        )
        if storage is None:
            return
        parts.push_async_callback(storage.close)
        tasks = Tasks(stop.crashed)
        parts.push_async_callback(tasks.close)
        members = watched.bind(
            WatchMembers(store=storage.members, clock=clock, settings=settings.membership, on_crash=stop.crashed)
        )
        tasks.spawn(_timekeeper(members, clock=clock).run(), name="timekeeper")
        dropped = Count()
        node_tls = follow_caller(settings.cluster, table="cluster")
        hints = HintForwarder(
            members=members, clock=clock, settings=settings.hints, token=token, on_dropped=dropped.add, tls=node_tls
        )
        trial_calls = _trial_calls(settings, kinds, clock=clock)
        services = build_services(
            storage=storage,
            clock=clock,
            randomness=randomness,
            hints=hints,
            members=members,
            nodes=HttpNodePorts(token=token, tls=node_tls),
            trial_calls=trial_calls,
            encryption=encryption,
            settings=api,
            clock_limit_ms=settings.membership.clock_limit_ms,
            kinds=kinds,
            rights=settings.console.rights,
            traces=traces,
        )
        await starting.answered(lambda: create_built_in_clients(services.clients.register))
        if stop.requested:
            return
        tasks.spawn(services.health.heartbeat.run(), name="loop-heartbeat")
        tasks.spawn(keep_looking(settings.file_secrets(), clock), name="file-secrets")
        tasks.spawn(services.key_uses.run(), name="key-uses")
        tasks.spawn(services.minute_loads.run(), name="minute-loads")
        parts.push_async_callback(services.minute_loads.finish)  # after the server, which places the last rows
        audits = WatchAudits(store=storage.audits, clock=clock, on_crash=stop.crashed)
        shown = Shown(
            members=members,
            clock=clock,
            ended=storage.metrics.external_updates.ended,
            hints_dropped=dropped,
            audits=audits,
        )
        exposition = _exposition(
            shown,
            storage.metrics,
            export,
            certificates=settings.certificates(of="api"),
            max_age_seconds=api.metrics_max_age_seconds,
        )
        listeners = _listeners(settings.health, api, settings.console, services, exposition, clock=clock)
        parts_of_it: tuple[Service, ...] = (members, hints, audits, *listeners)
        for early_one in early:
            await early_one.stop()
        for service in parts_of_it:
            parts.push_async_callback(service.stop)
            await service.start()
        parts.push_async_callback(trial_calls.stop)  # stops before the server, which waits for pending answers
        spare_collector()
        await _until_stopped(stop, services.health, clock=clock, delay_seconds=api.shutdown_delay_seconds)
    _log.info("api-stopped")


async def _answer_early(
    settings: HealthSettings,
    api: ApiSettings,
    starting: Starting,
    *,
    randomness: SystemRandomness,
    parts: AsyncExitStack,
) -> Sequence[Service]:
    """The services that say how the start goes on, started. To be stopped before those that replace them start."""
    early = (
        *told_health(settings, live=tuple, ready=starting.unready),
        StartingApi(api, ready=starting.unready, randomness=randomness),
    )
    for service in early:
        parts.push_async_callback(service.stop)
        await service.start()
    return early


def _timekeeper(members: WatchMembers, *, clock: SystemClock) -> Timekeeper:
    return Timekeeper(
        clock=clock,
        witnesses=lambda: members.witnesses,
        alone=lambda: members.alone,
        servers=members.servers.ahead_ms,
    )


def _trial_calls(settings: Settings, kinds: OpenKinds, *, clock: Clock) -> TrialCalls:
    return TrialCalls(
        clock=clock,
        policy=settings.network,
        settings=settings.delivery,
        receivers=settings.node.receivers,
        version=VERSION,
        kinds=kinds,
    )


def _exposition(
    shown: Shown,
    storage: StorageMetrics,
    export: SpanExport | None,
    *,
    certificates: Certificates,
    max_age_seconds: float,
) -> Exposition:
    """The page of the process's metrics; the application adds those of its requests."""
    metrics = Metrics(program="api", version=VERSION)
    metrics.show(PROCESS_METRICS, of=shown)
    metrics.show(STORAGE_METRICS, of=storage)
    metrics.show(TRACE_METRICS, of=export)
    metrics.show(CERTIFICATE_METRICS, of=certificates)
    return Exposition(metrics.registry, clock=shown.clock, max_age_seconds=max_age_seconds)


def _listeners(
    settings: HealthSettings,
    api: ApiSettings,
    console: ConsoleSettings,
    services: ApiServices,
    exposition: Exposition,
    *,
    clock: Clock,
) -> Iterator[Service]:
    """The process's listeners: its health, its metrics where they have a port of their own, and the API,
    last of all, when everything behind it runs."""
    health = services.health
    yield from told_health(settings, live=health.heartbeat.reasons, ready=health.unready)
    if api.metrics_port is not None:
        yield MetricsPort(exposition, host=api.host, port=api.metrics_port)
    shared = None
    if api.metrics_socket is not None:
        age = api.metrics_max_age_seconds
        yield (shared := SharedPage(api.metrics_socket, exposition, clock=clock, max_age_seconds=age))
    app = build_app(
        services=services, settings=api, exposition=exposition, shared=shared, wires=console_wire(console, api)
    )
    yield ApiServer(app, services=services, settings=api)


async def _until_stopped(stop: StopSignal, health: ApiHealth, *, clock: Clock, delay_seconds: float) -> None:
    """Unready first when asked to end: the delay gives load balancers time to stop sending requests."""
    await stop.wait()
    health.stopping = True
    if stop.failure is None:
        await clock.sleep(delay_seconds)
