"""When attempts have to be looked at: buckets of a twentieth of a second, one timer for all of them."""

from typing import Final, Generic, Protocol, TypeVar

TICKS_A_SECOND: Final = 20


class Due(Protocol):
    tick: int


T = TypeVar("T", bound=Due)


class Deadlines(Generic[T]):
    """Items by the instant (monotonic seconds) at which they are due; never told early, and a tick late at most.

    An item is in one bucket at most, and knows it by its `tick`, which belongs to this class.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, dict[T, None]] = {}

    def put(self, item: T, at: float) -> bool:
        """Add an item that is not in. True: this may be the first one due."""
        tick = item.tick = int(at * TICKS_A_SECOND) + 1
        bucket = self._buckets.get(tick)
        if bucket is not None:
            bucket[item] = None
            return False
        self._buckets[tick] = {item: None}
        return True

    def remove(self, item: T) -> None:
        """Take it out, if it is in."""
        bucket = self._buckets.get(item.tick)
        if bucket is not None:
            bucket.pop(item, None)

    def due(self, now: float) -> list[T]:
        """Take out those that are due, the first ones first."""
        until = int(now * TICKS_A_SECOND)
        ticks = sorted(tick for tick in self._buckets if tick <= until)
        return [item for tick in ticks for item in self._buckets.pop(tick)]

    def first(self) -> float | None:
        """The instant at which to ask again; None: nothing is in."""
        return min(self._buckets) / TICKS_A_SECOND if self._buckets else None

    def take_all(self) -> list[T]:
        """Take out everything."""
        items = [item for bucket in self._buckets.values() for item in bucket]
        self._buckets.clear()
        return items
