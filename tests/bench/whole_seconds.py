"""The phase about whole seconds, as people schedule: very many calls due at one second, and again at the next one."""

from collections.abc import Iterable
from typing import Any

from tests.bench import phases
from tests.bench.phases import Bench, Figures
from tests.support.receiver import percentile


def calls_at_whole_seconds(bench: Bench, *, rate: int, seconds: float, lead_seconds: float) -> Figures:
    """`rate` calls due at each whole second: how late they are, and how long each second's last one takes."""
    figures = phases.calls(
        bench, count=round(rate * seconds), over_seconds=seconds, lead_seconds=lead_seconds, whole_seconds=True
    )
    last = sorted(late * 1000 for late in last_of_each(bench.receiver.calls()).values())
    return {
        **figures,
        "last_of_a_second_ms": {
            name: percentile(last, share) for name, share in (("least", 0.0), ("p50", 0.5), ("max", 1.0))
        },
    }


def last_of_each(calls: Iterable[dict[str, Any]]) -> dict[float, float]:
    """By due: the seconds until all that were due then had been called for the first time."""
    first: dict[str, tuple[float, float]] = {}
    for call in calls:
        due, arrived = call["due"], call["arrived"]
        if call["id"] not in first or arrived < first[call["id"]][1]:
            first[call["id"]] = due, arrived
    last: dict[float, float] = {}
    for due, arrived in first.values():
        last[due] = max(last.get(due, arrived - due), arrived - due)
    return last
