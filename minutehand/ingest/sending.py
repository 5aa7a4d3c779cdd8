"""Writes records to a topic."""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import KafkaException, Producer

from minutehand.errors import LocalError
from minutehand.ingest.settings import IngestSettings

_SECONDS = 30.0


def send_lines(settings: IngestSettings, topic: str, lines: Iterable[bytes], *, key: bytes | None = None) -> int:
    """Write a record for each line that is not blank; returns how many, once all are durable. Raises LocalError."""
    told: dict[str, Any] = {
        **settings.client_of_kafka(),
        "enable.idempotence": True,
        "message.timeout.ms": int(_SECONDS * 1000),
        "topic.metadata.propagation.max.ms": 5_000,
        "log_level": 0,
    }
    producer, faults, count = Producer(told), list[str](), 0

    def delivered(error: Any, message: object) -> None:
        if error is not None:
            faults.append(error.name())

    for line in lines:
        if not line.strip():
            continue
        while True:
            try:
                producer.produce(topic, line, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                faults.append(error.args[0].name())
                break
        count += 1
    left = producer.flush(_SECONDS + 5.0)
    if faults or left:
        why = faults[0] if faults else "no answer"
        raise LocalError(
            f"{len(faults) + left} of {count} records were not written to {topic} ({why}).",
            "Check the topic, and where the brokers are.",
        )
    return count
