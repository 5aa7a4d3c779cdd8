"""What nodes called within the last minute."""

import msgspec

from minutehand.client._calls import Operation


class LateCalls(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the first attempts (0.99: 99 %), and within how many seconds of their due they began; None: there were
    none, or some began more than an hour late."""

    part: float
    seconds: float | None = None


class CallingClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client's first attempts, how late they began on average, and attempts that failed, retries among them."""

    client_id: str
    calls: int
    mean_late_seconds: float
    failed_attempts: int = 0


class RecentCalls(msgspec.Struct, frozen=True, kw_only=True):
    """Within about a minute. `delivered`, `failed`: schedules that ended so. `clients`: the busiest.
    `nodes_not_answering` are missing in all figures."""

    per_second: float
    late: tuple[LateCalls, ...]
    delivered: int
    failed: int
    clients: tuple[CallingClient, ...]
    nodes_not_answering: tuple[str, ...]


def get_cluster_calls() -> Operation[RecentCalls]:
    return Operation(method="GET", path="/v1/cluster/calls", answer=RecentCalls)
