"""Compares what a program shows to Prometheus with the documented list."""

from prometheus_client.parser import text_string_to_metric_families

from minutehand.reference_pages import PROGRAMS
from scheduler_service.runtime.metrics import PREFIX, Kind

_OF_HISTOGRAMS = {"le"}


def check_exposition(text: str, *, program: str) -> set[str]:
    """Raises AssertionError unless exactly the documented metrics of `program` are shown, with their type, description
    and labels. Returns those that have values.
    """
    documented = {metric.name: metric for metric in PROGRAMS[program]}
    shown, valued = set(), set()
    for family in text_string_to_metric_families(text):
        if not family.name.startswith(PREFIX):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert name in documented, f"{name} is not documented"
        metric = documented[name]
        assert (family.type, family.documentation) == (metric.kind.value, metric.meaning), name
        shown.add(name)
        for sample in family.samples:
            own = set(sample.labels) - (_OF_HISTOGRAMS if metric.kind is Kind.HISTOGRAM else set())
            assert own == set(metric.labels), f"{name} has labels {own}"
            valued.add(name)
    assert shown == documented.keys(), f"not shown: {documented.keys() - shown}"
    return valued
