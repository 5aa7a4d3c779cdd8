"""The documented list of metrics, from the definitions that the programs show, so that it can't drift from them."""

from typing import Any, Final, NamedTuple

from cql.metrics import METRICS as OF_STORAGE
from poller_cluster.ops.metrics import METRICS as OF_POLLERS
from scheduler_service.api.gauges import METRICS as OF_APIS
from scheduler_service.api.metrics import METRICS as OF_REQUESTS
from scheduler_service.runtime.metrics import BUILD, Kind, Metric

PROGRAMS: Final[dict[str, tuple[Metric[Any], ...]]] = {
    "api": (*BUILD, *OF_REQUESTS, *OF_APIS, *OF_STORAGE),
    "poller": (*BUILD, *OF_POLLERS, *OF_STORAGE),
}
"""What each program shows, beside `process_*` and `python_info`, which every Python program does."""


class Documented(NamedTuple):
    """One metric. `programs`: which of them show it."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    programs: tuple[str, ...]
    meaning: str


def documented() -> list[Documented]:
    """All metrics by name. Raises ValueError where two programs mean different things by one name."""
    found: dict[str, Documented] = {}
    for program, metrics in PROGRAMS.items():
        for metric in metrics:
            one = Documented(metric.name, metric.kind, metric.labels, (program,), metric.meaning)
            if (known := found.get(metric.name)) is not None:
                if known._replace(programs=()) != one._replace(programs=()):
                    raise ValueError(f"{metric.name} means different things to {known.programs} and {program}")
                one = known._replace(programs=(*known.programs, program))
            found[metric.name] = one
    return [found[name] for name in sorted(found)]
