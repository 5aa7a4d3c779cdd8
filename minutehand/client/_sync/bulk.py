"""Many creates of a synchronous program: one thread for each batch in flight. The rules are in `_bulk`."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future as ThreadFuture
from contextlib import suppress
from types import TracebackType
from typing import Self

from minutehand.client._bulk import BulkItem, Gathering, check, counted, results_of, unanswered
from minutehand.client._calls import create_encoded, encoded
from minutehand.client._models import NewSchedule
from minutehand.client._runtime import SystemRuntime
from minutehand.client._sync.parts import Perform


class Bulk:
    """A context manager; any number of threads may add. It starts `in_flight` threads."""

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
        check(batch_items, batch_bytes, wait_seconds, in_flight)
        self._perform = perform
        self._client_id = client_id
        self._wait_seconds = wait_seconds
        self._monotonic = SystemRuntime().monotonic
        self._gathering = Gathering["ThreadFuture[BulkItem]"](batch_items, batch_bytes)
        self._late_at = 0.0
        self._under_way = 0
        self._open = False
        self._moved = threading.Condition()
        self._threads = [threading.Thread(target=self._work, name="minutehand-bulk") for _ in range(in_flight)]
        self.created = 0
        """Items created so far."""
        self.failed = 0
        """Items so far that were refused or got no answer."""

    def add(self, schedule: NewSchedule) -> "ThreadFuture[BulkItem]":
        """Wait for room and return the item's future. In a callback of such a future it never waits, so more may be
        held than the bound. Raises RuntimeError outside the block, and TypeError or ValueError for what JSON can't
        hold."""
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
        """Return when every added item has its answer. Raises RuntimeError in a callback of a future: it would wait for
        itself."""
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
        """Callbacks run in the threads that have to make room, so waiting in one would deadlock."""
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
        """The next batch, once it is due. Empty when the bulk is closed."""
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
            results = results_of(answer, len(batch))
        except BaseException as error:
            # Any exception: a thread that ended would send no more batches, and it has no caller to raise to.
            results = unanswered(error, len(batch))
        with self._moved:
            self.created, self.failed = counted(results, self.created, self.failed)
        for (_, future), result in zip(batch, results, strict=True):
            # Futures log what a callback raises, except SystemExit and its like, which would end this thread.
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
