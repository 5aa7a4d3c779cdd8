"""An API process, put together: storage, use cases, hints to the pollers, the server."""

from contextlib import AsyncExitStack

import structlog
from prometheus_client import Counter

from cql.storage import open_storage
from minutehand.config import Settings
from minutehand.running import StopSignal, keep_time
from minutehand.version import VERSION
from scheduler_service.api.app import build_app
from scheduler_service.api.hints import HintForwarder
from scheduler_service.api.server import ApiServer
from scheduler_service.api.services import build_services
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.metrics import Metrics
from scheduler_service.runtime.randomness import SystemRandomness

_log = structlog.get_logger("minutehand.api")


async def serve_api(settings: Settings, stop: StopSignal) -> None:
    """Serve until `stop`. Raises MinutehandError when it can't begin. `settings` must have what an API requires."""
    api, token = settings.api, settings.cluster.token
    assert api is not None
    assert token is not None
    clock, randomness = SystemClock(), SystemRandomness()
    metrics = Metrics(program="api", version=VERSION)
    dropped = Counter(
        "minutehand_hints_dropped_total",
        "Near-term rows that no poller was told of: the sweep of their minute finds them.",
        registry=metrics.registry,
    )
    async with AsyncExitStack() as parts:
        storage = await open_storage(settings.cassandra)
        parts.push_async_callback(storage.close)
        tasks = Tasks(stop.crashed)
        parts.push_async_callback(tasks.close)
        tasks.spawn(keep_time(clock, members=lambda: (None, True)), name="clock")
        hints = HintForwarder(
            members=storage.members, clock=clock, settings=settings.hints, token=token, on_dropped=dropped.inc
        )
        services = build_services(storage=storage, clock=clock, randomness=randomness, hints=hints, settings=api)
        app = build_app(services=services, settings=api, registry=metrics.registry)
        for service in (hints, ApiServer(app, services=services, settings=api)):
            parts.push_async_callback(service.stop)
            await service.start()
        await stop.wait()
    _log.info("api-stopped")
