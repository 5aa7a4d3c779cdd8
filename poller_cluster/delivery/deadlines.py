"""Deadlines of many items in buckets of a twentieth of a second, so that one timer serves all."""

from typing import Final, Generic, Protocol, TypeVar

TICKS_A_SECOND: Final = 20


class Due(Protocol):
    tick: int


T = TypeVar("T", bound=Due)


class Deadlines(Generic[T]):
    """Items by the instant (monotonic seconds) at which they are due; never returned early, at most a tick late.

    An item is in one bucket at most, which its `tick` names; only this class writes `tick`.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, dict[T, None]] = {}

    def put(self, item: T, at: float) -> bool:
        """Add an item that is not in. True: it may be the earliest, so the timer has to be checked."""
        tick = item.tick = int(at * TICKS_A_SECOND) + 1
        bucket = self._buckets.get(tick)
        if bucket is not None:
            bucket[item] = None
            return False
        self._buckets[tick] = {item: None}
        return True

    def remove(self, item: T) -> None:
        """Remove it, if it is in."""
        bucket = self._buckets.get(item.tick)
        if bucket is not None:
            bucket.pop(item, None)

    def due(self, now: float) -> list[T]:
        """Remove and return those that are due, earliest first."""
        until = int(now * TICKS_A_SECOND)
        ticks = sorted(tick for tick in self._buckets if tick <= until)
        return [item for tick in ticks for item in self._buckets.pop(tick)]

    def first(self) -> float | None:
        """When the earliest bucket is due; None: there is nothing."""
        return min(self._buckets) / TICKS_A_SECOND if self._buckets else None

    def take_all(self) -> list[T]:
        """Remove and return everything."""
        items = [item for bucket in self._buckets.values() for item in bucket]
        self._buckets.clear()
        return items
