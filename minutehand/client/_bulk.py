"""Many creates without waiting for each: items are gathered into batches, a few of which are in flight at a time.

    add --> gathering --full, or `wait_seconds` old--> in flight (at most `in_flight`) --> the future of each item

While the maximum is in flight, one more batch fills; when that is full too, `add` waits. So at most `in_flight + 1`
batches are held. Each is sent as `create_batch` sends one: under a token, and again when it got no answer.

The result of an item is in its future, which never fails: a refused item is a result, and so is a batch that got no
answer, or whose transport raised. Left normally, a bulk sends what is left and waits for all answers. Left by an
exception it sends nothing more and cancels the futures of unanswered items, which may have been created if they were in
flight. The synchronous bulk can't stop its threads, and waits until batches in flight have been answered or given up.
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
    """The result of one item: the schedule, or the problem that prevented it, or `error` when its whole batch was
    refused or got no answer; without an answer it may have been created."""

    schedule: Schedule | None = None
    problem: Problem | None = None
    error: MinutehandClientError | None = None

    @property
    def created(self) -> bool:
        return self.schedule is not None


F = TypeVar("F", "asyncio.Future[BulkItem]", "ThreadFuture[BulkItem]")


class Gathering(Generic[F]):
    """The batch being filled: items as JSON with their futures. `due`: send it as soon as there is room."""

    def __init__(self, batch_items: int, batch_bytes: int) -> None:
        self._most_items = batch_items
        self._most_bytes = batch_bytes
        self._size = 0
        self.items: list[tuple[bytes, F]] = []
        self.due = False

    def has_room(self, item: bytes) -> bool:
        """Always true for a first item, however large."""
        return not self.items or (len(self.items) < self._most_items and self._size + len(item) + 1 <= self._most_bytes)

    def add(self, item: bytes, future: F) -> None:
        self.items.append((item, future))
        self._size += len(item) + 1
        if len(self.items) >= self._most_items or self._size >= self._most_bytes:
            self.due = True

    def take(self) -> list[tuple[bytes, F]]:
        """Take the first batch. Items left over are due."""
        count = size = 0
        for item, _ in self.items:
            if count and (count >= self._most_items or size + len(item) + 1 > self._most_bytes):
                break
            count, size = count + 1, size + len(item) + 1
        taken, self.items = self.items[:count], self.items[count:]
        self._size, self.due = self._size - size, bool(self.items)
        return taken

    def cancel(self) -> None:
        """Cancel all futures: none of the items will be sent."""
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
    """The results of a batch without an answer. A transport of the caller's may raise anything."""
    if not isinstance(error, MinutehandClientError):
        told = MinutehandUnreachable(f"a batch got no answer ({type(error).__name__}: {error})")
        told.__cause__, error = error, told
    return [BulkItem(error=error)] * count


def counted(results: Sequence[BulkItem], created: int, failed: int) -> tuple[int, int]:
    made = sum(result.created for result in results)
    return created + made, failed + len(results) - made
