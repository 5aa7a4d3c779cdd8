"""Many creates without waiting for each: what is added gathers in batches, a few of which are under way at a time.

    add --> gathers --full, or `wait_seconds` old--> under way (at most `in_flight`) --> the future of each item

While as many are under way as may be, one more batch fills; when that is full too, `add` waits. So what is held is
bounded by `in_flight + 1` batches. Each is sent as `create_batch` sends one: under a token, and again where it got no
answer.

What becomes of an item is in its future, which never fails: a refused item is an answer, and so is a batch that nobody
answered, or whose transport raised anything else. Left in good order, a bulk sends what is left and waits for all
answers. Left by an exception it sends nothing more: items that were not answered have their futures cancelled, and may
have been made if they were under way. The plain one can't stop its threads, and waits until what is under way has been
answered or given up.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future as ThreadFuture
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from minutehand.client._errors import MinutehandClientError, MinutehandUnreachable
from minutehand.client._models import Batch, Problem, Schedule

MAX_ITEMS: Final = 1000
DEFAULT_BYTES: Final = 1 << 20
DEFAULT_WAIT_SECONDS: Final = 0.05
DEFAULT_IN_FLIGHT: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkItem:
    """What became of one item: the schedule; or the problem why there is none; or `error`, where its whole batch was
    refused, or got no answer, and then it may have been made."""

    schedule: Schedule | None = None
    problem: Problem | None = None
    error: MinutehandClientError | None = None

    @property
    def created(self) -> bool:
        return self.schedule is not None


F = TypeVar("F", "asyncio.Future[BulkItem]", "ThreadFuture[BulkItem]")


class Gathering(Generic[F]):
    """Items that wait, as JSON, with their futures. `due`: they are to go as soon as there is room."""

    def __init__(self, batch_items: int, batch_bytes: int) -> None:
        self._most_items = batch_items
        self._most_bytes = batch_bytes
        self._size = 0
        self.items: list[tuple[bytes, F]] = []
        self.due = False

    def has_room(self, item: bytes) -> bool:
        """Always for a first one, however large."""
        return not self.items or (len(self.items) < self._most_items and self._size + len(item) + 1 <= self._most_bytes)

    def add(self, item: bytes, future: F) -> None:
        self.items.append((item, future))
        self._size += len(item) + 1
        if len(self.items) >= self._most_items or self._size >= self._most_bytes:
            self.due = True

    def take(self) -> list[tuple[bytes, F]]:
        """The first batch of them. What is left over is due."""
        count = size = 0
        for item, _ in self.items:
            if count and (count >= self._most_items or size + len(item) + 1 > self._most_bytes):
                break
            count, size = count + 1, size + len(item) + 1
        taken, self.items = self.items[:count], self.items[count:]
        self._size, self.due = self._size - size, bool(self.items)
        return taken

    def cancel(self) -> None:
        """None of them will be sent."""
        for _, future in self.items:
            future.cancel()
        self.items, self._size, self.due = [], 0, False


def check(batch_items: int, batch_bytes: int, wait_seconds: float, in_flight: int) -> None:
    if not 1 <= batch_items <= MAX_ITEMS or batch_bytes < 1 or wait_seconds < 0 or in_flight < 1:
        raise ValueError(
            f"batch_items is 1 to {MAX_ITEMS}, batch_bytes and in_flight are at least 1, wait_seconds is not negative"
        )


def results_of(answer: Batch, count: int) -> list[BulkItem]:
    if len(answer.items) != count:
        raise MinutehandUnreachable(f"{len(answer.items)} answers came for a batch of {count}: is the address right?")
    return [BulkItem(schedule=item.schedule, problem=item.problem) for item in answer.items]


def unanswered(error: BaseException, count: int) -> list[BulkItem]:
    """What became of a batch that has no answer. A transport of the caller's own may raise anything."""
    if not isinstance(error, MinutehandClientError):
        told = MinutehandUnreachable(f"a batch came to no answer ({type(error).__name__}: {error})")
        told.__cause__, error = error, told
    return [BulkItem(error=error)] * count


def counted(results: Sequence[BulkItem], created: int, failed: int) -> tuple[int, int]:
    made = sum(result.created for result in results)
    return created + made, failed + len(results) - made
