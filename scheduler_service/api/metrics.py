"""What the API counts about itself, for Prometheus. Labels are route templates, so their number is bounded.

An answer costs 0.2 µs (`tests/bench/counting.py`): one dict entry and one `Distribution`.
"""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from scheduler_service.runtime.metrics import Distribution, Kind, Metric, show

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds."""


class RouteMetrics:
    """The numbers of one route, so that a request only adds."""

    __slots__ = ("_seconds", "by_status")

    def __init__(self) -> None:
        self.by_status: dict[int, int] = {}
        self._seconds: Distribution | None = None

    @property
    def seconds(self) -> Distribution | None:
        """None until the first answer."""
        return self._seconds

    def answered(self, status: int, seconds: float) -> None:
        """One more answer, so many seconds after its request began."""
        self.by_status[status] = self.by_status.get(status, 0) + 1
        if self._seconds is None:
            self._seconds = Distribution(BOUNDS)
        self._seconds.observe(seconds)


class ApiMetrics:
    """The API's numbers, shown by a registry. `storage_available`: asked whenever somebody looks."""

    def __init__(self, registry: CollectorRegistry, *, storage_available: Callable[[], bool]) -> None:
        self.registry = registry
        self.routes: dict[tuple[str, str], RouteMetrics] = {}
        self.storage_available = storage_available
        show(registry, METRICS, of=self)

    def route(self, method: str, path: str) -> RouteMetrics:
        return self.routes.setdefault((method, path), RouteMetrics())

    def requests(self) -> dict[tuple[str, str, str], int]:
        return {
            (*route, str(status)): count
            for route, counted in self.routes.items()
            for status, count in counted.by_status.items()
        }

    def seconds(self) -> dict[tuple[str, str], Distribution]:
        return {route: counted.seconds for route, counted in self.routes.items() if counted.seconds is not None}


METRICS: Final[tuple[Metric[ApiMetrics], ...]] = (
    Metric(
        "minutehand_api_requests_total",
        Kind.COUNTER,
        "Requests answered, by route template and status.",
        ApiMetrics.requests,
        labels=("method", "route", "status"),
    ),
    Metric(
        "minutehand_api_request_duration_seconds",
        Kind.HISTOGRAM,
        "Time from a request's headers to its answer.",
        ApiMetrics.seconds,
        labels=("method", "route"),
    ),
    Metric(
        "minutehand_api_storage_available",
        Kind.GAUGE,
        "1 while storage answers, 0 once it has not answered for a while.",
        lambda metrics: float(metrics.storage_available()),
    ),
)
"""What an API shows of its requests."""
