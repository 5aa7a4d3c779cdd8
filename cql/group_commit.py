"""Group commit: creates that wait at the same moment share requests, because a request costs far more than a row.

    insert --> queue by partition --flush--> request: [index rows], definitions --> every insert of the request ends

A flush comes at the end of the loop's turn while no request is under way, so a lone create waits for nothing; otherwise
after `group_commit_delay_seconds`, or as soon as a request's worth is waiting. At most `group_commit_in_flight`
requests are under way; while they are, creates gather, and each request that ends makes room for the next.

Rows of one partition go together. Small groups share a request when the same servers hold their partitions, within the
server's limits for such requests. The first row of a partition in this process waits until its row in
`occupied_minutes` is acknowledged; rows of known partitions never wait for that.

Each insert ends as its own request ends. A request that failed fails its own inserts only; their rows may be stored
all the same, and repeating them is harmless. The queue is bounded in rows and bytes; beyond it `Overloaded`, and
nothing is sent. An insert that is cancelled before it was sent is not sent.
"""

import asyncio
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from cql.connection import Connection, Item, Parameters
from cql.schedule_rows import definition_bytes, definition_parameters
from cql.settings import StorageSettings
from scheduler_service.domain.errors import ContentTooLarge, Overloaded, StoreUnavailable
from scheduler_service.domain.ids import MINUTE_MS, Partition, hour_of
from scheduler_service.domain.schedules import Definition
from scheduler_service.runtime.lifecycle import Tasks

_HOUR_MS = 3_600_000
_INSERT = "schedules.insert_definition"
_COMPANIONS_LOOKED_AT = 40
"""How many waiting partitions are looked at for companions in one request. More would cost more than it saves."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """One insert that is not yet acknowledged."""

    partition: Partition
    parameters: Parameters
    size: int
    done: asyncio.Future[None]


@dataclass(slots=True, eq=False)
class _Queue:
    """What waits for one partition. Queues with equal `kind` may share a request."""

    kind: tuple[bool, Hashable]
    rows: list[_Waiting] = field(default_factory=list)
    size: int = 0


class GroupCommit:
    """The queues and their requests. Lives on one event loop; `tasks` runs the requests."""

    def __init__(self, connection: Connection, *, tasks: Tasks, settings: StorageSettings) -> None:
        self._connection = connection
        self._tasks = tasks
        self._settings = settings
        self._queues: dict[Partition, _Queue] = {}
        self._unsent = 0
        self._rows = 0
        self._bytes = 0
        self._in_flight = 0
        self._flush_at: asyncio.Handle | None = None
        self._known: dict[Partition, Hashable] = {}
        self._closed = False

    @property
    def rows(self) -> int:
        """Inserts that are not yet acknowledged."""
        return self._rows

    async def insert(self, definition: Definition) -> None:
        """As `ScheduleStore.insert`."""
        settings = self._settings
        size = definition_bytes(definition)
        if size > settings.max_write_bytes:
            raise ContentTooLarge(
                f"A schedule of {size} bytes can't be stored; {settings.max_write_bytes} is the most."
            )
        if self._closed:
            raise StoreUnavailable("The store is closed.")
        if self._rows >= settings.queue_rows or self._bytes + size > settings.queue_bytes:
            raise Overloaded("Too many creates are waiting for the store; try again a little later.")
        loop = asyncio.get_running_loop()
        waiting = _Waiting(definition.partition, definition_parameters(definition), size, loop.create_future())
        self._rows += 1
        self._bytes += size
        self._enqueue(waiting)
        self._schedule_flush(loop)
        try:
            await waiting.done
        finally:
            self._rows -= 1
            self._bytes -= size

    def close(self) -> None:
        """Refuse new inserts and fail those not yet sent."""
        self._closed = True
        if self._flush_at is not None:
            self._flush_at.cancel()
        for queue in self._queues.values():
            _fail(queue.rows, StoreUnavailable("The store was closed before the row was sent."))
        self._queues = {}

    def _enqueue(self, waiting: _Waiting) -> None:
        partition = waiting.partition
        if (queue := self._queues.get(partition)) is None:
            known = partition in self._known
            replicas = self._known[partition] if known else self._connection.replicas(_INSERT, waiting.parameters)
            queue = self._queues[partition] = _Queue((known, replicas))
        queue.rows.append(waiting)
        queue.size += waiting.size
        self._unsent += 1

    def _schedule_flush(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._in_flight >= self._settings.group_commit_in_flight:
            return
        if self._in_flight == 0 or self._unsent >= self._settings.group_commit_rows:
            if isinstance(self._flush_at, asyncio.TimerHandle):
                self._flush_at.cancel()
                self._flush_at = None
            if self._flush_at is None:
                self._flush_at = loop.call_soon(self._flush)
        elif self._flush_at is None:
            self._flush_at = loop.call_later(self._settings.group_commit_delay_seconds, self._flush)

    def _flush(self) -> None:
        """Send as many requests as may be under way, the longest waiting partition first."""
        self._flush_at = None
        while self._queues and self._in_flight < self._settings.group_commit_in_flight:
            if group := self._next_group():
                self._in_flight += 1
                self._tasks.spawn(self._commit(group), name="group-commit")

    def _next_group(self) -> list[_Waiting]:
        """Rows of the first waiting partition, and of companions while they fit. Empty: all of them were cancelled."""
        settings = self._settings
        partition, queue = next(iter(self._queues.items()))
        if len(queue.rows) >= settings.group_commit_rows or queue.size > settings.group_commit_bytes:
            return self._take_part(partition, queue)
        group: list[_Waiting] = []
        size = partitions = 0
        for other, candidate in list(islice(self._queues.items(), _COMPANIONS_LOOKED_AT)):
            if (
                candidate.kind == queue.kind
                and size + candidate.size <= settings.group_commit_bytes
                and len(group) + len(candidate.rows) <= settings.group_commit_rows
            ):
                group.extend(candidate.rows)
                size += candidate.size
                partitions += 1
                del self._queues[other]
                if partitions == settings.group_commit_partitions:
                    break
        self._unsent -= len(group)
        return [waiting for waiting in group if not waiting.done.done()]

    def _take_part(self, partition: Partition, queue: _Queue) -> list[_Waiting]:
        """As many rows of one partition as one request carries; it alone has no server limit but the largest write."""
        taken = size = 0
        for waiting in queue.rows[: self._settings.group_commit_rows]:
            if taken and size + waiting.size > self._settings.max_write_bytes:
                break
            taken += 1
            size += waiting.size
        group, queue.rows = queue.rows[:taken], queue.rows[taken:]
        queue.size -= size
        self._unsent -= taken
        # What is left goes to the end of the line: nobody waits behind one crowded minute.
        del self._queues[partition]
        if queue.rows:
            self._queues[partition] = queue
        return [waiting for waiting in group if not waiting.done.done()]

    async def _commit(self, group: Sequence[_Waiting]) -> None:
        try:
            await self._write_index(group)
            await self._write(group)
        except Exception as error:
            _fail(group, error)
        finally:
            # Only a cancelled task (the store is closing) leaves anybody waiting here.
            _fail(group, StoreUnavailable("The store was closed before it answered."))
            self._in_flight -= 1
            if self._queues and self._flush_at is None:
                self._flush()

    async def _write_index(self, group: Sequence[_Waiting]) -> None:
        new = {waiting.partition: waiting for waiting in group if waiting.partition not in self._known}
        if not new:
            return
        items: list[Item] = [
            ("occupied_minutes.insert", (client, hour_of(minute) * _HOUR_MS, minute * MINUTE_MS, poller))
            for client, poller, minute in new
        ]
        await self._connection.write_batch(items)
        for partition, waiting in new.items():
            self._known[partition] = self._connection.replicas(_INSERT, waiting.parameters)
        while len(self._known) > self._settings.known_partitions:
            del self._known[next(iter(self._known))]

    async def _write(self, group: Sequence[_Waiting]) -> None:
        try:
            await self._connection.write_batch([(_INSERT, waiting.parameters) for waiting in group])
        except ContentTooLarge:
            # A server with tighter limits than ours. In smaller company each row meets its own fate.
            if len(group) == 1:
                raise
            for half in (group[: len(group) // 2], group[len(group) // 2 :]):
                try:
                    await self._write(half)
                except (ContentTooLarge, StoreUnavailable) as error:
                    _fail(half, error)
            return
        for waiting in group:
            if not waiting.done.done():
                waiting.done.set_result(None)


def _fail(group: Iterable[_Waiting], error: Exception) -> None:
    """Each gets an error of its own: a raised one carries the traceback of whoever raised it."""
    for waiting in group:
        if not waiting.done.done():
            waiting.done.set_exception(type(error)(*error.args))
