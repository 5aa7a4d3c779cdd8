"""Dead letters: records that can never succeed, as they were, in a topic of their own.

Key, value and headers stay as they are. Added headers: `minutehand-kind` (`unreadable`, or the kind of the API's
problem), `minutehand-faults` (a JSON array of `{"pointer": …, "detail": …}`), and `minutehand-topic`,
`minutehand-partition` and `minutehand-offset`, by which a reader recognises a letter that a repeat has written again.
What the topic does not take is left out, and `minutehand-left-out` says how many bytes it had: the value and then, if
the rest is too much still, the key and the record's own headers. Of many faults the first are told.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import msgspec

from minutehand.client._models import Fault
from minutehand.ingest.api import Later
from minutehand.ingest.records import Record

_POLL_SECONDS = 0.05
MAX_LETTER_FAULTS = 100
MAX_LETTER_DETAIL = 500
"""Characters of a fault's pointer, and of its detail: a record has room for a fault in every few bytes."""
_TOO_LARGE = ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
_encode = msgspec.json.encode
Headers = list[tuple[str, bytes | None]]


class KafkaProducer(Protocol):
    """What is used of confluent_kafka's."""

    def produce(
        self, topic: str, value: bytes | None, key: bytes | None, *, headers: Any, on_delivery: Any
    ) -> None: ...

    def poll(self, timeout: float) -> int: ...

    def flush(self, timeout: float) -> int: ...


class DeadLetters:
    """Sends them with `producer`, which must be idempotent and ask for all acknowledgements."""

    def __init__(self, producer: KafkaProducer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dead-letters")

    async def send(self, record: Record, kind: str, faults: Sequence[Fault]) -> None:
        """Return when it is durable. Raises Later."""
        headers = headers_of(record, kind, faults)
        error = await self._sent(record.value, record.key, headers)
        if error is not None and error.name() in _TOO_LARGE:
            size = len(record.value or b"")
            error = await self._sent(None, record.key, [*headers, ("minutehand-left-out", str(size).encode())])
        if error is not None and error.name() in _TOO_LARGE:
            size = len(record.value or b"") + len(record.key or b"")
            size += sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
            ours = headers[len(record.headers) :]
            error = await self._sent(None, None, [*ours, ("minutehand-left-out", str(size).encode())])
        if error is not None:
            raise Later(f"dead letters are not taken: {error.name()}", denied=not error.retriable())

    async def close(self) -> None:
        await asyncio.wrap_future(self._thread.submit(self._producer.flush, 5.0))
        self._thread.shutdown()

    async def _sent(self, value: bytes | None, key: bytes | None, headers: Headers) -> Any:
        """None, or the error of Kafka."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def told(error: Any) -> None:
            if not done.done():
                done.set_result(error)

        def delivered(error: Any, message: object) -> None:
            loop.call_soon_threadsafe(told, error)

        await asyncio.wrap_future(self._thread.submit(self._produce, value, key, headers, delivered))
        while not done.done():
            await asyncio.wrap_future(self._thread.submit(self._producer.poll, _POLL_SECONDS))
        return done.result()

    def _produce(
        self, value: bytes | None, key: bytes | None, headers: Headers, delivered: Callable[..., None]
    ) -> None:
        from confluent_kafka import KafkaException

        try:
            self._producer.produce(self._topic, value, key, headers=headers, on_delivery=delivered)
        except BufferError:
            raise Later("dead letters wait for room") from None
        except KafkaException as error:
            delivered(error.args[0], None)


def headers_of(record: Record, kind: str, faults: Sequence[Fault]) -> Headers:
    """The headers of a dead letter."""
    told = [
        {"pointer": one.pointer[:MAX_LETTER_DETAIL], "detail": one.detail[:MAX_LETTER_DETAIL]}
        for one in faults[:MAX_LETTER_FAULTS]
    ]
    return [
        *record.headers,
        ("minutehand-kind", kind.encode()),
        ("minutehand-faults", _encode(told)),
        ("minutehand-topic", record.topic.encode()),
        ("minutehand-partition", str(record.partition).encode()),
        ("minutehand-offset", str(record.offset).encode()),
    ]
