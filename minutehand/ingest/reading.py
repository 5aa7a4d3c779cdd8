"""Reads what a topic holds last: dead letters, or the records of calls."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from minutehand.errors import LocalError
from minutehand.ingest.settings import IngestSettings

_SECONDS = 30.0
"""How long the brokers may take for one answer."""


class SeenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record as text; bytes that are not UTF-8 are shown as escapes. `timestamp`: None if it has none."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    key: str | None
    headers: list[tuple[str, str | None]]
    value: str | None


def read_last(settings: IngestSettings, topic: str, count: int) -> list[SeenRecord]:
    """The last `count` records of a topic as it is now, by their timestamps. No group and no offset is touched. Blocks.
    Raises LocalError."""
    told: dict[str, Any] = {
        **settings.client_of_kafka(),
        "group.id": settings.group,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "topic.metadata.propagation.max.ms": 5_000,
        "log_level": 0,
    }
    consumer = Consumer(told)
    try:
        found = _read_last(consumer, topic, count)
    except KafkaException as error:
        raise LocalError(
            f"{topic} can't be read ({error.args[0].name()}).", "Check the topic, and where the brokers are."
        ) from error
    finally:
        consumer.close()
    return sorted(map(_seen, found), key=lambda one: (one.timestamp or datetime.min.replace(tzinfo=UTC), one.offset))[
        -count:
    ]


def _read_last(consumer: Consumer, topic: str, count: int) -> list[Message]:
    known = consumer.list_topics(topic, timeout=_SECONDS).topics[topic]
    if known.error is not None:
        raise KafkaException(known.error)
    left, begin = dict[int, int](), []
    for partition in known.partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
        if low < high:
            left[partition] = high
            begin.append(TopicPartition(topic, partition, max(low, high - count)))
    consumer.assign(begin)
    found: list[Message] = []
    while left:
        message = consumer.poll(_SECONDS)
        if message is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        fault, partition = message.error(), message.partition()
        assert partition is not None
        if fault is not None and fault.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(fault)
        # Offsets may be missing at the end: those of transactions, or of records that were compacted away.
        if fault is not None or (message.offset() or 0) >= left.get(partition, 0) - 1:
            left.pop(partition, None)
        if fault is None:
            found.append(message)
    return found


def _seen(message: Message) -> SeenRecord:
    kind, at_ms = message.timestamp()
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return SeenRecord(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp=datetime.fromtimestamp(at_ms / 1000, UTC) if kind else None,
        key=_text(message.key()),
        headers=[(name, _text(value)) for name, value in _headers(message)],
        value=_text(message.value()),
    )


def _headers(message: Message) -> list[tuple[str, bytes | str | None]]:
    headers = message.headers() or []
    return list(headers.items() if isinstance(headers, dict) else headers)


def _text(data: bytes | str | None) -> str | None:
    return data.decode(errors="backslashreplace") if isinstance(data, bytes) else data
