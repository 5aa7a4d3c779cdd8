"""Which receivers are known to speak HTTP/1.1 alone. Pure."""

from typing import Final

from poller_cluster.delivery.target import Target

REMEMBERED: Final = 10_000
REMEMBERED_SECONDS: Final = 600.0


class Http1Receivers:
    """Those that chose HTTP/1.1 in their last handshake, remembered for ten minutes from then on. Of too many, the one
    not heard of for the longest time is forgotten."""

    def __init__(self) -> None:
        self._until: dict[Target, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def has(self, target: Target, now: float) -> bool:
        """`now` in monotonic seconds, as everywhere."""
        until = self._until.get(target)
        if until is None:
            return False
        if now < until:
            return True
        del self._until[target]
        return False

    def add(self, target: Target, now: float) -> None:
        self._until.pop(target, None)
        self._until[target] = now + REMEMBERED_SECONDS
        if len(self._until) > REMEMBERED:
            del self._until[next(iter(self._until))]

    def forget(self, target: Target) -> None:
        self._until.pop(target, None)
