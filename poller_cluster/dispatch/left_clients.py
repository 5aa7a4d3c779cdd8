"""Clients of which this node holds no poller any more, until they are forgotten. Pure.

That is after as long as a breaker may be open (`breaker_longest_seconds`), so that limits and breakers outlast a poller
that moves away and back.
"""

from collections import OrderedDict
from collections.abc import Callable

from scheduler_service.domain.ids import ClientId


class LeftClients:
    """Every instant is monotonic seconds. `forget(client_id, now)`: False if that must wait."""

    def __init__(self, *, remember_seconds: float, forget: Callable[[ClientId, float], bool]) -> None:
        self._remember_seconds = remember_seconds
        self._forget = forget
        self._at: OrderedDict[ClientId, float] = OrderedDict()
        """When they may be forgotten, the earliest first."""

    def __bool__(self) -> bool:
        return bool(self._at)

    def add(self, client_id: ClientId, now: float) -> None:
        self._at[client_id] = now + self._remember_seconds
        self._at.move_to_end(client_id)

    def forget(self, now: float) -> float | None:
        """Forget those whose time has come; returns the seconds until the next one's."""
        while self._at:
            client_id, at = next(iter(self._at.items()))
            if at > now:
                return at - now
            del self._at[client_id]
            if not self._forget(client_id, now):
                self._at[client_id] = now + self._remember_seconds
        return None
