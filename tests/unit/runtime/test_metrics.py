"""Definitions and values as Prometheus receives them."""

import pytest
from prometheus_client import CollectorRegistry, Histogram

from scheduler_service.runtime.metrics import Distribution, Kind, Metric, Metrics


def shown(*metrics: Metric[dict[str, object]], of: dict[str, object]) -> list[str]:
    registry = Metrics(program="api", version="1")
    registry.show(metrics, of=of)
    return [line for line in registry.exposition().decode().splitlines() if "minutehand_x" in line]


def test_a_number_is_read_when_it_is_asked_for() -> None:
    values = {"x": 3}
    metrics = Metrics(program="api", version="1")
    metrics.show([Metric("minutehand_x_total", Kind.COUNTER, "X.", lambda of: of["x"])], of=values)
    assert b"\nminutehand_x_total 3.0\n" in metrics.exposition()
    values["x"] = 4
    assert b"# TYPE minutehand_x_total counter\nminutehand_x_total 4.0\n" in metrics.exposition()


def test_values_by_label() -> None:
    one = Metric("minutehand_x", Kind.GAUGE, "X.", lambda of: {"a": 1, "b": 2}, labels=("l",))
    two = Metric("minutehand_xx", Kind.GAUGE, "X.", lambda of: {("a", "b"): 1}, labels=("l", "m"))
    lines = shown(one, two, of={})
    assert 'minutehand_x{l="a"} 1.0' in lines
    assert 'minutehand_x{l="b"} 2.0' in lines
    assert 'minutehand_xx{l="a",m="b"} 1.0' in lines


def test_a_distribution_is_as_prometheus_counts_it() -> None:
    """Every line is equal, except for the creation times, which we do not show."""
    ours, bounds = Distribution((0.5, 1, 2)), (0.5, 1, 2)
    registry = CollectorRegistry()
    theirs = Histogram("minutehand_x_seconds", "X.", buckets=bounds, registry=registry)
    for value in (0.1, 0.5, 0.6, 1.0, 1.5, 2.0, 2.5):
        ours.observe(value)
        theirs.observe(value)
    metric = Metric("minutehand_x_seconds", Kind.HISTOGRAM, "X.", lambda of: ours)
    expected = [
        f'{sample.name}{{le="{sample.labels["le"]}"}} {sample.value}'
        if sample.labels
        else f"{sample.name} {sample.value}"
        for family in registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]
    assert sorted(line for line in shown(metric, of={}) if not line.startswith("#")) == sorted(expected)
    assert ours.count == 7


@pytest.mark.parametrize(
    ("name", "kind"),
    [("other_x", Kind.GAUGE), ("minutehand_x", Kind.COUNTER), ("minutehand_x_total", Kind.HISTOGRAM)],
)
def test_names_that_mislead_are_refused(name: str, kind: Kind) -> None:
    with pytest.raises(ValueError, match=name):
        Metric(name, kind, "X.", lambda of: 1)


def test_a_name_is_shown_once() -> None:
    metrics = Metrics(program="api", version="1")
    one = Metric("minutehand_x", Kind.GAUGE, "X.", lambda of: 1)
    metrics.show([one], of=None)
    with pytest.raises(ValueError, match="minutehand_x"):
        metrics.show([one], of=None)
