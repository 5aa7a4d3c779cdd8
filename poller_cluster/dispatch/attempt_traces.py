"""The traces of attempts: the header that a receiver gets, and the spans of the wait and the attempt.

    create        (an API's span)
      wait        from the due of the row to the start of its attempt, under the create and linked to it
      attempt     from its start to its end, likewise; its id is the parent id that the receiver gets

No span covers the time from the create to the due, which may be months: a span is exported when it ends. A retry has a
wait and an attempt of its own. A fire of a cron begins a trace: its spans have no parent, and are linked to its span
`expand`, which is a root too, in the trace of all expansions of its cron.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.job import Claim
from scheduler_service.domain.crons.expansion import WAKE_UP_SCHEME
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.options import Headers, ScheduleOptions
from scheduler_service.domain.schedules import Definition
from scheduler_service.domain.traces import (
    NOT_SAMPLED,
    TRACEPARENT,
    TRACESTATE,
    Sampling,
    Trace,
    cron_key,
    traceparent,
)
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.runtime.tracing import Span, SpanContext, SpanSink

WAIT_SPAN: Final = "wait"
ATTEMPT_SPAN: Final = "attempt"
EXPAND_SPAN: Final = "expand"


class AttemptTrace(NamedTuple):
    """The trace of one attempt. `span_id`: of the attempt; None where this node exports no spans, so that the receiver
    gets the create's."""

    trace: Trace
    span_id: int | None

    def over(self, headers: Headers) -> Headers:
        """The headers of a callback with the trace, unless they have one of their own."""
        names = {name.lower() for name, _ in headers}
        span_id = self.trace.create if self.span_id is None else self.span_id
        if TRACEPARENT in names or span_id is None:
            return headers
        headers = (*headers, (TRACEPARENT, traceparent(SpanContext(self.trace.trace_id, span_id))))
        if self.trace.state and TRACESTATE not in names:
            headers = (*headers, (TRACESTATE, self.trace.state))
        return headers


class AttemptTraces:
    """The traces of one node's attempts. `sink` None: traces that creates brought are passed on, and that is all."""

    def __init__(
        self, *, sampling: Sampling = NOT_SAMPLED, sink: SpanSink | None = None, randomness: Randomness | None = None
    ) -> None:
        self._sampling = sampling
        self._sink = sink
        self._randomness = randomness
        self._begins = sink is not None and sampling.ratio > 0

    def begin(self, client_id: ClientId, claim: Claim, options: ScheduleOptions) -> AttemptTrace | None:
        """The trace of the attempt that is being prepared; None: it has none."""
        if options.trace is None and not self._begins:
            return None
        row = claim.row
        if row.url is not None and row.url.startswith(WAKE_UP_SCHEME):
            return None
        cron = None if row.cron_id is None else cron_key(client_id, row.cron_id)
        trace = self._sampling.of(row.schedule_id, options.trace, cron)
        if trace is None:
            return None
        return AttemptTrace(trace, None if self._randomness is None else self._randomness.bits(64) or 1)

    def expanded(self, fires: Sequence[Definition], began: UnixMillis, ended: UnixMillis) -> None:
        """These fires were placed between both instants."""
        if self._sink is None or not self._begins:
            return
        for fire in fires:
            if fire.cron_id is None:
                continue
            trace = self._sampling.of(fire.schedule_id, None, cron_key(fire.client_id, fire.cron_id))
            if trace is None or trace.expansion is None:
                continue
            self._sink.ended(
                Span(
                    name=EXPAND_SPAN,
                    kind="internal",
                    context=trace.expansion,
                    parent=None,
                    links=(),
                    began=began,
                    ended=ended,
                    attributes={
                        "minutehand.client_id": fire.client_id,
                        "minutehand.schedule_id": str(fire.schedule_id),
                        "minutehand.cron_id": fire.cron_id,
                    },
                )
            )

    def ended(self, client_id: ClientId, claim: Claim, attempt: AttemptTrace, result: AttemptResult) -> None:
        """The attempt has a result."""
        sink, randomness, span_id = self._sink, self._randomness, attempt.span_id
        if sink is None or randomness is None or span_id is None:
            return
        row, trace, began = claim.row, attempt.trace, result.started_at_ms
        if trace.create is None:
            links = () if trace.expansion is None else (trace.expansion,)
        else:
            links = (SpanContext(trace.trace_id, trace.create),)
        attributes: dict[str, str | int] = {
            "minutehand.client_id": client_id,
            "minutehand.schedule_id": str(row.schedule_id),
            "minutehand.attempt": (row.attempt_base or 0) + 1,
        }
        if row.cron_id is not None:
            attributes["minutehand.cron_id"] = row.cron_id
        sink.ended(
            Span(
                name=WAIT_SPAN,
                kind="internal",
                context=SpanContext(trace.trace_id, randomness.bits(64) or 1),
                parent=trace.create,
                links=links,
                began=min(row.due, began),
                ended=began,
                attributes=attributes,
                state=trace.state,
            )
        )
        answered = {} if result.status is None else {"http.response.status_code": result.status}
        sink.ended(
            Span(
                name=ATTEMPT_SPAN,
                kind="client" if result.kind == "http" else "producer",
                context=SpanContext(trace.trace_id, span_id),
                parent=trace.create,
                links=links,
                began=began,
                ended=began + round(result.duration_seconds * 1000),
                attributes={**attributes, **answered},
                error=None if result.succeeded else result.error or str(result.status),
                state=trace.state,
            )
        )


UNTRACED: Final = AttemptTraces()
"""Of a node that exports no spans."""
