"""A schedule's overrides of its client's settings, and the encoding of headers and options in a row. Pure.

`Definition.headers` is a JSON list of [name, value] pairs, in the order they are sent; `Definition.options` is a JSON
object of `ScheduleOptions` without defaults. Both are decoded where they are used, so that a row that can't be decoded
fails alone. Unknown options are ignored, because a newer program may have written them.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from membership.errors import MinutehandError
from scheduler_service.domain.acknowledgements import Ack
from scheduler_service.domain.clients import ClientSettings, LatePolicy, RetrySettings
from scheduler_service.domain.flows import Flow
from scheduler_service.domain.schedule_keys import KeyMark
from scheduler_service.domain.schedules import Kind, State
from scheduler_service.domain.traces import TraceMark

Headers = tuple[tuple[str, str], ...]


class Undecodable(MinutehandError):
    """A row's headers or options can't be decoded. Says which, never what they hold."""


class RetryOverride(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a schedule asks for instead of its client's `retry` settings; None: as the client has it.

    The bounds are those of the client's own settings.
    """

    max_attempts: Annotated[int, Meta(ge=1, le=100)] | None = None
    base_seconds: Annotated[float, Meta(ge=0.1, le=3600)] | None = None
    cap_seconds: Annotated[float, Meta(ge=0.1, le=86_400)] | None = None
    deadline_seconds: Annotated[float, Meta(ge=1, le=604_800)] | None = None
    final_statuses: Annotated[tuple[Annotated[int, Meta(ge=100, le=599)], ...], Meta(max_length=500)] | None = None

    def over(self, settings: RetrySettings) -> RetrySettings:
        """The client's settings with this schedule's overrides."""
        asked = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(settings, **asked)


RUN_KEY_PREFIX = "$cron/"
"""What the ordering keys of crons begin with, and no client's."""


def run_key(cron_id: str) -> str:
    """The ordering key of a cron's runs of which one is under way at a time."""
    return RUN_KEY_PREFIX + cron_id


def is_run_key(key: str | None) -> bool:
    return key is not None and key.startswith(RUN_KEY_PREFIX)


class CronChild(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The rule that made a child: the cron's revision, and the versions of the data that gave its instant: of zones
    and, for a rule with a country's calendar, of public holidays."""

    revision: int
    tzdata: str
    holidays: str | None = None


class LocalDue(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The local time that a due was asked for as, by which it is computed again where zone data changes (`local_times`
    reads it): `local` as in the request, `timezone` an IANA name."""

    local: str
    timezone: str
    gap: Literal["shift", "skip"] = "shift"
    fold: Literal["first", "second"] = "first"


class Redelivery(msgspec.Struct, frozen=True, gc=False):
    """The mark of an explicit redelivery, asked for `at` this instant (Unix milliseconds) after so many `attempts`."""

    at: int
    attempts: int


class ScheduleOptions(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A schedule's own options.

    `timeout_seconds`: of one attempt. `skip_after_seconds`: a call that would start later than this after its due is
    skipped, whatever the client's late policy says. `in_doubt`: set in retry rows of rows that an earlier owner may
    have called (see `retry_rows`). `cron`: set in the fires of a cron, not in triggered runs. `redelivery`: set in
    retry rows made by an explicit redelivery, and in their retries. `key`: of schedules that were put under one.
    `empty_body`: an empty body was asked for. Without it, a row without a body is sent with the default one. `flow`: of
    callbacks with a flow key. `wire`: of calls that came by another scheduler's wire (see `wires`). `local_due`: of
    rows whose instant was asked for as a local time. `overlap`: what becomes of a cron's run while another one is under
    way, if that is not allowed (`crons.row.Overlap`); such runs have the ordering key of their cron (`run_key`).
    `pauses`: set in runs of a cron that nodes pause after failures. `notice`: set in calls that tell a client of its
    events, and never stored: they are made at least once, whatever the client's `in_doubt` says. `trace`: of creates
    that brought a sampled trace (see `traces`). `ack`: the receiver may take the call by 202 and say later what became
    of it; `word`: of retry rows that are no call but the end of that wait, the reason of the pointer that names them
    (see `acknowledgements`). `on_success` and `on_failure`: where its delivery, or its failure, is told: a URL, or one
    that names a destination (`end_notices`). `succeed_within_seconds`: of schedules with a success deadline, so long
    after the due (see `success_deadlines`)."""

    retry: RetryOverride | None = None
    timeout_seconds: float | None = None
    skip_after_seconds: float | None = None
    in_doubt: bool = False
    cron: CronChild | None = None
    redelivery: Redelivery | None = None
    key: KeyMark | None = None
    empty_body: bool = False
    flow: Flow | None = None
    wire: str | None = None
    local_due: LocalDue | None = None
    overlap: str | None = None
    pauses: bool = False
    notice: bool = False
    trace: TraceMark | None = None
    ack: Ack | None = None
    word: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    succeed_within_seconds: float | None = None

    def at_most_once(self, settings: ClientSettings) -> bool:
        """Whether a call that may have been sent is never sent again."""
        return settings.in_doubt == "drop" and not self.notice

    def retry_settings(self, settings: RetrySettings) -> RetrySettings:
        """The retry policy of this schedule."""
        return settings if self.retry is None else self.retry.over(settings)

    def attempts_counted(self, attempts: int) -> int:
        """How many of the attempts count for the retry policy: a redelivery begins again at 0."""
        return attempts if self.redelivery is None else attempts - self.redelivery.attempts

    def deadline_from(self, due: int, first_attempt_at: int | None, *, row_due: int = 0) -> int:
        """The instant that the retry deadline counts from. Neither a late first attempt uses up the retries, nor the
        time that a receiver takes for acknowledged work: there it counts from the attempt's own instant, which is
        `row_due`."""
        if self.ack is not None:
            return row_due
        return self.redelivery.at if self.redelivery is not None else max(due, first_attempt_at or 0)

    def skip_after_ms(self, late_policy: LatePolicy) -> int | None:
        """Milliseconds after the due beyond which the first attempt is skipped; None: it is made however late."""
        if self.redelivery is not None:
            return None
        if self.skip_after_seconds is not None:
            return round(self.skip_after_seconds * 1000)
        return round(late_policy.after_seconds * 1000) if late_policy.kind == "skip" else None


NO_OPTIONS = ScheduleOptions()
NO_OPTIONS_TEXT = "{}"
"""The text of no options."""
NO_HEADERS = "[]"
"""The text of no headers."""
_encode = msgspec.json.Encoder().encode
_decode_options = msgspec.json.Decoder(ScheduleOptions).decode
_decode_headers = msgspec.json.Decoder(Headers).decode


def encode_options(options: ScheduleOptions) -> str:
    return NO_OPTIONS_TEXT if options == NO_OPTIONS else _encode(options).decode()


def decode_options(text: str | None) -> ScheduleOptions:
    """Raises Undecodable."""
    if not text or text == NO_OPTIONS_TEXT:
        return NO_OPTIONS
    try:
        return _decode_options(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Undecodable("the schedule's options can't be decoded") from error


def with_trace(options: str, mark: TraceMark) -> str:
    """The options of a schedule without a trace, with this one."""
    before = "{" if options == NO_OPTIONS_TEXT else f"{options[:-1]},"
    return f'{before}"trace":{_encode(mark).decode()}}}'


def trace_of(options: str | None) -> TraceMark | None:
    """The trace that a create brought; None also for options that can't be decoded."""
    try:
        return decode_options(options).trace
    except Undecodable:
        return None


def with_trace_of(options: str, stored: str | None) -> str:
    """The options of a schedule with the trace of those stored, whatever trace they have. Those that can't be
    decoded have none."""
    if options == stored:
        return options
    return encode_options(msgspec.structs.replace(decode_options(options), trace=trace_of(stored)))


class _FlowOnly(msgspec.Struct, frozen=True, gc=False):
    flow: Flow | None = None


class _TimeoutOnly(msgspec.Struct, frozen=True, gc=False):
    timeout_seconds: float | None = None


_TIMEOUT_MARK = '"timeout_seconds":'
_decode_timeout = msgspec.json.Decoder(_TimeoutOnly).decode
_FLOW_MARK = '"flow":'
_decode_flow = msgspec.json.Decoder(_FlowOnly).decode


def says_flow(options: str | None) -> bool:
    """Whether a row's options may have a flow key; mostly False without decoding them."""
    return options is not None and _FLOW_MARK in options


_TOLD_MARK = '"on_'


def original_kind(options: str | None) -> Kind:
    """The kind of a schedule's original row with these options."""
    return Kind.TOLD if says_told(options) else Kind.CALL


_OVERLAP_MARK = '"overlap"'
_WAITS_MARK = '"overlap":"buffer_all"'


def may_yield(options: str | None) -> bool:
    """Whether a run with these options may give way to another one, instead of waiting for it; without decoding
    them."""
    return options is not None and _OVERLAP_MARK in options and _WAITS_MARK not in options


def says_told(options: str | None) -> bool:
    """Whether an end of a row with these options may be told to a receiver of its own; mostly False without decoding
    them. `tells_of` decides."""
    return options is not None and _TOLD_MARK in options


def tells_of(options: str | None, state: State) -> str | None:
    """Where this end of a row is told. Options that can't be decoded say nothing: their row fails."""
    if not says_told(options) or state not in (State.DELIVERED, State.FAILED):
        return None
    try:
        decoded = decode_options(options)
    except Undecodable:
        return None
    return decoded.on_success if state is State.DELIVERED else decoded.on_failure


def flow_of(options: str | None) -> Flow | None:
    """The flow key of a row. Options that can't be decoded have none: their row fails when it is due."""
    if options is None or _FLOW_MARK not in options:
        return None
    try:
        return _decode_flow(options).flow
    except (msgspec.DecodeError, RecursionError):
        return None


def timeout_of(options: str | None) -> float | None:
    """A row's own time-out. Options that can't be decoded have none: their row fails when it is due."""
    if options is None or _TIMEOUT_MARK not in options:
        return None
    try:
        return _decode_timeout(options).timeout_seconds
    except (msgspec.DecodeError, RecursionError):
        return None


def pin_of(options: str | None, ordering_key: str | None) -> str | None:
    """The name that decides the poller of a row: its flow key, else its ordering key; None: the choice is free."""
    flow = flow_of(options)
    return ordering_key if flow is None else flow.key


def encode_headers(headers: Iterable[tuple[str, str]]) -> str:
    pairs = tuple(headers)
    return _encode(pairs).decode() if pairs else NO_HEADERS


def decode_headers(text: str | None) -> Headers:
    """Raises Undecodable."""
    if not text or text == NO_HEADERS:
        return ()
    try:
        return _decode_headers(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Undecodable("the schedule's headers can't be decoded") from error
