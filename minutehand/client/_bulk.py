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
import threading
from collections.abc import Sequence
from concurrent.futures import Future as ThreadFuture
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from minutehand.client._calls import create_encoded, encoded
from minutehand.client._errors import MinutehandClientError, MinutehandUnreachable
from minutehand.client._models import Batch, NewSchedule, Problem, Schedule
from minutehand.client._pace import SystemPace
from minutehand.client._parts import AsyncPerform, Perform

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


class _Gathering(Generic[F]):
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


class AsyncBulk:
    """An asynchronous context manager; belongs to one event loop, of which any number of tasks may add."""

    def __init__(
        self,
        perform: AsyncPerform,
        client_id: str,
        *,
        batch_items: int,
        batch_bytes: int,
        wait_seconds: float,
        in_flight: int,
    ) -> None:
        _check(batch_items, batch_bytes, wait_seconds, in_flight)
        self._perform = perform
        self._client_id = client_id
        self._wait_seconds = wait_seconds
        self._most = in_flight
        self._gathering = _Gathering["asyncio.Future[BulkItem]"](batch_items, batch_bytes)
        self._under_way: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._group = asyncio.TaskGroup()
        self._open = False
        self.created = 0
        """How many items were created so far."""
        self.failed = 0
        """How many items were answered otherwise so far."""

    async def add(self, schedule: NewSchedule) -> "asyncio.Future[BulkItem]":
        """Return when there is room for it; what becomes of it is in the future. Raises RuntimeError where this is not
        open, and TypeError or ValueError for what JSON can't hold."""
        item = encoded(schedule)
        while self._is_open() and not self._gathering.has_room(item):
            self._gathering.due = True
            self._send()
            if not self._gathering.has_room(item):
                self._moved.clear()
                await self._moved.wait()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[BulkItem] = loop.create_future()
        self._gathering.add(item, future)
        if self._gathering.due:
            self._send()
        elif self._timer is None:
            self._timer = loop.call_later(self._wait_seconds, self._overdue)
        return future

    async def flush(self) -> None:
        """Return when all that was added has its answer."""
        while self._gathering.items or self._under_way:
            self._waited()
            self._moved.clear()
            await self._moved.wait()

    def _is_open(self) -> bool:
        if not self._open:
            raise RuntimeError("a bulk takes schedules between `async with` and its end")
        return True

    def _waited(self) -> None:
        self._gathering.due = True
        self._send()

    def _overdue(self) -> None:
        """As `_waited`, of a callback: there is nobody to raise to, and the futures are cancelled."""
        with suppress(RuntimeError):
            self._waited()

    def _send(self) -> None:
        if not self._gathering.items or len(self._under_way) >= self._most:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = self._gathering.take()
        delivery = self._deliver(batch)
        try:
            task = self._group.create_task(delivery)
        except RuntimeError:
            # The group is shutting down: the loop is, or a batch ended in what is no Exception.
            delivery.close()
            for _, future in batch:
                future.cancel()
            raise
        self._under_way.add(task)
        task.add_done_callback(self._delivered)
        self._moved.set()

    def _delivered(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if self._gathering.due and self._open:
            self._overdue()
        self._moved.set()

    async def _deliver(self, batch: "Sequence[tuple[bytes, asyncio.Future[BulkItem]]]") -> None:
        try:
            answer = await self._perform(create_encoded(self._client_id, [item for item, _ in batch]))
            results = _results(answer, len(batch))
        except Exception as error:
            results = _none(error, len(batch))
        except BaseException:
            for _, future in batch:
                future.cancel()
            raise
        self.created, self.failed = _counted(results, self.created, self.failed)
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.flush()
        finally:
            self._open = False
            if self._timer is not None:
                self._timer.cancel()
            self._gathering.cancel()
            for task in self._under_way:
                task.cancel()
            self._moved.set()
            await self._group.__aexit__(None, None, None)


class Bulk:
    """A context manager; any number of threads may add. It has a thread for each batch that may be under way."""

    def __init__(
        self,
        perform: Perform,
        client_id: str,
        *,
        batch_items: int,
        batch_bytes: int,
        wait_seconds: float,
        in_flight: int,
    ) -> None:
        _check(batch_items, batch_bytes, wait_seconds, in_flight)
        self._perform = perform
        self._client_id = client_id
        self._wait_seconds = wait_seconds
        self._monotonic = SystemPace().monotonic
        self._gathering = _Gathering["ThreadFuture[BulkItem]"](batch_items, batch_bytes)
        self._late_at = 0.0
        self._under_way = 0
        self._open = False
        self._moved = threading.Condition()
        self._threads = [threading.Thread(target=self._work, name="minutehand-bulk") for _ in range(in_flight)]
        self.created = 0
        """How many items were created so far."""
        self.failed = 0
        """How many items were answered otherwise so far."""

    def add(self, schedule: NewSchedule) -> "ThreadFuture[BulkItem]":
        """Return when there is room for it; what becomes of it is in the future. A callback of such a future never
        waits: what it adds may be more than is held otherwise. Raises RuntimeError where this is not open, and
        TypeError or ValueError for what JSON can't hold."""
        item = encoded(schedule)
        future: ThreadFuture[BulkItem] = ThreadFuture()
        with self._moved:
            while self._is_open() and not self._gathering.has_room(item) and not self._is_called_back():
                self._gathering.due = True
                self._moved.notify_all()
                self._moved.wait()
            if first := not self._gathering.items:
                self._late_at = self._monotonic() + self._wait_seconds
            self._gathering.add(item, future)
            if first or self._gathering.due:
                self._moved.notify_all()
        return future

    def flush(self) -> None:
        """Return when all that was added has its answer. Raises RuntimeError in a callback of a future, for whose end
        it would wait."""
        if self._is_called_back():
            raise RuntimeError("a callback of a future can't wait for all futures")
        with self._moved:
            while self._gathering.items or self._under_way:
                self._gathering.due = bool(self._gathering.items)
                self._moved.notify_all()
                self._moved.wait()

    def _is_open(self) -> bool:
        if not self._open:
            raise RuntimeError("a bulk takes schedules between `with` and its end")
        return True

    def _is_called_back(self) -> bool:
        """Futures call back in the threads that have to make room."""
        return threading.current_thread() in self._threads

    def _work(self) -> None:
        while batch := self._next():
            try:
                self._deliver(batch)
            finally:
                with self._moved:
                    self._under_way -= 1
                    self._moved.notify_all()

    def _next(self) -> "Sequence[tuple[bytes, ThreadFuture[BulkItem]]]":
        """The next batch, once it is due. Empty: there will be none."""
        with self._moved:
            while self._open:
                left = self._late_at - self._monotonic()
                if self._gathering.items and (self._gathering.due or left <= 0):
                    self._under_way += 1
                    self._moved.notify_all()
                    return self._gathering.take()
                self._moved.wait(left if self._gathering.items else None)
        return ()

    def _deliver(self, batch: "Sequence[tuple[bytes, ThreadFuture[BulkItem]]]") -> None:
        try:
            answer = self._perform(create_encoded(self._client_id, [item for item, _ in batch]))
            results = _results(answer, len(batch))
        except BaseException as error:
            # Whatever it is: nobody sends any more once the threads have ended, and there is nobody to raise it to.
            results = _none(error, len(batch))
        with self._moved:
            self.created, self.failed = _counted(results, self.created, self.failed)
        for (_, future), result in zip(batch, results, strict=True):
            # Futures log what a callback raises, but for SystemExit and its like, of which a thread would end.
            with suppress(BaseException):
                if future.set_running_or_notify_cancel():
                    future.set_result(result)

    def __enter__(self) -> Self:
        self._open = True
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.flush()
        finally:
            with self._moved:
                self._open = False
                left, self._gathering.items = self._gathering.items, []
                self._moved.notify_all()
            for _, future in left:
                future.cancel()
            for thread in self._threads:
                thread.join()


def _check(batch_items: int, batch_bytes: int, wait_seconds: float, in_flight: int) -> None:
    if not 1 <= batch_items <= MAX_ITEMS or batch_bytes < 1 or wait_seconds < 0 or in_flight < 1:
        raise ValueError(
            f"batch_items is 1 to {MAX_ITEMS}, batch_bytes and in_flight are at least 1, wait_seconds is not negative"
        )


def _results(answer: Batch, count: int) -> list[BulkItem]:
    if len(answer.items) != count:
        raise MinutehandUnreachable(f"{len(answer.items)} answers came for a batch of {count}: is the address right?")
    return [BulkItem(schedule=item.schedule, problem=item.problem) for item in answer.items]


def _none(error: BaseException, count: int) -> list[BulkItem]:
    """What became of a batch that has no answer. A transport of the caller's own may raise anything."""
    if not isinstance(error, MinutehandClientError):
        told = MinutehandUnreachable(f"a batch came to no answer ({type(error).__name__}: {error})")
        told.__cause__, error = error, told
    return [BulkItem(error=error)] * count


def _counted(results: Sequence[BulkItem], created: int, failed: int) -> tuple[int, int]:
    made = sum(result.created for result in results)
    return created + made, failed + len(results) - made
