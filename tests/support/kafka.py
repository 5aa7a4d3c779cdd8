"""The real Kafka that a test session runs on.

A pytest plugin: the session fixture `kafka`, an embedded broker on free ports in a temporary directory that dies with
the test process. Tests make topics of their own in it, with `make_topic`; no topic is made by its mere use.
"""

import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from minutehand.local import ProgressLines
from minutehand.local.kafka import RunningKafka, start_kafka

ClientSetting: TypeAlias = str | int | float | bool
IDEMPOTENT: dict[str, ClientSetting] = {"enable.idempotence": True, "linger.ms": 5}
UNKNOWN_TOPIC_MS = 2_000
"""How long a client takes a topic that its broker does not name for one that was just made; by default 30 s."""
PATIENCE_SECONDS = 60.0
"""For any single answer of the broker, on a busy machine."""
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka() -> Iterator[RunningKafka]:
    """The session's broker, started at its first use."""
    with embedded_kafka() as running:
        yield running


@contextmanager
def embedded_kafka(*, heap_mb: int = 256, create_topics: bool = False) -> Iterator[RunningKafka]:
    """A separate broker on free ports; its data is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="minutehand-kafka-", ignore_cleanup_errors=True) as scratch:
        running = start_kafka(
            Path(scratch) / "data", heap_mb=heap_mb, create_topics=create_topics, progress=ProgressLines()
        )
        try:
            yield running
        finally:
            running.kill()


def client_settings(kafka: RunningKafka, **more: ClientSetting) -> dict[str, ClientSetting]:
    """The settings of a client of librdkafka that logs nothing about a broker that is killed on purpose."""
    quiet: dict[str, ClientSetting] = {"log_level": 0, "topic.metadata.propagation.max.ms": UNKNOWN_TOPIC_MS}
    return {"bootstrap.servers": kafka.bootstrap_servers, **quiet, **more}


def make_topic(kafka: RunningKafka, stem: str = "topic", *, partitions: int = 1, **config: str) -> str:
    """A new topic, which the broker serves. `config` with `_` for `.`, such as `max_message_bytes="1000"`."""
    name = f"{stem}-{os.getpid()}-{next(_numbers)}"
    admin = AdminClient(client_settings(kafka))
    told = {key.replace("_", "."): value for key, value in config.items()}
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=told)
    admin.create_topics([topic], operation_timeout=PATIENCE_SECONDS)[name].result(PATIENCE_SECONDS)
    return name


def produce(
    kafka: RunningKafka,
    topic: str,
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    headers: Sequence[tuple[str, bytes]] = (),
    partition: int = -1,
) -> None:
    """Records of (key, value), durable when this returns. Partition -1: by the key. Raises `KafkaException`."""
    faults: list[object] = []
    producer = Producer(client_settings(kafka, **IDEMPOTENT))
    for key, value in records:
        while True:
            try:
                producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    headers=list(headers),
                    on_delivery=lambda error, message: faults.append(error) if error is not None else None,
                )
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(PATIENCE_SECONDS)
    if left or faults:
        raise KafkaException(faults[0] if faults else f"{left} records were not acknowledged")


def read_topic(kafka: RunningKafka, topic: str) -> list[Message]:
    """All records of a topic as it is now, partition after partition."""
    with reader(kafka) as consumer:
        found: list[Message] = []
        for partition in sorted(consumer.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions):
            at = TopicPartition(topic, partition)
            first, end = consumer.get_watermark_offsets(at, timeout=PATIENCE_SECONDS)
            consumer.assign([TopicPartition(topic, partition, first)])
            while first < end:
                message = consumer.poll(PATIENCE_SECONDS)
                if message is None or message.error() is not None:
                    raise KafkaException(message and message.error())
                found.append(message)
                first = (message.offset() or 0) + 1
        return found


def committed(kafka: RunningKafka, group: str, topic: str) -> dict[int, int]:
    """The committed offsets of a group, by partition; without those that have none."""
    with reader(kafka, group) as consumer:
        partitions = consumer.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
        found = consumer.committed([TopicPartition(topic, one) for one in partitions], timeout=PATIENCE_SECONDS)
        return {one.partition: one.offset for one in found if one.offset >= 0}


@contextmanager
def reader(kafka: RunningKafka, group: str = "nobody") -> Iterator[Consumer]:
    by_hand: dict[str, ClientSetting] = {"group.id": group, "enable.auto.commit": False}
    consumer = Consumer(client_settings(kafka, **by_hand))
    try:
        yield consumer
    finally:
        consumer.close()
