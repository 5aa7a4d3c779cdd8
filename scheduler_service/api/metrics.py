"""Metrics of the API, for Prometheus. Labels are route templates, so their number is bounded.

Counting an answer costs 0.2 µs (`tests/bench/counting.py`): one dict entry and one `Distribution`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest

from scheduler_service.api.health import StorageHealth
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.metrics import NOT_SHOWN, Count, Distribution, Kind, Metric, Values, show
from scheduler_service.runtime.process_metrics import process_metrics
from scheduler_service.usecases.members import MemberState, WatchMembers
from scheduler_service.usecases.storage_probes import WatchAudits

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds."""


class RouteMetrics:
    """The metrics of one route, looked up once so that a request only adds to them."""

    __slots__ = ("_seconds", "by_status")

    def __init__(self) -> None:
        self.by_status: dict[int, int] = {}
        self._seconds: Distribution | None = None

    @property
    def seconds(self) -> Distribution | None:
        """None until the first answer."""
        return self._seconds

    def answered(self, status: int, seconds: float) -> None:
        """Count an answer that was sent `seconds` after its request began."""
        self.by_status[status] = self.by_status.get(status, 0) + 1
        if self._seconds is None:
            self._seconds = Distribution(BOUNDS)
        self._seconds.observe(seconds)


class ApiMetrics:
    """The metrics of all routes, and whether storage answers them."""

    def __init__(self, registry: CollectorRegistry, *, storage: StorageHealth) -> None:
        self.registry = registry
        self.routes: dict[tuple[str, str], RouteMetrics] = {}
        self.storage = storage
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
        "Requests answered, by method, route template and status.",
        ApiMetrics.requests,
        labels=("method", "route", "status"),
    ),
    Metric(
        "minutehand_api_request_duration_seconds",
        Kind.HISTOGRAM,
        "Seconds from a request's headers to its answer.",
        ApiMetrics.seconds,
        labels=("method", "route"),
    ),
    Metric(
        "minutehand_api_storage_available",
        Kind.GAUGE,
        "1; 0 once storage has not answered this process for some seconds.",
        lambda metrics: float(metrics.storage.available),
    ),
)
"""Metrics of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The sources of an API process's metrics beside those of its requests.

    `ended`: schedules that this process ended, by state.
    """

    members: WatchMembers
    clock: Clock
    ended: Mapping[str, int]
    hints_dropped: Count
    audits: WatchAudits


def _members(shown: Shown) -> Mapping[str, int]:
    return {state.value: 0 for state in MemberState} | Counter(member.state.value for member in shown.members.members())


def _taking(shown: Shown) -> Values:
    """Absent until the members have been watched long enough to say which of them beat."""
    if not shown.members.settled:
        return NOT_SHOWN
    return sum(member.beats and member.state is MemberState.LIVE for member in shown.members.members())


def _audit_findings(shown: Shown) -> Values:
    """Absent without an audit: 0 would say that the books balance."""
    found = shown.audits.findings
    return NOT_SHOWN if found is None else found


PROCESS_METRICS: Final[tuple[Metric[Shown], ...]] = (
    Metric(
        "minutehand_audit_findings",
        Kind.GAUGE,
        "Findings in the newest audit of each window over all clients; absent if there was no audit.",
        _audit_findings,
    ),
    Metric(
        "minutehand_nodes_taking",
        Kind.GAUGE,
        "Nodes that beat and take pollers, as this process sees them, without nodes that drain. 0: no calls are "
        "made. Absent for the first seconds.",
        _taking,
    ),
    *process_metrics(
        ended=lambda shown: shown.ended,
        hints_dropped=lambda shown: shown.hints_dropped.value,
        clock_trusted=lambda shown: shown.clock.wall_trusted(),
        clock_offset_ms=lambda shown: shown.members.offset_ms or 0,
        storage_clock_offset_ms=lambda shown: shown.members.servers.ahead_of_most_ms(),
        members=_members,
    ),
)
"""Metrics of the process and of what it sees of the cluster."""


class Exposition:
    """The metrics page of a registry, cached for `max_age_seconds`: rendering costs about 20 ms of CPU, and everybody
    who reaches the port may ask for it.

    A `PageMaker`.
    """

    def __init__(self, registry: CollectorRegistry, *, clock: Clock, max_age_seconds: float) -> None:
        self.registry = registry
        self._clock = clock
        self._max_age = max_age_seconds
        self._page = b""
        self._made_at = float("-inf")

    async def page(self) -> bytes:
        now = self._clock.monotonic()
        if now - self._made_at >= self._max_age:
            self._page, self._made_at = generate_latest(self.registry), now
        return self._page
