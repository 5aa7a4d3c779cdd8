"""Spans in the form of OTLP over HTTP, made and sent by the OpenTelemetry SDK."""

import logging
import os
import platform
from typing import Any, Final

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from minutehand.tracing.settings import TraceSettings
from scheduler_service.runtime import tracing
from scheduler_service.runtime.file_secrets import now

TIMEOUT_SECONDS: Final = 3.0
"""For one export with its repetitions."""
_KINDS: Final = {
    "server": SpanKind.SERVER,
    "internal": SpanKind.INTERNAL,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
}
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_NS: Final = 1_000_000


class _Session(requests.Session):
    """Reads no body of an answer, which nothing needs and which might never end. A connection is used again only after
    an answer without one, as collectors give it. `authorization`: the present one is sent with each request."""

    def __init__(self, authorization: str | None) -> None:
        super().__init__()
        self._authorization = authorization

    def request(self, *asked: Any, **how: Any) -> requests.Response:
        """Raises RequestException, also where it is sent elsewhere: the exporter would take that for a success."""
        if self._authorization is not None:
            self.headers["authorization"] = now(self._authorization)
        answer = super().request(*asked, **{**how, "stream": True})
        if answer.headers.get("Content-Length") == "0":
            _ = answer.content
        else:
            answer.close()
        if 300 <= answer.status_code < 400:
            raise requests.RequestException("the endpoint has moved")
        return answer


class OtlpExporter:
    """An `Exporter`. `program`: `api` or `node`, shown as the service's name."""

    def __init__(self, settings: TraceSettings, *, program: str, version: str) -> None:
        # It would log each batch that fails; `SpanExport` logs the change, and counts.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        self._exporter = OTLPSpanExporter(
            endpoint=settings.endpoint,
            certificate_file=settings.ca_file,
            timeout=TIMEOUT_SECONDS,
            session=_Session(settings.authorization),
        )
        self._closed = False
        self._resource = Resource(
            {
                "service.name": f"minutehand-{program}",
                "service.namespace": "minutehand",
                "service.instance.id": f"{platform.node()}-{os.getpid()}",
                "service.version": version,
            }
        )
        self._scope = InstrumentationScope("minutehand", version)

    def export(self, spans: list[tracing.Span]) -> bool:
        result = self._exporter.export([self._read_only(span) for span in spans])
        return bool(result is SpanExportResult.SUCCESS)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._exporter.shutdown()

    def _read_only(self, span: tracing.Span) -> ReadableSpan:
        state = TraceState.from_header([span.state]) if span.state else None
        trace_id, span_id = span.context
        parent = None
        if span.parent is not None:
            parent = SpanContext(trace_id, span.parent, is_remote=True, trace_flags=_SAMPLED)
        return ReadableSpan(
            span.name,
            context=SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED, trace_state=state),
            parent=parent,
            resource=self._resource,
            attributes=span.attributes if span.error is None else {**span.attributes, "error.type": span.error},
            links=[
                Link(SpanContext(link.trace_id, link.span_id, is_remote=True, trace_flags=_SAMPLED))
                for link in span.links
            ],
            kind=_KINDS[span.kind],
            status=Status(StatusCode.UNSET if span.error is None else StatusCode.ERROR),
            start_time=span.began * _NS,
            end_time=span.ended * _NS,
            instrumentation_scope=self._scope,
        )
