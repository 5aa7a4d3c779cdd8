"""Sends calls as records, over one idempotent producer for each cluster (see the package)."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, unquote_to_bytes

from confluent_kafka import KafkaError, KafkaException, Producer

from membership.errors import SettingsInvalid
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.targets.ends import STOPPED, WITHDRAWN, End, TargetEnd
from poller_cluster.delivery.targets.kafka.kind import Records
from poller_cluster.delivery.targets.kafka.outcomes import PURGED_QUEUED, PURGED_SENT, end_of
from poller_cluster.delivery.targets.kafka.settings import ClusterSettings
from poller_cluster.delivery.targets.port import MayStart, OnEnd
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.logging import get_logger

POLL_SECONDS: Final = 0.005
"""From one look for reports to the next, while records are under way."""
TRUST_SECONDS: Final = 0.1
"""From one question whether records may still be sent to the next."""
_TOO_LARGE: Final = TargetEnd(End.REFUSED, "the record is larger than the operator admits", nothing_sent=True)
_DOUBTED: Final = TargetEnd(End.UNAVAILABLE, "it may have been written before the connection broke")
_log = get_logger("minutehand.kafka")


RecordHeaders: TypeAlias = list[tuple[str, str | bytes | None]]
MakeProducer: TypeAlias = Callable[[dict[str, Any]], Producer]
"""Raises KafkaException for a configuration that the library does not admit."""


class KafkaTarget:
    """The `Target` of this kind."""

    def __init__(self, clusters: Mapping[str, ClusterSettings], *, clock: Clock, make: MakeProducer = Producer) -> None:
        self._clusters = {name: _Cluster(name, settings, clock, make) for name, settings in clusters.items()}

    async def start(self) -> None:
        """Raises SettingsInvalid for files that the library can't use."""
        for cluster in self._clusters.values():
            cluster.start()

    async def stop(self) -> None:
        for cluster in self._clusters.values():
            cluster.stop()

    def send(self, request: CallbackRequest, on_end: OnEnd, *, may_start: MayStart) -> None:
        assert request.target is not None
        records: Records = request.target.means
        cluster = self._clusters[records.cluster]
        cluster.send(_Record(request, records.topic, record_key(request, records), on_end, may_start))


def record_key(request: CallbackRequest, records: Records) -> bytes:
    """A header's value is percent-decoded, because headers are ASCII and keys need not be."""
    assert request.target is not None
    if records.key is not None:
        return records.key
    if records.key_header is not None:
        for name, value in request.headers:
            if name.lower() == records.key_header and value:
                return unquote_to_bytes(value)
    return (request.target.ordering_key or request.target.schedule_id).encode()


def record_headers(request: CallbackRequest) -> RecordHeaders:
    """Those of the call. A CloudEvent's are as its Kafka binding says: `ce_` before the names of attributes, values not
    percent-encoded, and `content-type` in lower case."""
    if request.target is None or not request.target.cloudevents:
        return list(request.headers)
    made: RecordHeaders = []
    for name, value in request.headers:
        folded = name.lower()
        if folded.startswith("ce-"):
            made.append((f"ce_{folded[3:]}", unquote(value)))
        else:
            made.append((folded if folded == "content-type" else name, value))
    return made


class _Record:
    """A call on its way. `until`: monotonic seconds after which it is not queued again. `unwanted`: it was asked for
    and may not be sent any more. `doubted`: the cluster has failed since it was queued, so the library may have sent
    it, and queued it again because no answer came."""

    __slots__ = (
        "at_most_once",
        "body",
        "doubted",
        "headers",
        "key",
        "may_start",
        "on_end",
        "timeout_seconds",
        "topic",
        "until",
        "unwanted",
    )

    def __init__(self, request: CallbackRequest, topic: str, key: bytes, on_end: OnEnd, may_start: MayStart) -> None:
        self.topic, self.key, self.body = topic, key, request.body
        self.headers = record_headers(request)
        self.timeout_seconds, self.at_most_once = request.timeout_seconds, request.at_most_once
        self.on_end, self.may_start = on_end, may_start
        self.until = 0.0
        self.unwanted = self.doubted = False


class _Cluster:
    """One cluster's producer, and its records without a report."""

    def __init__(self, name: str, settings: ClusterSettings, clock: Clock, make: MakeProducer) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._make = make
        self._producer: Producer | None = None
        self._former: Producer | None = None
        """One that the library gave up; it still has reports."""
        self._under_way: dict[_Record, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._trust_asked = 0.0
        self._last_error: str | None = None
        self._spoilt = self._stopped = False

    def start(self) -> None:
        self._producer = self._made()

    def _made(self) -> Producer:
        try:
            return self._make({**self._settings.producer(), "error_cb": self._failed})
        except ValueError as error:
            raise SettingsInvalid(f"targets: the cluster {self._name!r} can't be used: {error}") from None
        except KafkaException as error:
            raise SettingsInvalid(f"targets: the cluster {self._name!r} can't be used: {error.args[0].str()}") from None

    def stop(self) -> None:
        """End all records: what was not sent is withdrawn, what was sent is in doubt."""
        producer, self._producer, self._stopped = self._producer, None, True
        if producer is not None and self._under_way:
            producer.purge(in_queue=True, in_flight=True, blocking=True)
            producer.poll(0)
        for record in list(self._under_way):
            self._end(record, STOPPED)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def send(self, record: _Record) -> None:
        record.until = self._clock.monotonic() + record.timeout_seconds
        self._under_way[record] = None
        self._queue(record)
        if self._timer is None and self._under_way:
            self._timer = asyncio.get_running_loop().call_later(POLL_SECONDS, self._look)

    def _queue(self, record: _Record) -> None:
        if self._producer is None:
            self._end(record, STOPPED._replace(nothing_sent=True))
            return
        try:
            self._producer.produce(
                record.topic,
                value=record.body,
                key=record.key,
                headers=record.headers,
                on_delivery=lambda error, message: self._reported(record, error),
            )
        except BufferError:
            self._end(record, end_of("_QUEUE_FULL"))
        except KafkaException as error:
            name = error.args[0].name()
            self._spoilt = self._spoilt or error.args[0].fatal()
            self._end(record, _TOO_LARGE if name == "MSG_SIZE_TOO_LARGE" else end_of(name))

    def _reported(self, record: _Record, error: KafkaError | None) -> None:
        name = None if error is None else error.name()
        if error is not None and error.fatal():
            self._spoilt = True
        if name == PURGED_QUEUED:
            self._purged(record)
        elif name == PURGED_SENT:
            self._end(record, STOPPED)
        else:
            self._end(record, end_of(name, last_error=self._last_error))
        if name is None:
            self._last_error = None

    def _purged(self, record: _Record) -> None:
        """It was taken back before it was sent, for its own sake or for another record's."""
        if record not in self._under_way:
            return
        unsent = not record.doubted
        if self._stopped:
            self._end(record, STOPPED._replace(nothing_sent=unsent))
        elif not record.may_start():
            self._end(record, WITHDRAWN if unsent else STOPPED)
        elif self._clock.monotonic() >= record.until:
            self._end(record, TargetEnd(End.TIMED_OUT, "it was not sent within its time-out", nothing_sent=unsent))
        elif record.doubted and record.at_most_once:
            self._end(record, _DOUBTED)
        else:
            self._queue(record)

    def _end(self, record: _Record, end: TargetEnd) -> None:
        if record in self._under_way:
            del self._under_way[record]
            record.on_end(end)

    def _look(self) -> None:
        """Take reports, and ask whether what waits may still be sent."""
        self._timer = None
        if self._producer is None:
            return
        try:
            self._poll()
        finally:
            if self._under_way:
                self._timer = asyncio.get_running_loop().call_later(POLL_SECONDS, self._look)

    def _poll(self) -> None:
        assert self._producer is not None
        self._producer.poll(0)
        if self._former is not None:
            self._former.poll(0)
        now = self._clock.monotonic()
        if now - self._trust_asked >= TRUST_SECONDS:
            self._trust_asked = now
            self._take_back()
        if self._spoilt:
            self._replace()

    def _take_back(self) -> None:
        """Purge the queue if it may hold a record that may not be sent any more."""
        assert self._producer is not None
        unwanted = [one for one in self._under_way if not one.unwanted and not one.may_start()]
        for record in unwanted:
            record.unwanted = True
        if unwanted:
            self._producer.purge(in_queue=True, in_flight=False, blocking=False)

    def _replace(self) -> None:
        """The library gave its producer up, for instance because the cluster forgot its numbers: use another one. What
        the old one had sent may have been written."""
        assert self._producer is not None
        made = self._made()
        self._spoilt, self._former, self._producer = False, self._producer, made
        self._former.purge(in_queue=True, in_flight=True, blocking=False)

    def _failed(self, error: KafkaError) -> None:
        """An error of the cluster, as the library tells it while it is polled."""
        name = error.name()
        if error.fatal():
            self._spoilt = True
        else:
            # Where a connection breaks, often only the failure to connect again is told.
            for record in self._under_way:
                record.doubted = True
        if name != self._last_error:
            _log.warning("kafka-cluster-failed", cluster=self._name, error=name)
        self._last_error = name
