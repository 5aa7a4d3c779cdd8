"""What must hold of the calls of each flow key, as the receivers see them."""

from collections import deque
from dataclasses import dataclass, field

from scheduler_service.domain.flows import FlowLimits
from scheduler_service.domain.ids import PollerId, poller_of
from tests.simulation.creates import CreateRecord
from tests.simulation.receivers import Call

SAVED_SECONDS = 0.1
DRIFT = 0.02
"""How much faster than the truth a node's clock may go, with what a start needs from its decision to the receiver."""
REMEMBERED = 200


@dataclass
class _Calls:
    """Of one key in one poller. `under_way`: by fence, since nobody knows when a dead owner's calls end."""

    starts: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    under_way: dict[int, set[str]] = field(default_factory=dict)


class FlowWatch:
    """Counts the calls of each key in each poller. (A change of the quota may move a key to another one.)"""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, PollerId, str], _Calls] = {}
        self.most: dict[str, int] = {}
        """The most calls of each key that were under way at a time."""

    def _of(self, asked: CreateRecord) -> _Calls:
        assert asked.flow is not None
        place = (asked.client_id, poller_of(asked.schedule_id), asked.flow.key)
        return self._calls.setdefault(place, _Calls())

    def started(self, asked: CreateRecord, call: Call, limits: FlowLimits) -> str | None:
        """What is wrong with this call, if anything is."""
        assert asked.flow is not None
        calls, key = self._of(asked), asked.flow.key
        ours = calls.under_way.setdefault(call.fence, set())
        ours.add(call.schedule_id)
        self.most[key] = max(self.most.get(key, 0), len(ours))
        calls.starts.append(call.at_ms)
        if limits.parallelism is not None and len(ours) > limits.parallelism:
            return f"{len(ours)} calls of flow key {key} are under way, {limits.parallelism} may be"
        if limits.rate is None:
            return None
        starts = list(calls.starts)
        saved = max(limits.rate * SAVED_SECONDS, 1.0)
        for first, start in enumerate(starts):
            most = limits.rate * (call.at_ms - start) / 1000 * (1 + DRIFT) + saved + 0.01
            if len(starts) - first > most:
                return f"{len(starts) - first} calls of flow key {key} in {call.at_ms - start:.0f} ms"
        return None

    def ended(self, asked: CreateRecord, call: Call) -> None:
        self._of(asked).under_way[call.fence].discard(call.schedule_id)
