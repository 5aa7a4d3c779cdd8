"""The floor of a life: the oldest mark not settled over its lanes that count. It spares idle lanes every write.

A taker of a lane that does not lag starts from the floor in the dead owner's heartbeat. So the floor must never pass a
counted lane, not even in a heartbeat that was sent long ago and arrives now, and a lane that starts to count must be at
or above every floor that was ever *sent*, confirmed or not.
"""

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace

from membership.identity import Lane


class Floors:
    """The lanes that count, and the highest floor sent. Floors never fall; with no lane that counts the last one stays.

    Positions never fall, so the last known ones are lower bounds: a heap of them finds the oldest lane by looking at
    few positions, not at all of them.
    """

    def __init__(self) -> None:
        self.sent: int | None = None
        self._counted: dict[Lane, int] = {}
        self._heap: list[tuple[int, Lane, int]] = []
        self._entries = 0

    def __len__(self) -> int:
        return len(self._counted)

    def __contains__(self, lane: object) -> bool:
        return lane in self._counted

    def may_count(self, position: int) -> bool:
        """Whether a lane whose oldest mark not settled is `position` may have its lagging flag cleared."""
        return self.sent is None or position >= self.sent

    def count(self, lane: Lane, *, position: int) -> None:
        """The lane holds up the floor from now on. Raises ValueError below a floor that was sent."""
        if not self.may_count(position):
            raise ValueError(f"{lane} is at {position}; a floor of {self.sent} was already sent")
        self._entries += 1
        self._counted[lane] = self._entries
        heappush(self._heap, (position, lane, self._entries))

    def discount(self, lane: Lane) -> None:
        """The lane no longer holds up the floor. Passed over when it did not."""
        self._counted.pop(lane, None)

    def send(self, position_of: Callable[[Lane], int]) -> int | None:
        """The floor for the heartbeat that is about to be sent; it counts as sent from now on."""
        if (oldest := self._oldest(position_of)) is not None:
            self.sent = oldest if self.sent is None else max(self.sent, oldest)
        return self.sent

    def below(self, mark: int, position_of: Callable[[Lane], int]) -> list[Lane]:
        """The lanes that count and are below `mark`, oldest first."""
        found = []
        while (oldest := self._oldest(position_of)) is not None and oldest < mark:
            found.append(heappop(self._heap))
        for entry in found:
            heappush(self._heap, entry)
        return [lane for _, lane, _ in found]

    def _oldest(self, position_of: Callable[[Lane], int]) -> int | None:
        """The lowest position; its lane is then at the top of the heap."""
        while self._heap:
            known, lane, entry = self._heap[0]
            if self._counted.get(lane) != entry:
                heappop(self._heap)
            elif (position := position_of(lane)) > known:
                heapreplace(self._heap, (position, lane, entry))
            else:
                return position
        return None
