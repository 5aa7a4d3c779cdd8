"""Wires an ingest process: a member of a consumer group, the API, dead letters, and a port for health and metrics."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from aiohttp import web
from confluent_kafka import Consumer, KafkaException, Producer

from minutehand.config_values import ConfigurationInvalid, Fault
from minutehand.errors import LocalError
from minutehand.ingest.api import IngestApi
from minutehand.ingest.cloud_events import read_record
from minutehand.ingest.consumer import KafkaConsumer
from minutehand.ingest.counts import IngestCounts
from minutehand.ingest.dead_letters import DeadLetters
from minutehand.ingest.metrics import METRICS
from minutehand.ingest.partition import Commit, PartitionWorker
from minutehand.ingest.plans import Plan
from minutehand.ingest.records import Reading, Record, poison
from minutehand.ingest.settings import IngestSettings
from minutehand.ingest.waiting import until_decided
from minutehand.running import StopSignal, unless_stopped
from minutehand.version import VERSION
from scheduler_service.runtime.clock import Clock, SystemClock
from scheduler_service.runtime.health import API_AWAY, API_DENIES, STOPPING, TOPIC_MISSING, LoopHeartbeat, Reason
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.listening import SidePort, health_response
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.metrics import CONTENT_TYPE, Metrics
from scheduler_service.runtime.randomness import SystemRandomness

AWAY_SECONDS = 10.0
"""So long must the API decide nothing before this process is not ready."""
_FIRST_SECONDS = 30.0
_MISSING_SECONDS = 5.0
_MISSING_LOGGED_SECONDS = 60.0
_MISSING_HINT = "Create them, or change ingest.topics or ingest.dead_letter_topic; records wait."
_log = get_logger("minutehand.ingest")


async def serve_ingest(settings: IngestSettings, stop: StopSignal) -> None:
    """Ingest until `stop`. Raises LocalError, CannotListen, ConfigurationInvalid when it can't start."""
    assert settings.client is not None
    assert settings.key is not None
    clock, randomness, counts = SystemClock(), SystemRandomness(), IngestCounts()
    async with AsyncExitStack() as parts:
        tasks = Tasks(stop.crashed)
        parts.push_async_callback(tasks.close)
        heartbeat = LoopHeartbeat(clock=clock)
        tasks.spawn(heartbeat.run(), name="heartbeat")
        port = OpsPort(settings, counts, heartbeat, clock=clock)
        parts.push_async_callback(port.stop)
        await port.start()
        if await unless_stopped(await_topics(settings, clock=clock, counts=counts), stop) is None:
            return
        api = await parts.enter_async_context(
            IngestApi(
                settings.url,
                settings.key,
                settings.client,
                clock=clock,
                randomness=randomness,
                timeout_seconds=settings.timeout_seconds,
                ssl_context=_trusted(settings),
            )
        )
        # Each batch needs the client's settings. They are asked for at once, so that a key that is not admitted, or an
        # address that is no API, shows before the first record.
        told = partial(until_decided, api.terms, name="start", clock=clock, randomness=randomness, counts=counts)
        tasks.spawn(told(), name="client-settings")
        letters = DeadLetters(Producer(producer_settings(settings)), settings.dead_letter_topic)
        parts.push_async_callback(letters.close)
        read = reader_of(settings)

        def make(name: str, offset: int, found: Plan | None, commit: Commit) -> PartitionWorker:
            return PartitionWorker(
                name,
                offset=offset,
                found=found,
                read=read,
                api=api,
                letters=letters,
                commit=commit,
                clock=clock,
                randomness=randomness,
                counts=counts,
                batch_records=settings.batch_records,
                batch_bytes=settings.batch_bytes,
                hold_records=settings.hold_records,
                hold_bytes=settings.hold_bytes,
            )

        consumer = KafkaConsumer(settings, make, clock=clock, counts=counts, on_crash=stop.crashed)
        parts.push_async_callback(consumer.stop)
        await consumer.start()
        _log.info("ingest-running", group=settings.group, topics=list(settings.topics), port=port.port)
        await stop.wait()
        port.stopping = True


def reader_of(settings: IngestSettings) -> Callable[[Record], Reading]:
    """What a record asks for, by these settings."""

    def read(record: Record) -> Reading:
        if record.size > settings.record_bytes:
            return poison(f"the record has more than {settings.record_bytes} bytes")
        return read_record(record, destination=settings.event_destination)

    return read


def producer_settings(settings: IngestSettings) -> dict[str, Any]:
    """Of the producer of dead letters: each is durable in every replica, and written once for each time it is sent."""
    return {
        **settings.client_of_kafka(),
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 5,
        "message.max.bytes": 64 * 1024 * 1024,
        "message.timeout.ms": 30_000,
        "topic.metadata.propagation.max.ms": 5_000,
    }


async def await_topics(settings: IngestSettings, *, clock: Clock, counts: IngestCounts) -> bool:
    """Return True when the brokers have all topics. Raises LocalError for brokers that can't be asked."""
    logged_at: float | None = None
    asking = ThreadPoolExecutor(1, thread_name_prefix="kafka-topics")
    try:
        while missing := await asyncio.wrap_future(asking.submit(missing_topics, settings)):
            now = clock.monotonic()
            counts.missing_topics = tuple(missing)
            if logged_at is None or now - logged_at >= _MISSING_LOGGED_SECONDS:
                _log.error("ingest-topics-missing", topics=missing, hint=_MISSING_HINT)
                logged_at = now
            await clock.sleep(_MISSING_SECONDS)
    finally:
        # Without a wait: the loop goes on while a broker does not answer.
        asking.shutdown(wait=False)
    counts.missing_topics = ()
    return True


def missing_topics(settings: IngestSettings) -> list[str]:
    """The topics of the settings that the brokers do not have. Raises LocalError for brokers that can't be asked.
    Blocks."""
    told: dict[str, Any] = {**settings.client_of_kafka(), "group.id": settings.group, "log_level": 0}
    consumer = Consumer(told)
    try:
        known = consumer.list_topics(timeout=_FIRST_SECONDS).topics
    except KafkaException as error:
        raise LocalError(
            f"Kafka can't be asked at {', '.join(settings.brokers)} ({error.args[0].name()}).",
            "Check ingest.brokers, and how they are logged in at.",
        ) from error
    finally:
        consumer.close()
    return [name for name in (*settings.topics, settings.dead_letter_topic) if name not in known]


def _trusted(settings: IngestSettings) -> ssl.SSLContext | None:
    if settings.ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except OSError as error:
        raise ConfigurationInvalid([Fault("ingest.ca_file", f"can't be read ({error.strerror or error}).")]) from error


class OpsPort(SidePort):
    """Answers /livez, /readyz and /metrics."""

    def __init__(
        self, settings: IngestSettings, counts: IngestCounts, heartbeat: LoopHeartbeat, *, clock: Clock
    ) -> None:
        routes = {"/livez": self._livez, "/readyz": self._readyz, "/metrics": self._show}
        super().__init__(routes, host=settings.host, port=settings.port, what="Health", setting="ingest.port.")
        self.stopping = False
        self._counts = counts
        self._heartbeat = heartbeat
        self._clock = clock
        self._metrics = Metrics(program="ingest", version=VERSION)
        self._metrics.show(METRICS, of=counts)

    def reasons(self) -> Sequence[Reason]:
        """Why this process is not ready."""
        counts, found = self._counts, list(self._heartbeat.reasons())
        if self.stopping:
            found.append(Reason(STOPPING, "told to end"))
        if counts.missing_topics:
            found.append(Reason(TOPIC_MISSING, f"Kafka has no topic {' and no topic '.join(counts.missing_topics)}"))
        waiting = counts.waiting.values()
        denied = next((one.denied for one in waiting if one.denied is not None), None)
        if denied is not None:
            found.append(Reason(API_DENIES, f"records wait until somebody acts: {denied}"))
        elif any(self._clock.monotonic() - one.since > AWAY_SECONDS for one in waiting):
            found.append(Reason(API_AWAY, "records wait: neither the API nor Kafka decides anything"))
        return found

    async def _livez(self, request: web.Request) -> web.Response:
        return health_response(self._heartbeat.reasons())

    async def _readyz(self, request: web.Request) -> web.Response:
        return health_response(self.reasons())

    async def _show(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})
