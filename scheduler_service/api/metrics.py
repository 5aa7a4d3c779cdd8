"""What the API counts about itself, for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class RouteMetrics:
    """The series of one route, looked up once, when first needed, so that a request only adds."""

    __slots__ = ("_by_status", "_observe", "_requests", "_route", "_seconds")

    def __init__(self, requests: Counter, seconds: Histogram, *, method: str, path: str) -> None:
        self._requests = requests
        self._route = (method, path)
        self._by_status: dict[int, Counter] = {}
        self._seconds = seconds
        self._observe: Callable[[float], None] | None = None

    def answered(self, status: int, seconds: float) -> None:
        """One more answer, so many seconds after its request began."""
        counter = self._by_status.get(status)
        if counter is None:
            counter = self._by_status[status] = self._requests.labels(*self._route, str(status))
        counter.inc()
        if self._observe is None:
            self._observe = self._seconds.labels(*self._route).observe
        self._observe(seconds)


class ApiMetrics:
    """The API's series in a registry. Labels are route templates, so their number is bounded."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        labels = ("method", "route")
        self._requests = Counter(
            "minutehand_api_requests_total",
            "Requests answered, by route template and status.",
            (*labels, "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "minutehand_api_request_duration_seconds",
            "Time from a request's headers to its answer.",
            labels,
            buckets=_BUCKETS,
            registry=registry,
        )
        self.storage_available = Gauge(
            "minutehand_api_storage_available",
            "1 while requests get answers from storage, 0 after one got none.",
            registry=registry,
        )
        self.storage_available.set(1)

    def route(self, method: str, path: str) -> RouteMetrics:
        return RouteMetrics(self._requests, self._seconds, method=method, path=path)
