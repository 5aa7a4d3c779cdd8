"""The traces of creates: what rows store of them, and the spans of requests that created schedules.

    request with `traceparent` --begin--> rows take its mark, and are remembered --end--> a span for each of them

Rows are made in many places, by many kinds of requests, so the trace of the present request is a context variable, set
once where a request begins, instead of a parameter of all of them. Nobody looks at it while tracing is off.
"""

from contextvars import ContextVar
from typing import Final

from scheduler_service.domain.ids import ClientId, ScheduleId
from scheduler_service.domain.options import with_trace
from scheduler_service.domain.traces import Incoming, Sampling, TraceMark, own_context, read_traceparent
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.tracing import Span, SpanContext, SpanSink

CREATE_SPAN: Final = "create"


class TracedRequest:
    """One request under way, and the sampled schedules for which it has made a row."""

    __slots__ = ("_of", "_token", "began", "incoming", "made", "mark")

    def __init__(self, of: "CreateTraces", incoming: Incoming | None, *, mark: TraceMark | None, began: int) -> None:
        self._of = of
        self.incoming = incoming
        self.mark = mark
        self.made: list[tuple[ClientId, ScheduleId]] = []
        self.began = began
        self._token = _present.set(self)

    def leave(self) -> None:
        """Nothing more is made for it in this context."""
        _present.reset(self._token)

    def end(self, *, status: int) -> None:
        """It is answered with this status."""
        if self.made:
            self._of.answered(self, status=status)


_present: ContextVar[TracedRequest | None] = ContextVar("traced_request", default=None)


class CreateTraces:
    """Traces what one API process creates."""

    def __init__(self, *, sampling: Sampling, sink: SpanSink, clock: Clock) -> None:
        self._sampling = sampling
        self._sink = sink
        self._clock = clock

    def begin(self, parent: str | None, state: str | None) -> TracedRequest:
        """A request with these headers begins, in the present context."""
        incoming = None if parent is None else read_traceparent(parent, state)
        mark = None if incoming is None else self._sampling.mark(incoming)
        return TracedRequest(self, incoming, mark=mark, began=self._clock.wall_ms())

    def stamped(self, client_id: ClientId, schedule_id: ScheduleId, options: str) -> str:
        """The options of a new row, with the trace of the request that makes it."""
        request = _present.get()
        if request is None:
            return options
        if request.mark is not None:
            request.made.append((client_id, schedule_id))
            return with_trace(options, request.mark)
        if self._sampling.of(schedule_id, None) is not None:
            request.made.append((client_id, schedule_id))
        return options

    def answered(self, request: TracedRequest, *, status: int) -> None:
        """A request of these was answered with this status."""
        now = self._clock.wall_ms()
        for client_id, schedule_id in dict.fromkeys(request.made):
            self._sink.ended(_span(request, client_id, schedule_id, now=now, status=status))


def _span(request: TracedRequest, client_id: ClientId, schedule_id: ScheduleId, *, now: int, status: int) -> Span:
    """The span of one create: within the trace that the request brought, or the root of one of its own."""
    own, incoming, parent, state = own_context(schedule_id), request.incoming, None, ""
    if request.mark is not None:
        assert incoming is not None
        own = SpanContext(incoming.context.trace_id, own.span_id)
        parent, state = incoming.context.span_id, incoming.state
    return Span(
        name=CREATE_SPAN,
        kind="server",
        context=own,
        parent=parent,
        links=(),
        began=request.began,
        ended=now,
        attributes={
            "http.response.status_code": status,
            "minutehand.client_id": client_id,
            "minutehand.schedule_id": str(schedule_id),
        },
        error=str(status) if status >= 500 else None,
        state=state,
    )
