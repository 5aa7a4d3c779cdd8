"""Spans as the rooms make them, and the port to what exports them. Nothing here knows OpenTelemetry.

A span is made when what it measures has ended, in one piece, so there is no open span to lose and no current one to
look up.
"""

from typing import Literal, NamedTuple, Protocol


class SpanContext(NamedTuple):
    """Names one span: 128 and 64 bits, neither 0."""

    trace_id: int
    span_id: int


class Span(NamedTuple):
    """One ended span. Times are Unix milliseconds. `parent`: the id of a span of the same trace. `error`: a stable
    code; None where it succeeded."""

    name: str
    kind: Literal["server", "internal", "client", "producer"]
    context: SpanContext
    parent: int | None
    links: tuple[SpanContext, ...]
    began: int
    ended: int
    attributes: dict[str, str | int]
    error: str | None = None
    state: str = ""


class SpanSink(Protocol):
    """Takes spans of one process to where they are kept."""

    def ended(self, span: Span) -> None:
        """Never blocks or fails: a span for which there is no room is counted as dropped."""
