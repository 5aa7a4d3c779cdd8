"""The figures of a destination's calls on this node, collected on request."""

from poller_cluster.destination_counts import DestinationCounts
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.receivers import Breaker
from poller_cluster.minute.rows import HOST
from poller_cluster.node_pollers import NodePollers
from scheduler_service.domain.destination_figures import BreakerState, NodeFigures
from scheduler_service.domain.destinations import named_url
from scheduler_service.domain.ids import ClientId
from scheduler_service.runtime.clock import Clock


class CollectFigures:
    """The `CountedDestinations` behind a node's port."""

    def __init__(
        self, *, counts: DestinationCounts, dispatcher: Dispatcher, pollers: NodePollers, clock: Clock
    ) -> None:
        self._counts = counts
        self._dispatcher = dispatcher
        self._pollers = pollers
        self._clock = clock

    def figures(self, client_id: ClientId, name: str) -> NodeFigures:
        counted, deferred = self._counts.figures(client_id, name, now=self._clock.wall_ms())
        receiver = self._dispatcher.known_receiver(client_id, named_url(name, ""))
        if receiver is None:
            return NodeFigures(
                calls=counted.calls, failures=counted.failures, answers=counted.answers, deferred=deferred
            )
        return NodeFigures(
            calls=counted.calls,
            failures=counted.failures,
            answers=counted.answers,
            in_flight=receiver.in_flight,
            waiting=receiver.outstanding - receiver.in_flight + self._held(client_id, receiver.name),
            deferred=deferred,
            breaker=_state(receiver.breaker, self._clock.monotonic()),
        )

    def _held(self, client_id: ClientId, receiver: str) -> int:
        """Rows that are not claimed for lack of room there."""
        pollers = self._pollers.get(client_id)
        if pollers is None:
            return 0
        runs = (run for poller in pollers.pollers.values() for run in poller.runs.values())
        return sum(len(run.machine.rows.held.get((HOST, receiver), ())) for run in runs)


def _state(breaker: Breaker, now: float) -> BreakerState:
    if breaker.closed:
        return BreakerState.CLOSED
    return BreakerState.OPEN if breaker.is_open(now) else BreakerState.HALF_OPEN
