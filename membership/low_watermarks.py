"""The low watermark of an incarnation: the oldest unsettled mark over its pollers that count. It saves a write per idle
poller.

A taker of a poller that does not lag starts from the low watermark in the dead owner's heartbeat. So the low watermark
must never pass a counted poller, even in a heartbeat that arrives late, and a poller that starts to count must be at or
above every low watermark that was ever *sent*, confirmed or not."""

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace

from membership.identity import PollerKey


class LowWatermarks:
    """The pollers that count, and the highest low watermark sent. Low watermarks never fall; while no poller counts the
    last one stays.

    Positions never fall, so the last known ones are lower bounds: a heap of them finds the oldest poller by reading few
    positions instead of all.
    """

    def __init__(self) -> None:
        self.sent: int | None = None
        self._counted: dict[PollerKey, int] = {}
        self._heap: list[tuple[int, PollerKey, int]] = []
        self._entries = 0

    def __len__(self) -> int:
        return len(self._counted)

    def __contains__(self, poller: object) -> bool:
        return poller in self._counted

    def may_count(self, position: int) -> bool:
        """Whether a poller whose oldest unsettled mark is `position` may have its lagging flag cleared."""
        return self.sent is None or position >= self.sent

    def count(self, poller: PollerKey, *, position: int) -> None:
        """The poller holds the low watermark back from now on. Raises ValueError below a low watermark that was
        sent."""
        if not self.may_count(position):
            raise ValueError(f"{poller} is at {position}; a low watermark of {self.sent} was already sent")
        self._entries += 1
        self._counted[poller] = self._entries
        heappush(self._heap, (position, poller, self._entries))

    def discount(self, poller: PollerKey) -> None:
        """The poller no longer holds the low watermark back. Ignored when it did not."""
        self._counted.pop(poller, None)

    def send(self, position_of: Callable[[PollerKey], int]) -> int | None:
        """The low watermark for the heartbeat that is about to be sent; it counts as sent from now on."""
        if (oldest := self._oldest(position_of)) is not None:
            self.sent = oldest if self.sent is None else max(self.sent, oldest)
        return self.sent

    def below(self, mark: int, position_of: Callable[[PollerKey], int]) -> list[PollerKey]:
        """The pollers that count and are below `mark`, oldest first."""
        found = []
        # `_oldest` leaves its poller at the top of the heap, so popping removes exactly that one.
        while (oldest := self._oldest(position_of)) is not None and oldest < mark:
            found.append(heappop(self._heap))
        for entry in found:
            heappush(self._heap, entry)
        return [poller for _, poller, _ in found]

    def _oldest(self, position_of: Callable[[PollerKey], int]) -> int | None:
        """The lowest position; its poller is then at the top of the heap."""
        while self._heap:
            known, poller, entry = self._heap[0]
            if self._counted.get(poller) != entry:  # discounted since, or counted again under a newer entry
                heappop(self._heap)
            elif (position := position_of(poller)) > known:
                heapreplace(self._heap, (position, poller, entry))
            else:
                return position
        return None
