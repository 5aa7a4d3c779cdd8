"""The page of metrics, made again no more often than the operator wants: it costs about 20 ms of CPU, and is open to
everybody who reaches its port."""

from prometheus_client import CollectorRegistry, generate_latest

from scheduler_service.runtime.clock import Clock


class Exposition:
    """A registry as text. `max_age_seconds`: how old a page may be that is shown again."""

    def __init__(self, registry: CollectorRegistry, *, clock: Clock, max_age_seconds: float) -> None:
        self.registry = registry
        self._clock = clock
        self._max_age = max_age_seconds
        self._page = b""
        self._made_at = float("-inf")

    def page(self) -> bytes:
        now = self._clock.monotonic()
        if now - self._made_at >= self._max_age:
            self._page, self._made_at = generate_latest(self.registry), now
        return self._page
