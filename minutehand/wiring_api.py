"""Wires an API process: storage, use cases, hints to the nodes, the server."""

from contextlib import AsyncExitStack

from cql.metrics import METRICS as STORAGE_METRICS
from cql.packed import PACKED_SINCE
from cql.storage import open_storage
from minutehand.config import Settings
from minutehand.metrics_port import MetricsPort
from minutehand.processes.health import told_health
from minutehand.running import StopSignal, spare_collector
from minutehand.version import VERSION
from poller_cluster.trial_calls import TrialCalls
from scheduler_service.api.app import build_app
from scheduler_service.api.http.server import ApiServer
from scheduler_service.api.metrics import PROCESS_METRICS, Exposition, Shown
from scheduler_service.api.services import build_services
from scheduler_service.node_client import HintForwarder, HttpNodePorts
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.lifecycle import Service, Tasks
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.metrics import Count, Metrics
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.runtime.timekeeper import Timekeeper
from scheduler_service.usecases.clients import create_built_in_clients
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
    metrics = Metrics(program="api", version=VERSION)
    encryption = secret_encryption(
        settings.secrets, randomness=randomness, older_programs=lambda: members.older_programs
    )
    async with AsyncExitStack() as parts:
        storage = await open_storage(settings.cassandra)
        parts.push_async_callback(storage.close)
        tasks = Tasks(stop.crashed)
        parts.push_async_callback(tasks.close)
        members = WatchMembers(store=storage.members, clock=clock, settings=settings.membership, on_crash=stop.crashed)
        storage.schedules.packs = lambda: members.knows >= PACKED_SINCE
        timekeeper = Timekeeper(
            clock=clock,
            witnesses=lambda: members.witnesses,
            alone=lambda: members.alone,
            servers=members.servers.ahead_ms,
        )
        tasks.spawn(timekeeper.run(), name="timekeeper")
        dropped = Count()
        hints = HintForwarder(
            members=members, clock=clock, settings=settings.hints, token=token, on_dropped=dropped.add
        )
        trial_calls = TrialCalls(
            clock=clock,
            policy=settings.network,
            settings=settings.delivery,
            destinations=settings.node.destinations,
            version=VERSION,
        )
        services = build_services(
            storage=storage,
            clock=clock,
            randomness=randomness,
            hints=hints,
            members=members,
            nodes=HttpNodePorts(token=token),
            trial_calls=trial_calls,
            encryption=encryption,
            settings=api,
            clock_limit_ms=settings.membership.clock_limit_ms,
        )
        await create_built_in_clients(services.clients.register)
        tasks.spawn(services.health.heartbeat.run(), name="loop-heartbeat")
        audits = WatchAudits(store=storage.audits, clock=clock, on_crash=stop.crashed)
        shown = Shown(
            members=members,
            clock=clock,
            ended=storage.metrics.edits.ended,
            hints_dropped=dropped,
            audits=audits,
        )
        metrics.show(PROCESS_METRICS, of=shown)
        metrics.show(STORAGE_METRICS, of=storage.metrics)
        exposition = Exposition(metrics.registry, clock=clock, max_age_seconds=api.metrics_max_age_seconds)
        app = build_app(services=services, settings=api, exposition=exposition)
        health = services.health
        told = told_health(settings.health, live=health.heartbeat.reasons, ready=health.unready)
        server = ApiServer(app, services=services, settings=api)
        shown_on = () if api.metrics_port is None else (MetricsPort(exposition, host=api.host, port=api.metrics_port),)
        parts_of_it: tuple[Service, ...] = (members, hints, audits, *told, *shown_on, server)
        for service in parts_of_it:
            parts.push_async_callback(service.stop)
            await service.start()
        parts.push_async_callback(trial_calls.stop)  # stops before the server, which waits for pending answers
        spare_collector()
        await stop.wait()
        # Unready first: the delay gives load balancers time to stop sending requests.
        health.stopping = True
        if stop.failure is None:
            await clock.sleep(api.shutdown_delay_seconds)
    _log.info("api-stopped")
