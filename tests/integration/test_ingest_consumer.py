"""Members of a group of a real Kafka give partitions to each other, and store offsets with plans."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from structlog.testing import capture_logs

from minutehand.ingest.api import Later
from minutehand.ingest.cloud_events import read_record
from minutehand.ingest.consumer import KafkaConsumer, record_of
from minutehand.ingest.counts import IngestCounts
from minutehand.ingest.partition import Commit, PartitionLost, PartitionWorker
from minutehand.ingest.plans import Plan
from minutehand.ingest.records import Poison, Record
from minutehand.ingest.settings import IngestSettings
from minutehand.local.kafka import RunningKafka
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.lifecycle import Tasks
from tests.support.api import ManualClock
from tests.support.kafka import client_settings, committed, make_topic, produce, reader

PATIENCE_SECONDS = 60.0
PLAN = Plan(9, "1795253400000.3.1.0123456789abcdef", 0, "d")
RECORDS = 2_000


class Committing(PartitionWorker):
    """Commits each record by itself, so that a commit is always under way; makes nothing."""

    def __init__(self, name: str, offset: int, found: Plan | None, commit: Commit) -> None:
        self.name, self.found = name, found
        self.paused = self.stopping = False
        self.taken: list[int] = []
        self._position, self._stored = offset, offset
        self._commits = commit
        self._arrived = asyncio.Event()
        self._offsets: list[int] = []

    crowded = False
    full = property(lambda self: self.crowded)  # type: ignore[assignment]
    has_room = property(lambda self: not self.crowded)  # type: ignore[assignment]
    busy = property(lambda self: True)  # type: ignore[assignment]
    uncommitted = property(lambda self: False)  # type: ignore[assignment]

    def feed(self, records: "list[Record]") -> None:  # type: ignore[override]
        self._offsets += [record.offset for record in records]
        self._arrived.set()

    def reached(self, offset: int) -> None: ...

    def stop(self) -> None:
        self.stopping = True
        self._arrived.set()

    def abandon(self) -> None: ...

    async def run(self) -> None:
        while not self.stopping:
            if not self._offsets:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            try:
                await self._commits(self._offsets[0] + 1, PLAN.text())
            except Later:
                await asyncio.sleep(0.05)
                continue
            self.taken.append(self._offsets.pop(0))
            self._position = self.taken[-1] + 1


class Member:
    """A consumer, and its workers so far."""

    def __init__(self, kafka: RunningKafka, topic: str, **more: Any) -> None:
        self.workers: list[Committing] = []
        settings = IngestSettings(
            brokers=(kafka.bootstrap_servers,),
            topics=(topic,),
            group=f"{topic}-group",
            session_seconds=6,
            stop_seconds=5,
            **more,
        )
        self.counts = IngestCounts()
        self.consumer = KafkaConsumer(
            settings, self._make, clock=SystemClock(), counts=self.counts, on_crash=self._crashed
        )

    def _make(self, name: str, offset: int, found: Plan | None, commit: Commit) -> PartitionWorker:
        self.workers.append(Committing(name, offset, found, commit))
        return self.workers[-1]

    def _crashed(self, name: str, error: BaseException) -> None:
        raise AssertionError(f"the task {name} died") from error


@asynccontextmanager
async def member(kafka: RunningKafka, topic: str, **more: Any) -> AsyncIterator[Member]:
    made = Member(kafka, topic, **more)
    await made.consumer.start()
    try:
        yield made
    finally:
        await made.consumer.stop()


async def until(seen: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not seen():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_partitions_move_while_commits_are_under_way(kafka: RunningKafka) -> None:
    topic = make_topic(kafka, partitions=4)
    produce(kafka, topic, [(str(n).encode(), b"x") for n in range(RECORDS)])
    async with member(kafka, topic) as first:
        await until(lambda: sum(len(worker.taken) for worker in first.workers) > 20)
        async with member(kafka, topic) as second:
            await until(lambda: first.counts.assigned == second.counts.assigned == 2)
            before = sum(len(worker.taken) for worker in first.workers)
            await until(lambda: sum(len(worker.taken) for worker in first.workers) > before + 20)
            await until(lambda: sum(len(worker.taken) for worker in second.workers) > 20)
            assert all(worker.found == PLAN for worker in second.workers), "a plan moves with its partition"
        await until(lambda: first.counts.assigned == 4)
        await until(lambda: sum(committed(kafka, f"{topic}-group", topic).values()) == RECORDS)
    assert first.counts.lag == 0
    for name in {worker.name for worker in first.workers}:
        taken = [at for one in (*first.workers, *second.workers) if one.name == name for at in one.taken]
        last = committed(kafka, f"{topic}-group", topic)[int(name.rpartition("/")[2])]
        # The one whose commit was refused when the partition moved is taken again, and none is left out.
        assert sorted(set(taken)) == list(range(last)), name
        assert len(taken) - last <= 2, name


async def test_a_commit_for_a_partition_that_was_given_up_is_refused(kafka: RunningKafka) -> None:
    topic = make_topic(kafka)
    produce(kafka, topic, [(None, b"x")])
    async with member(kafka, topic) as alone:
        await until(lambda: len(alone.workers) == 1 and len(alone.workers[0].taken) == 1)
    with pytest.raises(PartitionLost):
        await alone.workers[0]._commits(0, "")
    assert committed(kafka, f"{topic}-group", topic) == {0: 1}


async def test_a_partition_that_was_paused_comes_back_unpaused(kafka: RunningKafka) -> None:
    topic = make_topic(kafka, partitions=2)
    async with member(kafka, topic) as first:
        await until(lambda: len(first.workers) == 2)
        for worker in first.workers:
            worker.crowded = True
        await until(lambda: all(worker.paused for worker in first.workers))
        async with member(kafka, topic) as second:
            await until(lambda: len(second.workers) == 1)
        await until(lambda: len(first.workers) == 3)
        produce(kafka, topic, [(None, b"x")] * 5, partition=int(first.workers[2].name[-1]))
        await until(lambda: len(first.workers[2].taken) == 5)


async def test_what_retention_has_left_is_read_wherever_the_group_begins(kafka: RunningKafka) -> None:
    topic = make_topic(kafka)
    produce(kafka, topic, [(None, b"x")] * 8)
    commit_at(kafka, topic, 2)
    admin = AdminClient(client_settings(kafka))
    for future in admin.delete_records([TopicPartition(topic, 0, 5)]).values():
        future.result(PATIENCE_SECONDS)
    async with member(kafka, topic, begin="latest") as alone:
        await until(lambda: bool(alone.workers) and len(alone.workers[0].taken) == 3)
    assert alone.workers[0].taken == [5, 6, 7]


async def test_what_kafka_says_of_a_topic_is_logged_once_a_minute() -> None:
    counts, clock = IngestCounts(), ManualClock()
    settings = IngestSettings(brokers=("127.0.0.1:9",), topics=("t",))
    consumer = KafkaConsumer(settings, None, clock=clock, counts=counts, on_crash=None)  # type: ignore[arg-type]
    with capture_logs() as lines:
        for code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._TRANSPORT) * 3:
            consumer._report("t", KafkaError(code))
        assert [line["event"] for line in lines] == ["ingest-topics-missing", "ingest-kafka-said"]
        assert (lines[0]["topics"], lines[0]["log_level"]) == (["t"], "error")
        assert "create it again" in lines[0]["hint"]
        clock.advance(60)
        consumer._report("t", KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        assert len(lines) == 3
    assert counts.missing_topics == ("t",)
    await consumer._hold([])
    assert counts.missing_topics == ("t",), "no partition of it was given"


async def test_an_offset_ahead_of_the_log_waits_for_an_operator(kafka: RunningKafka) -> None:
    """After an unclean election, or over a restored broker: all records of the log would be made again."""
    topic = make_topic(kafka)
    produce(kafka, topic, [(None, b"x")] * 5)
    commit_at(kafka, topic, 100)
    made = Member(kafka, topic)
    crashes: list[BaseException] = []
    made.consumer._tasks = Tasks(lambda name, error: crashes.append(error))
    await made.consumer.start()
    await until(lambda: bool(crashes))
    assert made.workers == []
    await made.consumer.stop()
    assert committed(kafka, f"{topic}-group", topic) == {0: 100}


def test_a_header_that_is_no_text_is_a_fault_of_its_record() -> None:
    class Odd:
        def headers(self) -> object:
            raise SystemError("<method 'headers'> returned a result with an exception set")

        topic = staticmethod(lambda: "t")
        partition = offset = staticmethod(lambda: 0)
        key = value = staticmethod(lambda: b"{}")
        timestamp = staticmethod(lambda: (1, 5))

    record = record_of(Odd())  # type: ignore[arg-type]
    assert record.headers == ()
    assert isinstance(read_record(record), Poison)


def commit_at(kafka: RunningKafka, topic: str, offset: int) -> None:
    with reader(kafka, f"{topic}-group") as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
