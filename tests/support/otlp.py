"""An OTLP receiver: an HTTP server that decodes the spans that are posted to it."""

import gzip
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.recording_receiver import Answer, RecordingReceiver, Request, listening


@dataclass(frozen=True, slots=True)
class Collected:
    """One span as it was received; ids in hexadecimal digits, `links` as trace and span, times in milliseconds."""

    service: str
    name: str
    kind: str
    trace: str
    span: str
    parent: str
    state: str
    links: tuple[tuple[str, str], ...]
    began: int
    ended: int
    attributes: dict[str, str | int]
    failed: bool


class Collector(RecordingReceiver):
    """The spans received so far. `status`: what the requests that bring them are answered with."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[Collected] = []
        self.status = 200

    def answer(self, request: Request) -> Answer:
        body = gzip.decompress(request.body) if request.headers.get("content-encoding") == "gzip" else request.body
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = _attributes(of_resource.resource.attributes)["service.name"]
            for of_scope in of_resource.scope_spans:
                self.spans += [_collected(str(service), span) for span in of_scope.spans]
        return Answer(self.status)

    def await_spans(self, schedule_id: str, *names: str, seconds: float = 30.0) -> list[Collected]:
        """The spans of this schedule, by begin, once all of these names are there."""
        deadline = time.monotonic() + seconds
        while True:
            found = [span for span in self.spans if span.attributes.get("minutehand.schedule_id") == schedule_id]
            if sorted(span.name for span in found) == sorted(names):
                return sorted(found, key=lambda span: names.index(span.name))
            assert time.monotonic() < deadline, found
            time.sleep(0.05)


def _attributes(pairs: object) -> dict[str, str | int]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}  # type: ignore[attr-defined]


def _collected(service: str, span: Span) -> Collected:
    return Collected(
        service=service,
        name=span.name,
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        trace=span.trace_id.hex(),
        span=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        state=span.trace_state,
        links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
        began=span.start_time_unix_nano // 1_000_000,
        ended=span.end_time_unix_nano // 1_000_000,
        attributes=_attributes(span.attributes),
        failed=span.status.code == 2,
    )


@contextmanager
def collector() -> Iterator[Collector]:
    with listening(Collector(), "/v1/traces") as there:
        yield there
