"""The consumer: a member of a group that gives each of its partitions to a worker.

One thread polls, all the time, so that the group hears from this member however long the API is away; partitions whose
worker holds enough are paused. Offsets are committed by the same thread between two polls. A commit of another thread
could hang over a rebalance, and take effect when the partition is another member's already; this one can't. Callbacks
of a rebalance run in that thread too, and wait for the event loop:

    assigned  read offset and plan from the group ─▶ begin there
    revoked   let the worker end its batch ─▶ commit what it has handled ─▶ give the partition up
    lost      cancel the worker; another member has the partition already

Rebalances are cooperative, so partitions that stay are not interrupted.

Where the broker has deleted the group's offset, a partition goes on with the first record that is left. Where its log
ends before that offset, the process ends until an operator has set another one: to go on could make records twice, or
lose some.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import methodcaller
from typing import Any, Final, TypeVar

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from minutehand.ingest.api import Later
from minutehand.ingest.counts import IngestCounts
from minutehand.ingest.partition import Commit, PartitionLost, PartitionWorker
from minutehand.ingest.plans import Plan, plan_within, read_plan
from minutehand.ingest.records import Record
from minutehand.ingest.settings import IngestSettings
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.logging import get_logger

_IDLE_SECONDS: Final = 0.25
_BUSY_SECONDS: Final = 0.01
"""How long a poll waits for records; so long waits a commit."""
_AT_ONCE: Final = 500
_ASK_SECONDS: Final = 10.0
_LOST: Final = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._STATE, KafkaError._FENCED})
"""Errors of a commit that no later one can succeed after. One of an old generation can: the partition may stay with
this member over the rebalance, and if not, a callback says so before another member has it."""
_NO_TOPIC: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_SAID_SECONDS: Final = 60.0
_headers_of: Final = methodcaller("headers")
"""Called so, a failure of the library is raised here. The interpreter's quick way to call a method leaves it to what is
called next, and answers a list with holes."""
Place = tuple[str, int]
T = TypeVar("T")
MakeWorker = Callable[[str, int, Plan | None, Commit], PartitionWorker]
_log = get_logger("minutehand.ingest")


@dataclass(slots=True)
class _Held:
    """A partition of this member."""

    worker: PartitionWorker
    task: "asyncio.Task[None]"


@dataclass(slots=True)
class _Waiting:
    """A commit that a worker waits for."""

    place: Place
    offset: int
    metadata: str
    done: "asyncio.Future[None]"


class KafkaConsumer:
    """A `Service`. `make(name, offset, plan, commit)` makes the worker of a partition. `on_crash` is told of what ends
    a worker or the poll unexpectedly."""

    def __init__(
        self,
        settings: IngestSettings,
        make: MakeWorker,
        *,
        clock: Clock,
        counts: IngestCounts,
        on_crash: Callable[[str, BaseException], None],
    ) -> None:
        self._settings = settings
        self._make = make
        self._clock = clock
        self._counts = counts
        self._tasks = Tasks(on_crash)
        self._poller = ThreadPoolExecutor(1, thread_name_prefix="kafka-poll")
        self._asked: list[_Waiting] = []
        self._held: dict[Place, _Held] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._consumer: Consumer | None = None
        self._polling: asyncio.Task[None] | None = None
        self._stopping = False
        self._said: dict[tuple[str, str], float] = {}
        """When what Kafka said of a topic was logged last."""

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        told: dict[str, Any] = {
            **self._settings.client_of_kafka(),
            "group.id": self._settings.group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            # An offset that the broker does not have ends the process; the next one decides in `_assigned`.
            "auto.offset.reset": "error",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": int(self._settings.session_seconds * 1000),
            "heartbeat.interval.ms": min(int(self._settings.session_seconds * 250), 3000),
            "queued.max.messages.kbytes": 16 * 1024,
            "logger": logging.getLogger("minutehand.kafka"),
        }
        self._consumer = Consumer(told)
        self._consumer.subscribe(
            list(self._settings.topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        self._polling = self._tasks.spawn(self._poll(), name="kafka-poll")

    async def stop(self) -> None:
        """Let the batches under way end, commit, and leave the group."""
        if self._stopping or self._consumer is None:
            return
        self._stopping = True
        assert self._polling is not None
        await asyncio.wait([self._polling])
        # Closing revokes all partitions, which commits.
        await asyncio.wrap_future(self._poller.submit(self._consumer.close))
        await self._tasks.close()
        self._poller.shutdown()
        _log.info("ingest-left", group=self._settings.group)

    async def _poll(self) -> None:
        assert self._loop is not None
        while not self._stopping:
            asked, self._asked = self._asked, []
            patience = _BUSY_SECONDS if any(held.worker.busy for held in self._held.values()) else _IDLE_SECONDS
            messages = await asyncio.wrap_future(self._poller.submit(self._turn, asked, patience))
            self._take(messages)
            self._hold_or_go_on()

    def _turn(self, asked: Sequence[_Waiting], patience: float) -> list[Message]:
        """In the thread that polls."""
        assert self._consumer is not None
        if asked:
            self._commit(asked)
        first = self._consumer.poll(patience)
        return [] if first is None else [first, *self._consumer.consume(_AT_ONCE, 0)]

    def _take(self, messages: Sequence[Message]) -> None:
        records: dict[Place, list[Record]] = {}
        ends: dict[Place, int] = {}
        for message in messages:
            error, place = message.error(), (str(message.topic()), int(message.partition() or 0))
            if error is None:
                records.setdefault(place, []).append(record_of(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[place] = int(message.offset() or 0)
            elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise KafkaException(error)
            else:
                self._report(place[0], error)
        for place, some in records.items():
            if (held := self._held.get(place)) is not None:
                held.worker.feed(some)
        for place, offset in ends.items():
            if (held := self._held.get(place)) is not None:
                held.worker.reached(offset)

    def _report(self, topic: str, error: KafkaError) -> None:
        """Log what Kafka says, the same of a topic once a minute."""
        said, now = (topic, error.name()), self._clock.monotonic()
        missing = error.code() in _NO_TOPIC
        if missing and topic not in self._counts.missing_topics:
            self._counts.missing_topics = (*self._counts.missing_topics, topic)
        if now - self._said.get(said, -math.inf) < _SAID_SECONDS:
            return
        self._said[said] = now
        if missing:
            hint = "It was there: create it again, or change ingest.topics; records wait."
            _log.error("ingest-topics-missing", topics=[topic], hint=hint)
        else:
            _log.warning("ingest-kafka-said", topic=topic, reason=error.name(), detail=error.str())

    def _hold_or_go_on(self) -> None:
        assert self._consumer is not None
        lag = 0
        for (topic, partition), held in self._held.items():
            at, worker = TopicPartition(topic, partition), held.worker
            if worker.full and not worker.paused:
                self._consumer.pause([at])
                worker.paused = True
            elif worker.paused and worker.has_room:
                self._consumer.resume([at])
                worker.paused = False
            _, end = self._consumer.get_watermark_offsets(at, cached=True)
            lag += max(end - worker.position, 0)
        self._counts.lag = lag

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """In the thread that polls. Raises KafkaException where the group's offsets can't be read, or are ahead of a
        log: the process ends."""
        if not partitions:
            self._in_loop(self._hold([]))
            return
        found: list[tuple[Place, int, Plan | None]] = []
        for at in consumer.committed(partitions, timeout=_ASK_SECONDS):
            if at.error is not None:
                raise KafkaException(at.error)
            offset, plan = at.offset, read_plan(at.metadata)
            first, end = consumer.get_watermark_offsets(at, timeout=_ASK_SECONDS)
            if offset < 0:
                offset, plan = (first if self._settings.begin == "earliest" else end), None
            elif offset < first:
                # The broker has deleted records that were never read.
                _log.error("ingest-records-gone", partition=_name((at.topic, at.partition)), offset=offset, first=first)
                offset = first
            elif offset > end:
                # An election or a restore has cut the log off: from where on records are new, nobody knows here.
                _log.error("ingest-offset-ahead", partition=_name((at.topic, at.partition)), offset=offset, end=end)
                raise KafkaException(KafkaError(KafkaError.OFFSET_OUT_OF_RANGE, "set the group's offset by hand"))
            plan = plan_within(plan, offset=offset, end=end)
            found.append(((at.topic, at.partition), offset, plan))
        self._in_loop(self._hold(found))
        consumer.incremental_assign([TopicPartition(topic, partition, at) for (topic, partition), at, _ in found])
        # The library keeps a pause of the last time that this member had a partition.
        consumer.resume([TopicPartition(topic, partition) for (topic, partition), _, _ in found])

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """In the thread that polls."""
        places = [(at.topic, at.partition) for at in partitions]
        done = self._in_loop(self._release(places, seconds=self._settings.stop_seconds))
        if done:
            try:
                consumer.commit(
                    offsets=[TopicPartition(topic, partition, at) for (topic, partition), at in done],
                    asynchronous=False,
                )
            except KafkaException as error:
                # The next owner finds the plan that was stored before.
                _log.warning("ingest-commit-refused", reason=error.args[0].name())
        consumer.incremental_unassign(partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """In the thread that polls."""
        self._in_loop(self._release([(at.topic, at.partition) for at in partitions], seconds=0.0))
        consumer.incremental_unassign(partitions)

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _hold(self, found: Sequence[tuple[Place, int, Plan | None]]) -> None:
        there = {topic for (topic, _), _, _ in found}
        self._counts.missing_topics = tuple(one for one in self._counts.missing_topics if one not in there)
        for place, offset, plan in found:
            worker = self._make(_name(place), offset, plan, self._commit_of(place))
            task = self._tasks.spawn(self._handled(worker), name=f"partition-{_name(place)}")
            self._held[place] = _Held(worker, task)
        self._counts.assigned = len(self._held)
        _log.info("ingest-assigned", partitions=[_name(place) for place, _, _ in found], held=len(self._held))

    async def _handled(self, worker: PartitionWorker) -> None:
        try:
            await worker.run()
        except PartitionLost as error:
            if worker.stopping:
                return
            _log.warning("ingest-partition-lost", partition=worker.name, reason=str(error))

    async def _release(self, places: Sequence[Place], *, seconds: float) -> list[tuple[Place, int]]:
        """End the workers, and answer how far they came where that is not committed. `seconds`: for what is under
        way."""
        released = [(place, held) for place in places if (held := self._held.pop(place, None)) is not None]
        for _, held in released:
            held.worker.stop()
        tasks = [held.task for _, held in released]
        # The thread that would commit waits for this.
        waiting, self._asked = self._asked, []
        for one in waiting:
            if one.place in self._held:
                self._asked.append(one)
            elif not one.done.done():
                one.done.set_exception(PartitionLost("it is being given up"))
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for _, held in released:
            held.worker.abandon()
        self._counts.assigned = len(self._held)
        if released:
            _log.info("ingest-released", partitions=[_name(place) for place, _ in released], held=len(self._held))
        return [(place, held.worker.position) for place, held in released if held.worker.uncommitted]

    def _commit_of(self, place: Place) -> Commit:
        async def commit(offset: int, metadata: str) -> None:
            if place not in self._held:
                raise PartitionLost("it was given up")
            asked = _Waiting(place, offset, metadata, asyncio.get_running_loop().create_future())
            self._asked.append(asked)
            await asked.done

        return commit

    def _commit(self, asked: Sequence[_Waiting]) -> None:
        """In the thread that polls: all of them at once."""
        assert self._consumer is not None
        assert self._loop is not None
        offsets = [TopicPartition(*one.place, one.offset, one.metadata) for one in asked if not one.done.cancelled()]
        if not offsets:
            return
        errors: dict[Place, KafkaError] = {}
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False)
            errors = {(one.topic, one.partition): one.error for one in answers or () if one.error is not None}
        except KafkaException as exception:
            errors = dict.fromkeys([one.place for one in asked], exception.args[0])
        for one in asked:
            self._loop.call_soon_threadsafe(_tell, one.done, errors.get(one.place))


def _tell(done: "asyncio.Future[None]", error: KafkaError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    elif error.code() in _LOST:
        done.set_exception(PartitionLost(error.name()))
    else:
        done.set_exception(Later(f"Kafka does not store the offset: {error.name()}"))


def record_of(message: Message) -> Record:
    kind, timestamp = message.timestamp()
    try:
        headers: Any = _headers_of(message) or ()
        fault = None
    except (SystemError, ValueError):
        # The library wants names in UTF-8, and brokers take any bytes.
        headers, fault = (), "a header's name is not UTF-8"
    return Record(
        topic=str(message.topic()),
        partition=int(message.partition() or 0),
        offset=int(message.offset() or 0),
        timestamp=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        key=message.key(),
        value=message.value(),
        headers=tuple(
            (name, value if value is None or isinstance(value, bytes) else value.encode()) for name, value in headers
        ),
        fault=fault,
    )


def _name(place: Place) -> str:
    return f"{place[0]}/{place[1]}"
