"""The views of schedules, attempts and dead letters."""

from collections.abc import Collection, Iterable
from typing import Final
from uuid import UUID

import msgspec
from msgspec import UNSET

from scheduler_service.api.http.query import CursorText
from scheduler_service.api.schemas import (
    CallbackView,
    Instant,
    ScheduleReason,
    ScheduleView,
)
from scheduler_service.domain.acknowledgements import KeptWord, WordName
from scheduler_service.domain.attempts import AttemptShown
from scheduler_service.domain.books import LetterKey
from scheduler_service.domain.crons.row import CronCallback, CronOptions
from scheduler_service.domain.destinations import read_named_url
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId, poller_of
from scheduler_service.domain.instants import format_instant, format_instant_or_none
from scheduler_service.domain.options import (
    NO_HEADERS,
    NO_OPTIONS,
    NO_OPTIONS_TEXT,
    ScheduleOptions,
    Undecodable,
    decode_headers,
    decode_options,
)
from scheduler_service.domain.ports import SecretEncryption
from scheduler_service.domain.schedules import Definition, Row, State
from scheduler_service.domain.success_deadlines import deadline_of
from scheduler_service.domain.trial_calls import Exchange, Preview
from scheduler_service.domain.verbs import SNOOZED
from scheduler_service.usecases.dead_letters import LetterShown

MASKED_HEADERS: Final = frozenset({"authorization", "cookie", "proxy-authorization", "set-cookie"})
MASK: Final = "***"
_SCHEDULED: Final = State.SCHEDULED.value
_TO_SECONDS: Final = len("2026-11-21T09:30:")

EXPIRED = "expired"
"""The state shown for a schedule that retention has deleted."""


def created_schedule_view(definition: Definition, encryption: SecretEncryption) -> ScheduleView:
    """The view of a schedule that was just stored and has no outcome."""
    return _schedule_view(definition.client_id, definition, encryption, outcome=None, in_flight=False)


def schedule_view(client_id: ClientId, row: Row, encryption: SecretEncryption, *, in_flight: bool) -> ScheduleView:
    """The view of an original row that has its definition."""
    return _schedule_view(
        client_id, row, encryption, outcome=row if row.state is not None else None, in_flight=in_flight
    )


def _schedule_view(
    client_id: ClientId, source: Definition | Row, encryption: SecretEncryption, *, outcome: Row | None, in_flight: bool
) -> ScheduleView:
    due = format_instant(source.due)
    options = NO_OPTIONS if source.options == NO_OPTIONS_TEXT else _options(source.options)
    key, nominal_due = options.key, source.nominal_due
    state = _SCHEDULED if outcome is None or outcome.state is None else outcome.shown_state.value
    next_attempt_at = format_instant_or_none(outcome.next_attempt_at) if outcome is not None else due
    return ScheduleView(
        schedule_id=source.schedule_id,
        client_id=client_id,
        poller_id=poller_of(source.schedule_id),
        minute=f"{due[:_TO_SECONDS]}00.000Z",
        due=due,
        nominal_due=None if nominal_due is None or nominal_due == source.due else format_instant(nominal_due),
        state=state,
        in_flight=in_flight,
        attempts=(outcome.attempts or 0) if outcome is not None else 0,
        next_attempt_at=next_attempt_at,
        first_attempt_at=format_instant_or_none(outcome.first_attempt_at) if outcome is not None else None,
        finished_at=format_instant_or_none(outcome.finished_at) if outcome is not None else None,
        last_status=outcome.last_status if outcome is not None else None,
        last_error=outcome.last_error if outcome is not None else None,
        reason=outcome.reason if outcome is not None else None,
        callback=callback_view(client_id, source, encryption, options),
        label=source.label,
        ordering_key=source.ordering_key,
        key=None if key is None else key.name,
        latest=None if key is None else format_instant_or_none(key.latest),
        retry=options.retry,
        timeout_seconds=options.timeout_seconds,
        skip_after_seconds=options.skip_after_seconds,
        on_success=end_receiver(options.on_success),
        on_failure=end_receiver(options.on_failure),
        succeed_by=format_instant_or_none(deadline_of(source.options, due=source.due)),
        cron_id=source.cron_id,
        rescheduled_from=source.rescheduled_from,
        rescheduled_to=outcome.rescheduled_to if outcome is not None else None,
        redelivered_at=format_instant_or_none(outcome.redelivered_at) if outcome is not None else None,
        created_at=format_instant(source.created_at or 0),
    )


def end_receiver(url: str | None) -> str | None:
    """Who is told of an end, as it was asked for."""
    named = None if url is None else read_named_url(url)
    return url if named is None else named.name


def callback_view(
    client_id: ClientId,
    source: Definition | Row | CronCallback,
    encryption: SecretEncryption,
    options: ScheduleOptions | CronOptions,
) -> CallbackView:
    """A stored callback with its credentials masked. Without a body, unless one was asked to be empty, it has none."""
    body, url, method = source.body or b"", source.url or "", source.method or ""
    headers: dict[str, str] | None = {}
    if source.headers != NO_HEADERS:
        try:
            headers = masked(decode_headers(encryption.open_headers(client_id, source.headers or "")))
        except SecretLocked:
            headers = None
        except Undecodable:
            # Content that can't be unpacked has the whole blob as its body (`cql.packed`), credentials included.
            headers, body = None, b""
    if (named := read_named_url(url)) is None:
        view = CallbackView(url=url, method=method, headers=headers)
    else:
        path = named.path or UNSET
        view = CallbackView(destination=named.name, path=path, method=method or UNSET, headers=headers)
    if body or options.empty_body:
        _show_body(view, body)
    if (flow := options.flow) is not None:
        view.flow_key = flow.key
        view.flow_rate = UNSET if flow.rate is None else flow.rate
        view.flow_parallelism = UNSET if flow.parallelism is None else flow.parallelism
    if options.ack is not None:
        view.ack = options.ack
    return view


def request_view(request: Exchange | Preview) -> CallbackView:
    """A request as it is sent, with its credentials masked."""
    view = CallbackView(url=request.url, method=request.method, headers=masked(request.headers, request.hidden))
    _show_body(view, request.body)
    return view


def _show_body(view: CallbackView, body: bytes) -> None:
    try:
        view.body = body.decode()
    except UnicodeDecodeError:
        view.body_base64 = body


def masked(headers: Iterable[tuple[str, str]], hidden: Collection[str] = ()) -> dict[str, str]:
    """Headers with their credentials masked, and those that are `hidden`; repeated ones are joined by commas."""
    shown: dict[str, str] = {}
    for name, value in headers:
        if (lower := name.lower()) in MASKED_HEADERS or lower in hidden:
            shown[name] = MASK
        else:
            shown[name] = f"{shown[name]}, {value}" if name in shown else value
    return shown


def _options(text: str | None) -> ScheduleOptions:
    try:
        return decode_options(text)
    except Undecodable:
        return NO_OPTIONS


class AcknowledgementView(msgspec.Struct, frozen=True, kw_only=True):
    """What a receiver said later of an attempt: `result` is done, failed or extend; `data` is its JSON, null if there
    was none."""

    result: WordName
    at: Instant
    reason: str | None
    data: msgspec.Raw


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. `outcome` is delivered, failed, snoozed, or awaiting while its receiver has yet to say. `excerpt` is
    the beginning of the receiver's answer to a failed attempt; where `status` is null, as for every call to a topic, it
    is a sentence that says why, and `error` a stable word. `verb` is what the receiver asked for in the headers of its
    answer (not-again, snooze or stop-cron), and `verb_ignored` why that was not obeyed. `acknowledgement`: the last
    that the receiver said after it had answered 202, null if nothing. A field is null if it was not recorded."""

    attempt: int
    outcome: str
    started_at: Instant | None
    finished_at: Instant | None
    duration_seconds: float | None
    status: int | None
    error: str | None
    excerpt: str | None
    verb: str | None
    verb_ignored: str | None
    acknowledgement: AcknowledgementView | None


class LetterView(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that failed for good at `failed_at`, and why. `letter_id` names this failure in requests. `state` is
    its present state, or expired if the schedule was deleted. `host` is that of its URL, unless its call names a
    `destination`; older nodes' letters have neither.
    `acknowledged_by`: the id of a key, or the name of an administrator."""

    letter_id: str
    schedule_id: UUID
    failed_at: Instant
    reason: ScheduleReason
    last_status: int | None
    last_error: str | None
    attempts: int
    state: str
    label: str | None
    host: str | None
    destination: str | None
    acknowledged_at: Instant | None
    acknowledged_by: str | None


class RedrivenItemView(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one letter. `status`: 202 its schedule is called again; 404 it was deleted; 409 it is open or was
    redelivered since, and `state` is its present state; with the `reason` events-gone, it is a notice whose events are
    not kept any more."""

    letter_id: str
    status: int
    state: str | None
    reason: str | None = None


class RedrivenView(msgspec.Struct, frozen=True, kw_only=True):
    """How many schedules are redelivered, and how many letters were skipped because their schedules were deleted or
    redelivered since, or their notices have nothing to tell any more. `next_cursor` null: there are no more."""

    redelivered: int
    passed_over: int
    items: list[RedrivenItemView]
    next_cursor: CursorText | None


class AcknowledgedItemView(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one letter. `status`: 200 it is acknowledged, by whom and when; 404 there is no such letter."""

    letter_id: str
    status: int
    acknowledged_at: Instant | None = None
    acknowledged_by: str | None = None


class AcknowledgedView(msgspec.Struct, frozen=True, kw_only=True):
    """How many letters this request has acknowledged, and the result for each, also of those that were acknowledged
    before. `next_cursor` null: there are no more."""

    acknowledged: int
    items: list[AcknowledgedItemView]
    next_cursor: CursorText | None


def letter_id(key: LetterKey) -> str:
    return f"{key.schedule_id}@{key.failed_at}"


def attempt_view(attempt: AttemptShown) -> AttemptView:
    return AttemptView(
        attempt=attempt.attempt,
        outcome=_outcome_of(attempt),
        started_at=format_instant_or_none(attempt.started_at),
        finished_at=format_instant_or_none(attempt.finished_at),
        duration_seconds=None if attempt.duration_ms is None else attempt.duration_ms / 1000,
        status=attempt.status,
        error=attempt.error,
        excerpt=attempt.excerpt,
        verb=attempt.verb,
        verb_ignored=attempt.verb_ignored,
        acknowledgement=None if attempt.word is None else _acknowledgement_view(attempt.word),
    )


def _acknowledgement_view(word: KeptWord) -> AcknowledgementView:
    return AcknowledgementView(
        result=word.result,
        at=format_instant(word.at),
        reason=word.reason,
        data=msgspec.Raw(word.data or b"null"),
    )


def _outcome_of(attempt: AttemptShown) -> str:
    if attempt.snoozed:
        return SNOOZED
    return attempt.state.value


def letter_view(shown: LetterShown) -> LetterView:
    letter, row = shown.letter, shown.row
    return LetterView(
        letter_id=letter_id(letter.key),
        schedule_id=letter.schedule_id,
        failed_at=format_instant(letter.failed_at),
        reason=letter.reason,
        last_status=letter.last_status,
        last_error=letter.last_error,
        attempts=letter.attempts,
        state=EXPIRED if row is None else row.shown_state.value,
        label=row.label if letter.label is None and row is not None else letter.label,
        host=letter.host,
        destination=letter.destination,
        acknowledged_at=format_instant_or_none(letter.acknowledged_at),
        acknowledged_by=letter.acknowledged_by,
    )
