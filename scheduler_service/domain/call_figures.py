"""What nodes are calling right now: how many calls a second, how late, for whom. Pure.

Each node compares its counts with those of a minute ago (`poller_cluster.recent_calls`); the API asks the nodes and
adds up (`merged`).
"""

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

LATENESS_BOUNDS: Final = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    3600.0,
)
"""Seconds. 1 s is the promised bound."""

Whole = Annotated[int, Meta(ge=0)]


class ClientCalls(msgspec.Struct, frozen=True, array_like=True):
    """First attempts of a client's schedules, the sum of their lateness in seconds, and attempts of any number that
    failed; older nodes do not say the last."""

    calls: Whole = 0
    late_seconds: Annotated[float, Meta(ge=0)] = 0.0
    failed_attempts: Whole = 0

    @property
    def mean_late_seconds(self) -> float:
        return self.late_seconds / self.calls if self.calls else 0.0


class CallFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one node or of several, within about a minute. `per_second`: first attempts a second. `lateness`: first
    attempts by `LATENESS_BOUNDS`, and those above all. `ends`: schedules that ended, by state. `clients`: the busiest
    by name, all others together as `other`."""

    per_second: Annotated[float, Meta(ge=0)] = 0.0
    lateness: tuple[Whole, ...] = (0,) * (len(LATENESS_BOUNDS) + 1)
    ends: dict[str, Whole] = {}
    clients: dict[str, ClientCalls] = {}

    @property
    def calls(self) -> int:
        return sum(self.lateness)


def merged(figures: Iterable[CallFigures]) -> CallFigures:
    """The figures of several nodes together. A node that counts in other bounds is left out."""
    per_second, lateness = 0.0, [0] * (len(LATENESS_BOUNDS) + 1)
    ends: dict[str, int] = {}
    clients: dict[str, ClientCalls] = {}
    for one in figures:
        if len(one.lateness) != len(lateness):
            continue
        per_second += one.per_second
        lateness = [mine + its for mine, its in zip(lateness, one.lateness, strict=True)]
        for state, count in one.ends.items():
            ends[state] = ends.get(state, 0) + count
        for name, its_calls in one.clients.items():
            known = clients.get(name, ClientCalls())
            clients[name] = ClientCalls(
                known.calls + its_calls.calls,
                known.late_seconds + its_calls.late_seconds,
                known.failed_attempts + its_calls.failed_attempts,
            )
    return CallFigures(per_second=per_second, lateness=tuple(lateness), ends=ends, clients=clients)


def late_at_most(lateness: tuple[int, ...], part: float) -> float | None:
    """The bound, in seconds, within which this part (0 to 1) of the calls began; None: there were none, or they were
    later than the last bound."""
    wanted = math.ceil(sum(lateness) * part)
    if not wanted:
        return None
    for bound, count in zip(LATENESS_BOUNDS, lateness, strict=False):
        wanted -= count
        if wanted <= 0:
            return bound
    return None


def busiest(clients: Mapping[str, ClientCalls], *, most: int) -> list[tuple[str, ClientCalls]]:
    """Those with most calls, `other` left out; then those of which only retries were made."""
    named = [(name, one) for name, one in clients.items() if name != "other" and (one.calls or one.failed_attempts)]
    return sorted(named, key=lambda one: (-one[1].calls, one[0]))[:most]
