"""The traces of creates: what rows store of them, and the spans of requests that created schedules.

    request with `traceparent` --begin--> rows take its mark, and are remembered --end--> a span for each of them

Rows are made in many places, by many kinds of requests, so the trace of the present request is a context variable, set
once where a request begins, instead of a parameter of all of them. Nobody looks at it while tracing is off.
"""

from contextvars import ContextVar
from typing import Final

from scheduler_service.domain.ids import ClientId, ScheduleId
from scheduler_service.domain.options import trace_of, with_trace
from scheduler_service.domain.schedules import Definition
from scheduler_service.domain.traces import Incoming, Sampling, Trace, TraceMark, read_traceparent
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
        self.made: dict[tuple[ClientId, ScheduleId], Trace] = {}
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
        self._noted(request, client_id, schedule_id, request.mark)
        return options if request.mark is None else with_trace(options, request.mark)

    def moved(self, made: Definition) -> None:
        """The present request makes this row of another one, whose trace it keeps."""
        if (request := _present.get()) is not None:
            self._noted(request, made.client_id, made.schedule_id, trace_of(made.options))

    def _noted(
        self, request: TracedRequest, client_id: ClientId, schedule_id: ScheduleId, mark: TraceMark | None
    ) -> None:
        if (trace := self._sampling.of(schedule_id, mark)) is not None:
            request.made[client_id, schedule_id] = trace

    def answered(self, request: TracedRequest, *, status: int) -> None:
        """A request of these was answered with this status."""
        now = self._clock.wall_ms()
        for (client_id, schedule_id), trace in request.made.items():
            self._sink.ended(_span(request, client_id, schedule_id, trace, now=now, status=status))


def _span(
    request: TracedRequest, client_id: ClientId, schedule_id: ScheduleId, trace: Trace, *, now: int, status: int
) -> Span:
    """The span of one create: within the trace that the request brought, or the root of one of its own, or within the
    one that a moved schedule keeps. A sampled request whose trace is another one is linked."""
    assert trace.create is not None
    caller = request.incoming
    inside = caller is not None and caller.context.trace_id == trace.trace_id
    linked = caller is not None and caller.sampled and not inside
    return Span(
        name=CREATE_SPAN,
        kind="server",
        context=SpanContext(trace.trace_id, trace.create),
        parent=caller.context.span_id if caller is not None and inside else None,
        links=(caller.context,) if caller is not None and linked else (),
        began=request.began,
        ended=now,
        attributes={
            "http.response.status_code": status,
            "minutehand.client_id": client_id,
            "minutehand.schedule_id": str(schedule_id),
        },
        error=str(status) if status >= 500 else None,
        state=trace.state,
    )
