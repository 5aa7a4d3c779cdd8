"""A bounded number of places, given out to clients by turns. Lives on one event loop.

Within a client the order is that of asking. A client with a long queue therefore costs another no more than one place
a turn, and `per_client` bounds how many places it holds at once, for places that are held for long.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable


class Turns:
    """`places()` answers how many there are now; call `hand_out` when it has grown. `may_start()` False keeps all
    waiting until `hand_out` is called again."""

    def __init__(
        self,
        *,
        places: Callable[[], int],
        per_client: Callable[[], int] | None = None,
        may_start: Callable[[], bool] = lambda: True,
    ) -> None:
        self._places = places
        self._per_client = per_client or places
        self._may_start = may_start
        self._queues: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._held: Counter[Hashable] = Counter()
        self.held = 0
        """Places taken."""

    @property
    def waiting(self) -> int:
        return sum(map(len, self._queues.values()))

    async def acquire(self, client: Hashable) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(turn)
        self.hand_out()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(client)
            else:
                self._forget(client, turn)
            raise

    def release(self, client: Hashable) -> None:
        self.held -= 1
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
        self.hand_out()

    def hand_out(self) -> None:
        """Give free places to those who wait."""
        passed = 0
        while self.held < self._places() and passed < len(self._queues) and self._may_start():
            client = next(iter(self._queues))
            queue = self._queues.pop(client)
            if self._held[client] < max(self._per_client(), 1):
                turn = queue.popleft()
                passed = 0
                # A waiter that was cancelled may not have run since.
                if not turn.cancelled():
                    turn.set_result(None)
                    self.held += 1
                    self._held[client] += 1
            else:
                passed += 1
            if queue:
                self._queues[client] = queue

    def _forget(self, client: Hashable, turn: "asyncio.Future[None]") -> None:
        queue = self._queues.get(client)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[client]
