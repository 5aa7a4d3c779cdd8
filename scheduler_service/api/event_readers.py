"""How many readers of feeds may wait in one process."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler_service.domain.ids import ClientId

MOST_READERS = 1_000
"""Readers that wait in one process. Each looks once a second at least, which is some reads of storage."""
MOST_READERS_OF_CLIENT = 20


class WaitingReaders:
    """Counts them, over all clients and of each."""

    def __init__(self) -> None:
        self._of: Counter[ClientId] = Counter()

    def __len__(self) -> int:
        return self._of.total()

    @contextmanager
    def place(self, client_id: ClientId) -> Iterator[bool]:
        """Whether one more may wait; it counts until the block ends."""
        placed = self._of[client_id] < MOST_READERS_OF_CLIENT and len(self) < MOST_READERS
        if not placed:
            yield False
            return
        self._of[client_id] += 1
        try:
            yield True
        finally:
            self._of[client_id] -= 1
            if not self._of[client_id]:
                del self._of[client_id]
