"""Spans at a receiver of OTLP, and the settings of traces."""

import socket
import sys
import threading
from contextlib import AsyncExitStack

import pytest

from membership.errors import SettingsInvalid
from minutehand.running import StopSignal
from minutehand.tracing.export import SpanExport
from minutehand.tracing.open import open_export
from minutehand.tracing.otlp import OtlpExporter
from minutehand.tracing.settings import TraceSettings
from scheduler_service.domain.traces import Sampling
from scheduler_service.runtime.tracing import Span, SpanContext
from tests.support.api import NOW, ManualClock
from tests.support.otlp import collector

SPAN = Span(
    name="attempt",
    kind="client",
    context=SpanContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x1),
    parent=0xF067AA0BA902B7,
    links=(SpanContext(0x2, 0x3),),
    began=NOW,
    ended=NOW + 17,
    attributes={"minutehand.schedule_id": "one", "minutehand.attempt": 2},
    error="timeout",
    state="vendor=opaque",
)


def test_a_span_arrives_as_it_was_made() -> None:
    with collector() as spans:
        settings = TraceSettings(endpoint=spans.url, authorization="Bearer of-the-collector")
        exporter = OtlpExporter(settings, program="node", version="1.2.3")
        assert exporter.export([SPAN]) is True
        exporter.close()
        exporter.close()
        (span,) = spans.await_spans("one", "attempt")
        assert (span.service, span.kind, span.failed) == ("minutehand-node", "client", True)
        assert (span.trace, span.span, span.parent) == (
            f"{SPAN.context.trace_id:032x}",
            f"{1:016x}",
            "00f067aa0ba902b7",
        )
        assert (span.began, span.ended, span.state) == (NOW, NOW + 17, "vendor=opaque")
        assert span.links == ((f"{2:032x}", f"{3:016x}"),)
        assert span.attributes == {**SPAN.attributes, "error.type": "timeout"}
        assert spans.received[0].headers["authorization"] == "Bearer of-the-collector"


def test_an_endpoint_that_refuses_is_told_apart() -> None:
    with collector() as spans:
        spans.status = 400
        exporter = OtlpExporter(TraceSettings(endpoint=spans.url), program="api", version="1.2.3")
        assert exporter.export([SPAN]) is False
        assert "authorization" not in spans.received[0].headers
        exporter.close()


def test_a_redirection_is_no_success() -> None:
    with collector() as spans:
        spans.status = 302
        exporter = OtlpExporter(TraceSettings(endpoint=spans.url), program="api", version="1.2.3")
        assert exporter.export([SPAN]) is False
        exporter.close()


def test_an_answer_that_never_ends_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def begin_an_answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
                while connection.recv(65_536):
                    pass

        server = threading.Thread(target=begin_an_answer)
        server.start()
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/traces"
        exporter = OtlpExporter(TraceSettings(endpoint=endpoint), program="api", version="1.2.3")
        assert exporter.export([SPAN]) is True
        exporter.close()
        server.join(10)
        assert not server.is_alive()


async def opened(settings: TraceSettings) -> SpanExport | None:
    async with AsyncExitStack() as parts:
        return await open_export(settings, program="api", clock=ManualClock(), stop=StopSignal(), parts=parts)


async def test_without_an_endpoint_opentelemetry_is_not_even_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minutehand.tracing.otlp", None)
    assert await opened(TraceSettings()) is None


async def test_without_the_extra_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minutehand.tracing.otlp", None)
    settings = TraceSettings(endpoint="http://127.0.0.1:4318/v1/traces")
    with pytest.raises(SettingsInvalid, match=r"minutehand-server\[trace\]"):
        await opened(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"endpoint": "127.0.0.1:4318"},
        {"endpoint": "grpc://127.0.0.1:4317"},
        {"endpoint": "http:///v1/traces"},
        {"sample_ratio": -0.1},
        {"sample_ratio": 1.1},
        {"sample_ratio": float("nan")},
        {"queue_spans": 0},
    ],
)
def test_settings_that_cant_work_are_refused(settings: dict[str, str | float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        TraceSettings(**settings)  # type: ignore[arg-type]


def test_the_ratio_and_the_flag_are_those_of_the_settings() -> None:
    assert TraceSettings().sampling == Sampling(ratio=0.0, follow=True)
    assert TraceSettings(sample_ratio=0.5, follow_parent=False).sampling == Sampling(ratio=0.5, follow=False)


def test_the_secret_is_not_shown() -> None:
    assert "Bearer" not in repr(TraceSettings(authorization="Bearer of-the-collector"))
