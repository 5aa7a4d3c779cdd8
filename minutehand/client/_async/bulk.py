"""Many creates of an asynchronous program: one task for each batch in flight. The rules are in `_bulk`."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from minutehand.client._async.parts import AsyncPerform
from minutehand.client._bulk import BulkItem, Gathering, check, counted, results_of, unanswered
from minutehand.client._calls import create_encoded, encoded
from minutehand.client._models import NewSchedule


class AsyncBulk:
    """An asynchronous context manager; belongs to one event loop, any number of whose tasks may add."""

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
        check(batch_items, batch_bytes, wait_seconds, in_flight)
        self._perform = perform
        self._client_id = client_id
        self._wait_seconds = wait_seconds
        self._most = in_flight
        self._gathering = Gathering["asyncio.Future[BulkItem]"](batch_items, batch_bytes)
        self._under_way: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._group = asyncio.TaskGroup()
        self._open = False
        self.created = 0
        """Items created so far."""
        self.failed = 0
        """Items so far that were refused or got no answer."""

    async def add(self, schedule: NewSchedule) -> "asyncio.Future[BulkItem]":
        """Wait for room and return the item's future. Raises RuntimeError outside the block, and TypeError or
        ValueError for what JSON can't hold."""
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
        """Return when every added item has its answer."""
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
        """`_waited` for callbacks, which have no caller to raise to; `_send` has cancelled the futures."""
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
            # The task group is shutting down: the loop is stopping, or a batch raised a BaseException.
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
            results = results_of(answer, len(batch))
        except Exception as error:
            results = unanswered(error, len(batch))
        except BaseException:
            for _, future in batch:
                future.cancel()
            raise
        self.created, self.failed = counted(results, self.created, self.failed)
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
