"""What a process shows to Prometheus: one registry of its own, so that two services in one test don't share numbers."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Gauge, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Counted(Collector):
    """One counter that somebody else counts."""

    def __init__(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        self._name = name
        self._documentation = documentation
        self._read = read

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily(self._name, self._documentation, value=self._read())


class Metrics:
    """Holds the registry. `program` is `api` or `poller`; both it and the version are labels of one constant series."""

    def __init__(self, *, program: str, version: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        build = Gauge(
            "minutehand_build_info", "1, with what runs as labels.", ("program", "version"), registry=self.registry
        )
        build.labels(program, version).set(1)

    def gauge(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        """A series whose value is asked for when it is shown."""
        Gauge(name, documentation, registry=self.registry).set_function(read)

    def counter(self, name: str, documentation: str, read: Callable[[], float]) -> None:
        """A series that only grows; `name` ends in `_total`. Its value is asked for when it is shown."""
        self.registry.register(_Counted(name, documentation, read))

    def gauge_by(self, name: str, documentation: str, label: str, reads: Mapping[str, Callable[[], float]]) -> None:
        """The same for a few known values of one label."""
        gauge = Gauge(name, documentation, (label,), registry=self.registry)
        for value, read in reads.items():
            gauge.labels(value).set_function(read)

    def exposition(self) -> bytes:
        """Everything in the text format that `CONTENT_TYPE` names."""
        return generate_latest(self.registry)
