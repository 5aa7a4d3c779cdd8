"""What a process shows to Prometheus: definitions, the values behind them, and one registry a process.

Whoever does the work counts in plain numbers of its own: an int, a dict by label, a `Distribution`. A `Metric` says
what such a number means and how to read it off the object that holds it; it is read when Prometheus asks. So counting
costs no lock and no look-up, and the same definitions are the list that `minutehand metrics` prints.

What counting costs (`tests/bench/counting.py`; one busy core of 2): a dict entry 0.05 µs, a `Distribution`
0.2 µs; a labelled histogram of prometheus-client, its child looked up before, 0.6 µs.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Final, Generic, TypeAlias, TypeVar

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "minutehand_"

T = TypeVar("T")


class Kind(StrEnum):
    """Prometheus's types, as far as they are used."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Count:
    """A number that grows, for who is handed something to call rather than something to add to."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, more: int = 1) -> None:
        self.value += more


class Distribution:
    """How often a value fell between two bounds, and the sum of all. One more count than bounds: what is above."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """A value on a bound is counted below it, as Prometheus has it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self.counts)


Value: TypeAlias = float | Distribution
Values: TypeAlias = Value | Mapping[str, Value] | Mapping[tuple[str, str], Value] | Mapping[tuple[str, str, str], Value]
"""One value, or values by label; a lone label needs no tuple."""
NOT_SHOWN: Final[Mapping[str, Value]] = {}
"""For a metric whose value is not known now: no sample."""


@dataclass(frozen=True, slots=True)
class Metric(Generic[T]):
    """One metric: `read` answers its value, or its values by label, off what the process counts in.

    Raises ValueError for names that Prometheus's users would not expect.
    """

    name: str
    kind: Kind
    meaning: str
    read: Callable[[T], Values]
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.startswith(PREFIX):
            raise ValueError(f"{self.name}: metrics begin with {PREFIX}")
        if self.name.endswith("_total") is not (self.kind is Kind.COUNTER):
            raise ValueError(f"{self.name}: counters end in _total, and nothing else does")

    def family(self) -> CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily:
        """As prometheus-client has it, still without values."""
        match self.kind:
            case Kind.COUNTER:
                return CounterMetricFamily(self.name, self.meaning, labels=self.labels)
            case Kind.GAUGE:
                return GaugeMetricFamily(self.name, self.meaning, labels=self.labels)
            case Kind.HISTOGRAM:
                return HistogramMetricFamily(self.name, self.meaning, labels=self.labels)

    def collected(self, of: T) -> Family:
        """With the values of now."""
        family, read = self.family(), self.read(of)
        for labels, value in read.items() if isinstance(read, Mapping) else [((), read)]:
            names = [labels] if isinstance(labels, str) else list(labels)
            if not isinstance(value, Distribution):
                assert not isinstance(family, HistogramMetricFamily)
                family.add_metric(names, float(value))
            else:
                assert isinstance(family, HistogramMetricFamily)
                family.add_metric(names, list(_buckets(value)), value.sum)
        return family


def _buckets(distribution: Distribution) -> Iterator[tuple[str, float]]:
    """Cumulative, each with its upper bound."""
    bounds = [*map(str, map(float, distribution.bounds)), "+Inf"]
    return zip(bounds, accumulate(distribution.counts), strict=True)


class _Shown(Collector, Generic[T]):
    """Some metrics of one object."""

    def __init__(self, metrics: Sequence[Metric[T]], of: T) -> None:
        self._metrics = metrics
        self._of = of

    def describe(self) -> Iterable[Family]:
        return [metric.family() for metric in self._metrics]

    def collect(self) -> Iterable[Family]:
        return [metric.collected(self._of) for metric in self._metrics]


def show(registry: CollectorRegistry, metrics: Sequence[Metric[T]], *, of: T) -> None:
    """Have a registry show these metrics of `of`. Raises ValueError for a name that it shows already."""
    registry.register(_Shown(metrics, of))


class Metrics:
    """Holds the registry. `program` is `api` or `node`; both it and the version are labels of one constant series."""

    def __init__(self, *, program: str, version: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        show(self.registry, BUILD, of=(program, version))

    def show(self, metrics: Sequence[Metric[T]], *, of: T) -> None:
        """See the function of this name."""
        show(self.registry, metrics, of=of)

    def exposition(self) -> bytes:
        """Everything in the text format that `CONTENT_TYPE` names."""
        return generate_latest(self.registry)


def _build(program_and_version: tuple[str, str]) -> Values:
    return {program_and_version: 1}


BUILD: tuple[Metric[tuple[str, str]], ...] = (
    Metric("minutehand_build_info", Kind.GAUGE, "1, with what runs as labels.", _build, labels=("program", "version")),
)
