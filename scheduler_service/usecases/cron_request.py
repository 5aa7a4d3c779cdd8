"""The request to create or replace a cron, and every rule that it must satisfy. Pure.

`draft_cron` turns a `CronRequest` into what is stored or raises with every fault. The callback is judged as that of a
schedule is.
"""

from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from scheduler_service.domain.client_bounds import UNBOUND, ClientBounds
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.crons import Calendar, Written, in_words
from scheduler_service.domain.crons.row import DEFAULT_CATCH_UP_SECONDS, CronCallback, CronOptions, Overlap
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.instants import read_instant
from scheduler_service.domain.options import RetryOverride, encode_headers, is_run_key
from scheduler_service.domain.spread import MAX_SPREAD_SECONDS
from scheduler_service.usecases.deadline_request import faults_of_deadline
from scheduler_service.usecases.end_receivers import stored_receiver
from scheduler_service.usecases.named_destinations import CheckDestination, no_such_destination
from scheduler_service.usecases.rule_request import RuleRequest, judge_rule, source_of, written_by
from scheduler_service.usecases.schedule_request import (
    CallbackRequest,
    CheckAck,
    CheckUrl,
    EndReceiver,
    Instant,
    Name,
    SucceedWithinSeconds,
    TimeoutSeconds,
    asked_flow,
    asked_retry,
    asks_for_empty_body,
    draft_callback,
    faults_of_ends,
    no_ack,
    reserved_key,
)

MAX_FIRES = 1_000_000
MAX_CATCH_UP_SECONDS = 604_800
MAX_NOTE = 500
MAX_FAILURES = 1_000
MAX_PREVIEWED = 100
DEFAULT_PREVIEWED = 5


class CronDraft(NamedTuple):
    """A valid rule and a valid callback."""

    expression: str
    timezone: str
    callback: CronCallback
    options: CronOptions


class CronRequest(RuleRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule and the call to make at each of its fires.

    It fires when `expression` or one of `also` does, which are read in `dialect` (without one: five fields, as cronie
    reads them) and in `timezone` (an IANA name); not at minutes that one of `excluding` matches, and on days off as
    `calendar` says. It fires from `starts_at` to before `ends_at` (RFC 3339 with an offset), `max_fires` times at most.
    Each fire is delayed by up to `spread_seconds`, always by the same time for one cron. Fires missed by more than
    `catch_up_seconds` are skipped. `overlap` says what becomes of a run that is due while an
    earlier one has not ended: allow, skip, buffer_one, buffer_all or cancel_other. Runs have
    its `ordering_key`, as schedules do. After `pause_after_failures` failed runs in a row it is paused.
    `on_success` and `on_failure` are those of its runs, as schedules have them. The event `schedule.overdue`
    tells of each run that was not delivered within `succeed_within_seconds` of its due.
    """

    callback: CallbackRequest
    starts_at: Instant | None = None
    ends_at: Instant | None = None
    max_fires: Annotated[int, Meta(ge=1, le=MAX_FIRES)] | None = None
    spread_seconds: Annotated[int, Meta(ge=0, le=MAX_SPREAD_SECONDS)] = 0
    catch_up_seconds: Annotated[float, Meta(ge=0, le=MAX_CATCH_UP_SECONDS)] = DEFAULT_CATCH_UP_SECONDS
    overlap: Overlap = "allow"
    retry: RetryOverride | None = None
    timeout_seconds: TimeoutSeconds | None = None
    label: Name | None = None
    ordering_key: Name | None = None
    pause_after_failures: Annotated[int, Meta(ge=1, le=MAX_FAILURES)] | None = None
    on_success: EndReceiver | None = None
    on_failure: EndReceiver | None = None
    succeed_within_seconds: SucceedWithinSeconds | None = None


Note = Annotated[str, Meta(min_length=1, max_length=MAX_NOTE)]


class PauseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why it is paused: shown with the cron until it is resumed, and recorded in the audit log. Left out, a note that
    it has stays."""

    note: Note | None = None


class PreviewRequest(RuleRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule to be tried out: its first `count` fires at `from` (now) or later. An interval counts from there."""

    start: Instant | None = msgspec.field(default=None, name="from")
    count: Annotated[int, Meta(ge=1, le=MAX_PREVIEWED)] = DEFAULT_PREVIEWED


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """`written` is the rule as it is shown in its dialect, `rule` the canonical text, `words` an English sentence,
    `next_fires` nominal instants."""

    written: Written
    calendar: Calendar | None
    rule: str
    timezone: str
    words: str
    next_fires: list[UnixMillis]


def draft_cron(
    request: CronRequest,
    *,
    settings: ClientSettings,
    check_url: CheckUrl,
    now: int,
    bounds: ClientBounds = UNBOUND,
    check_destination: CheckDestination = no_such_destination,
    check_ack: CheckAck = no_ack,
) -> CronDraft:
    """What to store for a request made at `now` (Unix milliseconds) by a client with `settings` in force. Raises
    Invalid with every fault."""
    faults: list[FieldError] = []
    judged = judge_rule(
        request,
        faults,
        starts_at=read_instant(request.starts_at, "/starts_at", faults),
        ends_at=read_instant(request.ends_at, "/ends_at", faults),
        spread_seconds=request.spread_seconds,
        now=now,
        counted_from=now,
    )
    callback = request.callback
    headers, body = draft_callback(
        callback,
        settings=settings,
        check_url=check_url,
        faults=faults,
        check_destination=check_destination,
        check_ack=check_ack,
    )
    faults += bounds.faults_of_schedule(request.retry, request.timeout_seconds)
    faults += faults_of_ends(request, check_url, check_destination)
    if request.succeed_within_seconds is not None:
        faults += faults_of_deadline(settings, request.succeed_within_seconds)
    if is_run_key(request.ordering_key):
        faults.append(reserved_key())
    elif request.ordering_key is not None and request.overlap != "allow":
        faults.append(FieldError("/overlap", "must be allow with an ordering_key: runs of one key wait for each other"))
    if faults or judged is None:
        raise Invalid(faults)
    method, url = callback.stored_call
    recurrence, rule = judged
    return CronDraft(
        expression=recurrence.text,
        timezone=rule.timezone,
        callback=CronCallback(method=method, url=url, headers=encode_headers(headers), body=body),
        options=CronOptions(
            starts_at=rule.starts_at,
            ends_at=rule.ends_at,
            max_fires=request.max_fires,
            spread_seconds=request.spread_seconds,
            catch_up_seconds=request.catch_up_seconds,
            overlap="allow" if request.overlap == "allow" else "skip",
            waits=request.overlap if request.overlap in ("buffer_one", "buffer_all", "cancel_other") else None,
            gap=request.dst.gap,
            fold=request.dst.fold,
            retry=asked_retry(request.retry),
            timeout_seconds=request.timeout_seconds,
            label=request.label,
            empty_body=asks_for_empty_body(callback),
            flow=asked_flow(callback),
            ordering_key=request.ordering_key,
            pause_after_failures=request.pause_after_failures,
            succeed_within_seconds=request.succeed_within_seconds,
            source=source_of(request),
            wire=callback.wire,
            ack=callback.ack,
            on_success=stored_receiver(request.on_success),
            on_failure=stored_receiver(request.on_failure),
        ),
    )


def preview(request: PreviewRequest, *, now: int) -> Preview:
    """The fires of a rule, asked for at `now` (Unix milliseconds). Raises Invalid with every fault."""
    faults: list[FieldError] = []
    start = read_instant(request.start, "/from", faults)
    after = (now if start is None else start) - 1
    judged = judge_rule(request, faults, counted_from=after + 1, now=after)
    if faults or judged is None:
        raise Invalid(faults)
    recurrence, rule = judged
    return Preview(
        written=written_by(recurrence.text, source_of(request)),
        calendar=request.calendar,
        rule=recurrence.text,
        timezone=rule.timezone,
        words=in_words(recurrence),
        next_fires=rule.next_fires(after, request.count),
    )
