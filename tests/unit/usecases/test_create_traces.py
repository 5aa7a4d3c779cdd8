"""What creates take of a trace, and the spans of the requests that made them."""

import pytest

from scheduler_service.domain.ids import ClientId, ScheduleId, compose_schedule_id
from scheduler_service.domain.options import NO_OPTIONS_TEXT, decode_options
from scheduler_service.domain.traces import Sampling, TraceMark, own_context
from scheduler_service.runtime.tracing import Span, SpanContext
from scheduler_service.usecases.create_traces import CreateTraces
from tests.support.api import NOW, ManualClock

SHOP = ClientId("shop")
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{CALLER}-01"


class Spans:
    """A sink that keeps spans."""

    def __init__(self) -> None:
        self.kept: list[Span] = []

    def ended(self, span: Span) -> None:
        self.kept.append(span)


class Bench:
    def __init__(self, sampling: Sampling) -> None:
        self.clock, self.spans = ManualClock(), Spans()
        self.traces = CreateTraces(sampling=sampling, sink=self.spans, clock=self.clock)

    def request(self, parent: str | None, *made: ScheduleId, state: str | None = None, status: int = 201) -> list[str]:
        """The options of rows that are made by a request of two seconds."""
        request = self.traces.begin(parent, state)
        try:
            options = [self.traces.stamped(SHOP, one, NO_OPTIONS_TEXT) for one in made]
        finally:
            request.leave()
        self.clock.advance(2)
        request.end(status=status)
        return options


def numbered(tail: int) -> ScheduleId:
    return compose_schedule_id(due=NOW, poller_id=0, tail=tail)


def test_a_sampled_trace_goes_into_the_row_and_has_a_span_of_the_create() -> None:
    bench = Bench(Sampling())
    (options,) = bench.request(SAMPLED, numbered(1), state="vendor=opaque")
    assert decode_options(options).trace == TraceMark(TRACE, "vendor=opaque")
    (span,) = bench.spans.kept
    assert span.context == SpanContext(int(TRACE, 16), own_context(numbered(1)).span_id)
    assert (span.parent, span.links, span.state) == (int(CALLER, 16), (), "vendor=opaque")
    assert (span.name, span.kind, span.began, span.ended, span.error) == ("create", "server", NOW, NOW + 2_000, None)
    assert span.attributes == {
        "http.response.status_code": 201,
        "minutehand.client_id": "shop",
        "minutehand.schedule_id": str(numbered(1)),
    }


@pytest.mark.parametrize("parent", [None, "malformed", f"00-{TRACE}-{CALLER}-00"])
def test_without_a_sampled_trace_nothing_is_stored_or_told(parent: str | None) -> None:
    bench = Bench(Sampling())
    assert bench.request(parent, numbered(1), state="a=1") == [NO_OPTIONS_TEXT]
    assert bench.spans.kept == []


def test_a_schedule_may_begin_a_trace_for_which_nothing_is_stored() -> None:
    bench = Bench(Sampling(ratio=1.0))
    assert bench.request(None, numbered(1)) == [NO_OPTIONS_TEXT]
    (span,) = bench.spans.kept
    assert (span.context, span.parent, span.state) == (own_context(numbered(1)), None, "")


def test_each_schedule_of_a_request_has_one_span_however_often_its_row_is_made() -> None:
    bench = Bench(Sampling())
    bench.request(SAMPLED, numbered(1), numbered(2), numbered(1))
    assert [span.attributes["minutehand.schedule_id"] for span in bench.spans.kept] == [
        str(numbered(1)),
        str(numbered(2)),
    ]
    assert len({span.context.span_id for span in bench.spans.kept}) == 2


def test_a_request_that_makes_no_schedule_has_no_span() -> None:
    bench = Bench(Sampling(ratio=1.0))
    bench.request(SAMPLED, status=422)
    assert bench.spans.kept == []


@pytest.mark.parametrize(("status", "error"), [(201, None), (409, None), (503, "503")])
def test_a_failure_of_ours_is_an_error_of_the_span(status: int, error: str | None) -> None:
    bench = Bench(Sampling())
    bench.request(SAMPLED, numbered(1), status=status)
    (span,) = bench.spans.kept
    assert (span.attributes["http.response.status_code"], span.error) == (status, error)


def test_a_request_that_is_left_marks_no_row_of_another_one() -> None:
    bench = Bench(Sampling(ratio=1.0))
    bench.request(SAMPLED)
    assert bench.traces.stamped(SHOP, numbered(1), NO_OPTIONS_TEXT) == NO_OPTIONS_TEXT
    bench.request(None)
    assert bench.spans.kept == []
