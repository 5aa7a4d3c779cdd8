"""The figures of a destination's calls on this node, collected on request."""

from collections.abc import Collection

from msgspec.structs import replace

from poller_cluster.clients import ServedClients
from poller_cluster.destination_counts import DestinationCounts
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.receivers import Breaker
from poller_cluster.dispatch.tokens import TokenKey
from poller_cluster.minute.rows import HOST
from poller_cluster.node_pollers import NodePollers
from scheduler_service.domain.destination_figures import BreakerState, NodeFigures
from scheduler_service.domain.destinations import named_url
from scheduler_service.domain.ids import ClientId
from scheduler_service.runtime.clock import Clock


class CollectFigures:
    """The `CountedDestinations` behind a node's port."""

    def __init__(
        self,
        *,
        counts: DestinationCounts,
        clients: ServedClients,
        dispatcher: Dispatcher,
        pollers: NodePollers,
        clock: Clock,
    ) -> None:
        self._counts = counts
        self._clients = clients
        self._dispatcher = dispatcher
        self._pollers = pollers
        self._clock = clock

    def figures(self, client_id: ClientId, name: str) -> NodeFigures:
        now = self._clock.wall_ms()
        counted, deferred = self._counts.figures(client_id, name, now=now)
        figures = NodeFigures(
            calls=counted.calls,
            failures=counted.failures,
            answers=counted.answers,
            deferred=deferred,
            token_failures=self._token_failures(client_id, name, now),
        )
        receiver = self._dispatcher.known_receiver(client_id, named_url(name, ""))
        if receiver is None:
            return figures
        return replace(
            figures,
            in_flight=receiver.in_flight,
            waiting=receiver.outstanding - receiver.in_flight + self._held(client_id, receiver.name),
            breaker=_state(receiver.breaker, self._clock.monotonic()),
        )

    def held_back(self) -> Collection[ClientId]:
        return self._dispatcher.held_back()

    def _token_failures(self, client_id: ClientId, name: str, now: int) -> int:
        client = self._clients.get(client_id)
        destination = None if client is None else client.destinations.get(name)
        if destination is None or destination.token is None:
            return 0
        return self._counts.token_failures(TokenKey(client_id, destination.token), now=now)

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
