"""Group commit: creates that wait at the same moment share requests, because a request costs far more than a row.

    submission, in parts by partition ─┬─ known ────────────────────────────┬─▶ queue ─flush─▶ request ─▶ parts end
                                       └─ new ─▶ index rows, in a request ──┘

A flush comes at the end of the loop's turn while no request is under way, so a lone create is not delayed; otherwise
after `group_commit_delay_seconds`, or as soon as a full request is waiting. At most `group_commit_in_flight` requests
are under way; meanwhile creates gather.

Rows of one partition go together. Small groups share a request if the same servers hold their partitions, within the
server's limits for such requests. The first row of a partition in this process waits until its row in
`occupied_minutes` is acknowledged; rows of known partitions never wait for that. New partitions gather while
`_INDEX_IN_FLIGHT` requests with index rows are under way.

Index rows go ahead in separate requests, although one batch could carry them with their rows. A failed batch over
several partitions may have stored one and not the other, at once or when a server that was down returns. Owners, lists,
balances and retention find rows through the index. A row without its index row would be shown by id as scheduled, but
never called and never deleted, until its create is repeated or another one comes for its minute and poller. Its create
was never acknowledged, but the audit (`unindexed` in `spark/README.md`) could not tell it from an acknowledged row
whose index row was lost, and would raise the alarm after each time-out. The other order leaves an index row without
rows, which retention deletes.

A submission is one call: one row or many. It has one answer, and one error for each row. Each part ends when its own
request ends. A failed request fails only its own rows; they may have been stored, and repeating them is harmless. The
queue is bounded in rows and bytes; beyond that a whole submission is `Overloaded`, and none of it is sent. What is
cancelled before it was sent is not sent.

A request has one consistency, so each consistency has its own `GroupCommit`. A row that asks for every data centre then
never delays one that does not, not even by filling the queue, and an index row that was acknowledged at home is not
taken for one that is stored everywhere.

Measurements behind the design (CPU seconds per 1,000 rows, on 2 shared cores, old and new by turns):
- One future a batch instead of a task, a future and three coroutines a row, no cyclic garbage collection
  (`minutehand.wiring_api`), and rows encoded once (`cql.binding`; 2.9 instead of 12.4 µs a row): batches of 1,000 cost
  the API 0.031 instead of 0.102 s, and all processes 0.07-0.12 instead of 0.18-0.21 s.
- When each request wrote the index rows of its own new partitions first, two of five requests carried one index row
  each. One request for all that wait made that one of twenty for batches. Single creates still write one index row for
  each run of a poller (`domain.quotas`) until every poller of their minutes is known: with runs of 200 rows, one of
  four requests; with runs of 50 it was three of seven.
- A request that ends does not start the next one with the few rows gathered so far: 30 instead of 17 rows a request at
  64 connections, and 51 with runs of 200 rows. One or two requests under way, or a delay of 8 ms, make rows no cheaper.
- Forty partitions a request, though the server warns above ten: 26 instead of 9 rows a request where single creates
  are due in no order over a week.
- A lone create takes 0.67 ms through the API where a plain insert takes 0.38 ms (medians; p99 6.6 and 6.2 ms).
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from cql.connection import Connection, Item
from cql.metrics import CommitCounts
from cql.schedule_rows import definition_bytes, definition_item
from cql.settings import StorageSettings
from cql.submissions import Part, Queue, Submission, end_all
from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.clients import WriteConsistency
from scheduler_service.domain.errors import ContentTooLarge, Overloaded
from scheduler_service.domain.ids import HOUR_MS, MINUTE_MS, Partition, hour_of
from scheduler_service.domain.minute_loads import LoadCounts
from scheduler_service.domain.ports.schedules import Answered
from scheduler_service.domain.schedules import Definition
from scheduler_service.runtime.clock import Clock, SystemClock
from scheduler_service.runtime.lifecycle import Tasks

_INDEX_IN_FLIGHT = 2
"""Concurrent requests with index rows. Few, so that new partitions gather: an hour's index is one partition."""
_COMPANIONS_LOOKED_AT = 40
"""How many waiting partitions are considered for sharing a request. More cost more CPU than they save."""


class GroupCommit:
    """The queues and their requests, on one event loop. `tasks` runs the requests."""

    def __init__(
        self,
        connection: Connection,
        *,
        tasks: Tasks,
        settings: StorageSettings,
        consistency: WriteConsistency = "LOCAL_QUORUM",
        counts: CommitCounts | None = None,
        loads: LoadCounts | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._counts = counts or CommitCounts()
        self._loads = loads
        self._monotonic = (clock or SystemClock()).monotonic
        self._connection = connection
        self._consistency = consistency
        self._tasks = tasks
        self._settings = settings
        self._queues: dict[Partition, Queue] = {}
        self._unindexed: dict[Partition, Queue] = {}
        self._index_waiting: dict[Partition, None] = {}
        self._index_in_flight = 0
        self._index_at: asyncio.Handle | None = None
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

    async def insert(self, definition: Definition, *, packs: bool = False) -> None:
        """As `ScheduleStore.insert`. `packs`: whether every running program can read packed cells."""
        answer: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        submission = self._begin(definition, packs, answer.set_result, answer)
        try:
            error = await answer
        finally:
            self._give_up(submission)
        if error is not None:
            raise error

    def begin(self, definition: Definition, answered: Answered, *, packs: bool = False) -> Callable[[], None]:
        """As `ScheduleStore.begin_insert`."""
        return partial(self._give_up, self._begin(definition, packs, answered))

    def _begin(
        self, definition: Definition, packs: bool, answered: Answered, waiter: asyncio.Future[Any] | None = None
    ) -> Submission:
        size = definition_bytes(definition)
        if size > self._settings.max_write_bytes:
            raise _too_large(size, self._settings)
        item = definition_item(definition, packs=packs)

        def answer(submission: Submission) -> None:
            self._leave(submission)
            answered(submission.crash or submission.errors[0])

        submission = self._admit(1, size, answer, waiter)
        part = Part(submission, definition.partition)
        part.add(item, 0, size)
        self._enqueue(part)
        self._schedule_flush()
        return submission

    async def insert_many(
        self, definitions: Sequence[Definition], *, packs: bool = False
    ) -> list[MinutehandError | None]:
        """As `ScheduleStore.insert_many`."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def answered(submission: Submission) -> None:
            self._leave(submission)
            answer.set_result(None)

        sizes = [definition_bytes(definition) for definition in definitions]
        submission = self._admit(len(sizes), sum(sizes), answered, answer)
        try:
            for part in self._split(definitions, sizes, packs, submission):
                self._enqueue(part)
            self._schedule_flush()
            if submission.parts:
                await answer
        finally:
            self._give_up(submission)
        if submission.crash is not None:
            raise submission.crash
        return submission.errors

    def _admit(
        self, count: int, size: int, answer: Callable[[Submission], None], waiter: asyncio.Future[Any] | None
    ) -> Submission:
        """Take it if there is room, or raise Overloaded. An empty queue takes any size, or a large one never got in."""
        settings = self._settings
        if self._closed:
            raise StoreUnavailable("The store is closed.")
        if self._rows and (self._rows + count > settings.queue_rows or self._bytes + size > settings.queue_bytes):
            self._counts.refused += count
            raise Overloaded("Too many creates are waiting for the store; try again a little later.")
        self._rows += count
        self._bytes += size
        return Submission(count, size, answer, began=self._monotonic(), waiter=waiter)

    def _leave(self, submission: Submission) -> None:
        self._rows -= len(submission.errors)
        self._bytes -= submission.size

    def _give_up(self, submission: Submission) -> None:
        """The caller is gone: parts that were not sent yet are not sent."""
        if not submission.over:
            submission.over = True
            self._leave(submission)

    def close(self) -> None:
        """Refuse new inserts and fail those not yet sent."""
        self._closed = True
        for handle in (self._flush_at, self._index_at):
            if handle is not None:
                handle.cancel()
        for queue in (*self._queues.values(), *self._unindexed.values()):
            end_all(queue.parts, StoreUnavailable("The store was closed before the row was sent."))
        self._queues, self._unindexed, self._index_waiting = {}, {}, {}

    def _split(
        self, definitions: Sequence[Definition], sizes: Sequence[int], packs: bool, submission: Submission
    ) -> Iterable[Part]:
        """Cut by partition into parts that fit one request. A row that fits none gets its error at once."""
        settings = self._settings
        most_rows, most_bytes = settings.group_commit_rows, settings.max_write_bytes
        filling: dict[Partition, Part] = {}
        parts: list[Part] = []
        for position, definition in enumerate(definitions):
            size = sizes[position]
            if size > most_bytes:
                submission.errors[position] = _too_large(size, settings)
                continue
            partition = definition.partition
            part = filling.get(partition)
            if part is None or len(part.rows) >= most_rows or part.size + size > most_bytes:
                part = filling[partition] = Part(submission, partition)
                parts.append(part)
            part.add(definition_item(definition, packs=packs), position, size)
        return parts

    def _enqueue(self, part: Part) -> None:
        partition = part.partition
        if (queue := self._queues.get(partition)) is None:
            if partition not in self._known:
                self._enqueue_unindexed(part)
                return
            queue = self._queues[partition] = Queue(self._known[partition])
        queue.add(part)
        self._unsent += len(part.rows)

    def _enqueue_unindexed(self, part: Part) -> None:
        if (queue := self._unindexed.get(part.partition)) is None:
            queue = self._unindexed[part.partition] = Queue()
            self._index_waiting[part.partition] = None
            self._schedule_index()
        queue.add(part)

    def _schedule_index(self) -> None:
        if self._index_at is None and self._index_in_flight < _INDEX_IN_FLIGHT:
            self._index_at = asyncio.get_running_loop().call_soon(self._send_index)

    def _send_index(self) -> None:
        """Send one request for the new partitions, of as many hours as may share it."""
        self._index_at = None
        taken: list[Partition] = []
        hours: set[tuple[str, int]] = set()
        for partition in self._index_waiting:
            hours.add((partition.client_id, hour_of(partition.minute)))
            if len(hours) > self._settings.group_commit_partitions or len(taken) >= self._settings.group_commit_rows:
                break
            taken.append(partition)
        for partition in taken:
            del self._index_waiting[partition]
        if taken:
            self._index_in_flight += 1
            self._tasks.spawn(self._index(taken), name="group-commit-index")

    async def _index(self, partitions: Sequence[Partition]) -> None:
        """Write the partitions' index rows, then release the rows that wait for them."""
        items: list[Item] = [
            ("occupied_minutes.insert", (client, hour_of(minute) * HOUR_MS, minute * MINUTE_MS, poller))
            for client, poller, minute in partitions
        ]
        error: Exception | None = StoreUnavailable("The store was closed before it answered.")
        try:
            await self._connection.write_batch(items, consistency=self._consistency)
            error = None
        except Exception as met:
            error = met
        finally:
            self._index_in_flight -= 1
            for partition in partitions:
                self._indexed(partition, error)
        # Forget the oldest: writing an index row once more is harmless.
        while len(self._known) > self._settings.known_partitions:
            del self._known[next(iter(self._known))]
        if self._index_waiting:
            self._schedule_index()
        if self._queues:
            self._schedule_flush()

    def _indexed(self, partition: Partition, error: Exception | None) -> None:
        queue = self._unindexed.pop(partition, None)
        if queue is None:  # closed meanwhile
            return
        if error is not None:
            end_all(queue.parts, error)
            return
        queue.replicas = self._known[partition] = self._connection.replicas(*queue.parts[0].rows[0])
        self._queues[partition] = queue
        self._unsent += queue.rows

    def _schedule_flush(self) -> None:
        settings = self._settings
        if self._in_flight >= settings.group_commit_in_flight:
            return
        if self._in_flight == 0 or self._unsent >= settings.group_commit_rows:
            if isinstance(self._flush_at, asyncio.TimerHandle):
                self._flush_at.cancel()
                self._flush_at = None
            if self._flush_at is None:
                self._flush_at = asyncio.get_running_loop().call_soon(self._flush)
        elif self._flush_at is None:
            loop = asyncio.get_running_loop()
            self._flush_at = loop.call_later(settings.group_commit_delay_seconds, self._flush)

    def _flush(self) -> None:
        """Send as many requests as allowed, the longest waiting partition first."""
        self._flush_at = None
        while self._queues and self._in_flight < self._settings.group_commit_in_flight:
            if group := self._next_group():
                self._in_flight += 1
                self._tasks.spawn(self._commit(group), name="group-commit")

    def _next_group(self) -> list[Part]:
        """The parts of the first partition, and of others that fit into its request. Empty: all were cancelled."""
        settings = self._settings
        partition, queue = next(iter(self._queues.items()))
        if queue.rows >= settings.group_commit_rows or queue.size > settings.group_commit_bytes:
            return self._take_some(partition, queue)
        group: list[Part] = []
        rows = size = partitions = 0
        for other, candidate in list(islice(self._queues.items(), _COMPANIONS_LOOKED_AT)):
            if (
                size + candidate.size <= settings.group_commit_bytes
                and candidate.replicas == queue.replicas
                and rows + candidate.rows <= settings.group_commit_rows
            ):
                group += candidate.parts
                rows += candidate.rows
                size += candidate.size
                partitions += 1
                del self._queues[other]
                if partitions == settings.group_commit_partitions:
                    break
        self._unsent -= rows
        return [part for part in group if part.wanted]

    def _take_some(self, partition: Partition, queue: Queue) -> list[Part]:
        """As much of one partition as fits one request; here the server limits only the size of the write."""
        taken = rows = size = 0
        for part in queue.parts:
            rows, size = rows + len(part.rows), size + part.size
            if taken and (rows > self._settings.group_commit_rows or size > self._settings.max_write_bytes):
                break
            taken += 1
        group, queue.parts = queue.parts[:taken], queue.parts[taken:]
        rows = sum(len(part.rows) for part in group)
        queue.rows -= rows
        queue.size -= sum(part.size for part in group)
        self._unsent -= rows
        # The rest goes to the end of the queue, so that a crowded minute does not block the others.
        del self._queues[partition]
        if queue.parts:
            self._queues[partition] = queue
        return [part for part in group if part.wanted]

    async def _commit(self, group: Sequence[Part]) -> None:
        now, waited = self._monotonic(), self._counts.waited
        for part in group:
            waited.observe(now - part.submission.began)
        try:
            await self._write(group)
        except Exception as error:
            end_all(group, error)
        finally:
            # Parts are still unanswered here only if the task was cancelled: the store is closing.
            end_all(group, StoreUnavailable("The store was closed before it answered."))
            self._in_flight -= 1
            if self._queues:
                self._schedule_flush()

    async def _write(self, group: Sequence[Part]) -> None:
        try:
            items = [row for part in group for row in part.rows]
            self._counts.rows.observe(len(items))
            await self._connection.write_batch(items, consistency=self._consistency)
        except ContentTooLarge:
            # The server has tighter limits than ours. Halve until the rows that are too large fail alone.
            if len(group) == 1 and len(group[0].rows) == 1:
                raise
            parts = group[0].halves() if len(group) == 1 else group
            try:
                for half in (parts[: len(parts) // 2], parts[len(parts) // 2 :]):
                    try:
                        await self._write(half)
                    except (ContentTooLarge, StoreUnavailable) as error:
                        end_all(half, error)
            finally:
                # Cancelled, as in `_commit`, which does not know the halves of a part.
                end_all(parts, StoreUnavailable("The store was closed before it answered."))
            return
        self._counts.stored += len(items)
        if (loads := self._loads) is not None:
            for part in group:
                loads.placed(part.partition.client_id, part.partition.minute, len(part.rows))
        end_all(group)


def _too_large(size: int, settings: StorageSettings) -> ContentTooLarge:
    return ContentTooLarge(f"A schedule of {size} bytes can't be stored; {settings.max_write_bytes} is the most.")
