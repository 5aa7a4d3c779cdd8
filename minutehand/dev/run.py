"""Runs the server as a process: its settings, its keys, its end."""

import asyncio
from collections.abc import Callable

from minutehand.config import FOR_API, FOR_NODE, Settings, load_settings
from minutehand.dev.loop import DevLoop
from minutehand.dev.server import Access, DevServer
from minutehand.running import StopSignal, run_process
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.logging import configure_logging
from scheduler_service.runtime.randomness import SystemRandomness

PRIVATE = "127.0.0.0/8, ::1/128, 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7"
"""Addresses that receivers may have beside public ones: those of this machine and of private networks."""


def dev_settings(*, host: str, port: int, admin_key: str | None) -> Settings:
    """All defaults, for one process that answers on `host`:`port`. Raises ConfigurationInvalid."""
    randomness = SystemRandomness()
    return load_settings(
        environment={
            "MINUTEHAND_API_HOST": host,
            "MINUTEHAND_API_PORT": str(port),
            "MINUTEHAND_API_ADMIN_KEY": admin_key or randomness.secret_bytes(24).hex(),
            "MINUTEHAND_CLUSTER_TOKEN": randomness.secret_bytes(24).hex(),
            "MINUTEHAND_NETWORK_ALLOW": PRIVATE,
            "MINUTEHAND_LOGGING_LEVEL": "warning",
        },
        required={*FOR_API, *FOR_NODE},
    )


def run_dev(settings: Settings, *, follows: bool, starts_ms: int | None, ready: Callable[[Access], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is called once, with what a user needs to begin. Raises ProcessFailed."""
    configure_logging(settings.logging, identity={"program": "dev"})

    async def serve(stop: StopSignal) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, DevLoop)
        server = DevServer(
            settings=settings, real=SystemClock(), follows=follows, starts_ms=starts_ms, loop=loop, fail=stop.fail
        )
        try:
            ready(await server.start())
            await stop.wait()
        finally:
            await server.stop()

    run_process(serve, loop_factory=DevLoop)
