"""The trace that a receiver gets, and the spans of waits and attempts."""

from typing import Any

import pytest

from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.attempt_traces import UNTRACED, AttemptTraces
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.request import Prepared, prepare
from scheduler_service.domain.crons.expansion import WAKE_UP_SCHEME
from scheduler_service.domain.ids import ClientId, Partition, PollerId, UnixMillis, minute_of
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.domain.retry_rows import definition_of
from scheduler_service.domain.traces import NOT_SAMPLED, Sampling, TraceMark, own_context
from scheduler_service.runtime.tracing import Span, SpanContext
from tests.support.api import NOW, SeededRandomness
from tests.unit.poller_cluster.claimed import EPOCH, SENDER, claim, client, result

SHOP = ClientId("shop")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ALL = Sampling(ratio=1.0)


class Spans:
    """A sink that keeps spans."""

    def __init__(self) -> None:
        self.kept: list[Span] = []

    def ended(self, span: Span) -> None:
        self.kept.append(span)


class Bench:
    def __init__(self, sampling: Sampling = NOT_SAMPLED) -> None:
        self.spans = Spans()
        self.traces = AttemptTraces(sampling=sampling, sink=self.spans, randomness=SeededRandomness())

    def prepared(self, of: Claim) -> Prepared:
        return prepared(of, self.traces)

    def attempt(self, of: Claim, ended: AttemptResult) -> tuple[Prepared, list[Span]]:
        """The request of an attempt, and its spans once it has this result."""
        made = self.prepared(of)
        if made.trace is not None:
            self.traces.ended(SHOP, of, made.trace, ended)
        return made, self.spans.kept


def prepared(of: Claim, traces: AttemptTraces) -> Prepared:
    made = prepare(of, client=client(), epoch=EPOCH, sender=SENDER, now=NOW, traces=traces)
    assert isinstance(made, Prepared)
    return made


def marked(state: str = "", **row: Any) -> Claim:
    return claim(options=encode_options(ScheduleOptions(trace=TraceMark(TRACE, state))), **row)


def test_the_receiver_gets_the_trace_with_the_attempt_as_its_parent() -> None:
    of = marked("vendor=opaque")
    made, (wait, attempt) = Bench().attempt(of, result(started_at_ms=NOW + 40))
    headers = dict(made.request.headers)
    assert headers["traceparent"] == f"00-{TRACE}-{attempt.context.span_id:016x}-01"
    assert headers["tracestate"] == "vendor=opaque"
    create = own_context(of.row.schedule_id).span_id
    for span in (wait, attempt):
        assert (span.context.trace_id, span.parent, span.state) == (int(TRACE, 16), create, "vendor=opaque")
        assert span.links == (SpanContext(int(TRACE, 16), create),)
    assert (wait.name, wait.kind, wait.began, wait.ended) == ("wait", "internal", NOW, NOW + 40)
    assert (attempt.name, attempt.kind, attempt.began, attempt.ended) == ("attempt", "client", NOW + 40, NOW + 140)
    assert attempt.attributes == {
        "minutehand.client_id": "shop",
        "minutehand.schedule_id": str(of.row.schedule_id),
        "minutehand.attempt": 1,
        "http.response.status_code": 200,
    }
    assert wait.context.span_id != attempt.context.span_id


def test_an_attempt_before_its_due_has_waited_no_time() -> None:
    _, (wait, _) = Bench().attempt(marked(), result(started_at_ms=NOW - 3))
    assert (wait.began, wait.ended) == (NOW - 3, NOW - 3)


@pytest.mark.parametrize(
    ("ended", "error"),
    [
        (result(204), None),
        (result(500), "500"),
        (result(None, error="timeout"), "timeout"),
    ],
)
def test_an_attempt_that_fails_has_an_error(ended: AttemptResult, error: str | None) -> None:
    _, (wait, attempt) = Bench().attempt(marked(attempt_base=2), ended)
    assert (wait.error, attempt.error) == (None, error)
    assert attempt.attributes["minutehand.attempt"] == 3
    assert attempt.attributes.get("http.response.status_code") == ended.status


def test_a_fire_begins_a_trace_with_a_link_to_its_expansion() -> None:
    of, bench = claim(cron_id="nightly"), Bench(ALL)
    fire = definition_of(Partition(SHOP, PollerId(0), minute_of(of.row.due)), of.row)
    bench.traces.expanded([fire], UnixMillis(NOW - 9), UnixMillis(NOW - 5))
    made, (expand, *spans) = bench.attempt(of, result())
    assert dict(made.request.headers)["traceparent"].split("-")[1] == f"{own_context(of.row.schedule_id).trace_id:032x}"
    assert (expand.name, expand.parent, expand.began, expand.ended) == ("expand", None, NOW - 9, NOW - 5)
    for span in spans:
        assert (span.parent, span.links) == (None, (expand.context,))
        assert span.attributes["minutehand.cron_id"] == expand.attributes["minutehand.cron_id"] == "nightly"
        assert span.context.trace_id != expand.context.trace_id


@pytest.mark.parametrize("cron_id", ["nightly", None])
def test_fires_without_a_trace_have_no_span_of_their_expansion(cron_id: str | None) -> None:
    of = claim(cron_id=cron_id)
    fire = definition_of(Partition(SHOP, PollerId(0), minute_of(of.row.due)), of.row)
    for bench in (Bench(), Bench(Sampling(ratio=1e-15))):
        bench.traces.expanded([fire], UnixMillis(NOW), UnixMillis(NOW))
        assert bench.spans.kept == []
    UNTRACED.expanded([fire], UnixMillis(NOW), UnixMillis(NOW))


@pytest.mark.parametrize("names", [("traceparent",), ("TraceParent", "TraceState")])
def test_headers_of_the_callback_come_first(names: tuple[str, ...]) -> None:
    own = ",".join(f'["{name}","own"]' for name in names)
    made, spans = Bench().attempt(marked("a=1", headers=f"[{own}]"), result())
    traced = [(name, value) for name, value in made.request.headers if name.lower().startswith("trace")]
    assert traced == [(name, "own") for name in names]
    assert len(spans) == 2


@pytest.mark.parametrize(
    ("sampling", "of"),
    [
        (NOT_SAMPLED, claim()),
        (ALL, claim(options=encode_options(ScheduleOptions(trace=TraceMark("nonsense"))))),
    ],
)
def test_what_has_no_trace_is_called_without_one(sampling: Sampling, of: Claim) -> None:
    made, spans = Bench(sampling).attempt(of, result())
    assert (made.trace, spans) == (None, [])
    assert "traceparent" not in dict(made.request.headers)


def test_wake_ups_are_not_traced() -> None:
    of = marked(url=f"{WAKE_UP_SCHEME}nightly")
    assert Bench(ALL).traces.begin(SHOP, of, ScheduleOptions(trace=TraceMark(TRACE))) is None


def test_a_node_that_exports_nothing_passes_on_what_creates_brought() -> None:
    of = marked("a=1")
    made = prepared(of, UNTRACED)
    headers = dict(made.request.headers)
    assert headers["traceparent"] == f"00-{TRACE}-{own_context(of.row.schedule_id).span_id:016x}-01"
    assert headers["tracestate"] == "a=1"
    assert made.trace is not None
    UNTRACED.ended(SHOP, of, made.trace, result())
    assert prepared(claim(), UNTRACED).trace is None


def test_every_attempt_has_ids_of_its_own() -> None:
    bench = Bench()
    for number in range(3):
        bench.attempt(marked(attempt_base=number), result())
    assert len({span.context for span in bench.spans.kept}) == 6
