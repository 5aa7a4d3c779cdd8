"""Which schedules are traced, and under which ids. Pure.

A create may bring a trace (W3C Trace Context, level 1: the headers `traceparent` and `tracestate`). If that trace is
sampled, its id is stored in the row's options, and the schedule's spans are part of it. Any other schedule may begin a
trace of its own, as `Sampling.ratio` says. Everything else follows from the schedule's id:

    span of the create           half of a hash of the id, so that a repeated create has the same span and row
    id of a trace of its own     the other half, and with it whether the ratio samples it: a row stores nothing for it

So an API and a node agree about a schedule without a word, if their ratios are equal. A fire of a cron begins a trace
of its own too, linked to the span of its expansion. All those of a cron are one trace, whose id follows from its name.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from scheduler_service.runtime.tracing import SpanContext

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
MAX_STATE: Final = 512
"""Characters of a `tracestate` that are passed on; a longer one is left out whole, as W3C allows."""
MAX_STATE_MEMBERS: Final = 32
_SAMPLED = 0x01
_RATIO_BITS = 56
"""The right-most bits of a trace id, which W3C wants random."""
_PERSON = b"minutehand-trace"
_trace_id = re.compile(r"[0-9a-f]{32}").fullmatch
_parent = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?").fullmatch
_VALUE = r"\x21-\x2b\x2d-\x3c\x3e-\x7e"
"""Printable, but no comma and no equals sign."""
_member = re.compile(rf"[a-z0-9][a-z0-9_*/@-]{{0,255}}=[ {_VALUE}]{{0,255}}[{_VALUE}]").fullmatch


class TraceMark(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a row stores of the trace that its create brought: the id in 32 hexadecimal digits, and the `tracestate`."""

    id: str
    state: str = ""


class Incoming(NamedTuple):
    """A valid `traceparent` of a request, with its `tracestate`."""

    context: SpanContext
    sampled: bool
    state: str


class Trace(NamedTuple):
    """The trace of one schedule. `create`: the span of its create; None for a fire. `expansion`: the span that placed a
    fire."""

    trace_id: int
    create: int | None
    state: str = ""
    expansion: SpanContext | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """`ratio`: the share of schedules without a sampled trace of their own that begin one, from 0 to 1. `follow`: the
    flag of a `traceparent` decides; else the ratio does, by the id in it."""

    ratio: float = 0.0
    follow: bool = True

    def mark(self, incoming: Incoming | None) -> TraceMark | None:
        """What a row stores of the trace that its create brought; None: it is not sampled."""
        if incoming is None:
            return None
        sampled = incoming.sampled if self.follow else self._takes(incoming.context.trace_id)
        return TraceMark(f"{incoming.context.trace_id:032x}", incoming.state) if sampled else None

    def of(self, schedule_id: UUID, mark: TraceMark | None, cron_key: str | None = None) -> Trace | None:
        """The trace of a schedule; None: it has none, or its id can't be read. `mark`: the stored one. `cron_key`: of a
        fire's cron, as the function makes it."""
        if mark is not None:
            # A call is worth more than its trace: what can't be read is never the call's fault.
            readable = _trace_id(mark.id) and int(mark.id, 16)
            return Trace(int(mark.id, 16), own_context(schedule_id).span_id, mark.state) if readable else None
        if not self.ratio:
            return None
        own = own_context(schedule_id)
        if not self._takes(own.trace_id):
            return None
        if cron_key is None:
            return Trace(own.trace_id, own.span_id)
        return Trace(own.trace_id, None, expansion=SpanContext(_hashed(cron_key.encode()).trace_id, own.span_id))

    def _takes(self, trace_id: int) -> bool:
        return trace_id & ((1 << _RATIO_BITS) - 1) < self.ratio * (1 << _RATIO_BITS)


NOT_SAMPLED: Final = Sampling()


def own_context(schedule_id: UUID) -> SpanContext:
    """The trace that a schedule would begin, and the span of its create in that or another trace."""
    return _hashed(schedule_id.bytes)


def cron_key(client_id: str, cron_id: str) -> str:
    """The name of a cron among those of all clients."""
    return f"{client_id}/{cron_id}"


def _hashed(value: bytes) -> SpanContext:
    digest = blake2b(value, digest_size=24, person=_PERSON).digest()
    return SpanContext(int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:]) or 1)


def read_traceparent(parent: str, state: str | None) -> Incoming | None:
    """None for a header that W3C wants ignored. A `tracestate` that is too long or malformed is left out."""
    found = _parent(parent)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    # Version ff is invalid; what follows is for later versions only.
    if version == "ff" or (version == "00" and more) or not int(trace_id, 16) or not int(span_id, 16):
        return None
    context = SpanContext(int(trace_id, 16), int(span_id, 16))
    return Incoming(context, bool(int(flags, 16) & _SAMPLED), read_tracestate(state))


def read_tracestate(state: str | None) -> str:
    """The list without empty members; empty where it can't be passed on."""
    if not state or len(state) > MAX_STATE:
        return ""
    members = [member for one in state.split(",") if (member := one.strip(" \t"))]
    if len(members) > MAX_STATE_MEMBERS or not all(map(_member, members)):
        return ""
    return ",".join(members)


def traceparent(context: SpanContext) -> str:
    """The header of a sampled span."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-01"
