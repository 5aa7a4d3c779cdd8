"""The views of crons, their runs and previews."""

from typing import Annotated, get_args

import msgspec
from msgspec import Meta

from scheduler_service.api.resources.schedule_views import callback_view, end_receiver
from scheduler_service.api.schemas import CallbackView, Instant, ScheduleReason
from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons import (
    Calendar,
    Compound,
    Dialect,
    InvalidRule,
    in_words,
    parse_recurrence,
)
from scheduler_service.domain.crons.expansion import next_fires
from scheduler_service.domain.crons.row import Cron, CronState
from scheduler_service.domain.ids import DAY_MS, UnixMillis
from scheduler_service.domain.instants import format_instant, format_instant_or_none
from scheduler_service.domain.options import RetryOverride
from scheduler_service.domain.ports import SecretEncryption
from scheduler_service.domain.schedules import Row, State
from scheduler_service.usecases.cron_request import Preview
from scheduler_service.usecases.rule_request import DstRequest, written_by
from scheduler_service.usecases.show_crons import RunShown

NEXT_FIRES = 5
DialectName = Annotated[str, Meta(extra_json_schema={"enum": list(get_args(Dialect))})]
PLANNED = "planned"
EXPIRED = "expired"
RUN_KINDS = ("scheduled", "triggered", "backfilled")


class PauseView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a cron is paused: since when, with what note. `by` request: somebody asked for it; failures: its last
    runs failed, as `pause_after_failures` says."""

    at: Instant
    by: Annotated[str, Meta(extra_json_schema={"enum": ["request", "failures"]})]
    note: str | None


class CronView(msgspec.Struct, frozen=True, kw_only=True):
    """A cron. `expression`, `also` and `excluding` are the rule in its `dialect`; `rule` is all of it in canonical
    form, `words` an English phrase (null if it can't be read any more). `next_fires`: the next nominal instants, empty
    unless `state` is active. `changed_at`: when this `revision` was made. `pause`: null unless `state` is paused.
    """

    cron_id: str
    client_id: str
    state: Annotated[str, Meta(extra_json_schema={"enum": list(CronState)})]
    revision: int
    expression: str
    dialect: DialectName
    also: tuple[str, ...]
    excluding: tuple[str, ...]
    calendar: Calendar | None
    rule: str
    timezone: str
    words: str | None
    next_fires: list[Instant]
    callback: CallbackView
    starts_at: Instant | None
    ends_at: Instant | None
    max_fires: int | None
    spread_seconds: int
    catch_up_seconds: float
    overlap: str
    dst: DstRequest
    retry: RetryOverride | None
    timeout_seconds: float | None
    label: str | None
    ordering_key: str | None
    pause_after_failures: int | None
    on_success: str | None
    on_failure: str | None
    succeed_within_seconds: float | None
    pause: PauseView | None
    created_at: Instant
    changed_at: Instant


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A fire of a cron, or a triggered run. `nominal_due` is the instant of the rule, `due` when it is called. `state`
    is that of the schedule; `planned` if there is none yet, `expired` if it was deleted. `kind`: scheduled by the
    rule, triggered, or backfilled, which a skipped fire is as well that was redelivered. `duration_seconds`: from the
    start of the first attempt to the end."""

    nominal_due: Instant
    due: Instant
    schedule_id: str | None
    state: Annotated[str, Meta(extra_json_schema={"enum": [PLANNED, *State, EXPIRED]})]
    attempts: int
    last_status: int | None
    last_error: str | None
    first_attempt_at: Instant | None
    finished_at: Instant | None
    duration_seconds: float | None
    reason: ScheduleReason
    kind: Annotated[str, Meta(extra_json_schema={"enum": list(RUN_KINDS)})]
    triggered: bool


class PreviewView(msgspec.Struct, frozen=True, kw_only=True):
    """A rule in its dialect, in canonical form and in words, with its first nominal instants."""

    expression: str
    dialect: DialectName
    also: tuple[str, ...]
    excluding: tuple[str, ...]
    calendar: Calendar | None
    rule: str
    timezone: str
    words: str
    next_fires: list[Instant]


def cron_view(cron: Cron, client: Client, encryption: SecretEncryption, *, now: int) -> CronView:
    options = cron.options
    written = written_by(cron.expression, options.source)
    words, fires = _rule(cron, now=now, retention_ms=client.settings.retention_days * DAY_MS)
    return CronView(
        cron_id=cron.cron_id,
        client_id=cron.client_id,
        state=cron.state.value,
        revision=cron.revision,
        expression=written.expression,
        dialect=written.dialect,
        also=written.also,
        excluding=written.excluding,
        calendar=_calendar(cron),
        rule=cron.expression,
        timezone=cron.timezone,
        words=words,
        next_fires=[format_instant(fire) for fire in fires],
        callback=callback_view(cron.client_id, cron.callback, encryption, options),
        starts_at=format_instant_or_none(options.starts_at),
        ends_at=format_instant_or_none(options.ends_at),
        max_fires=options.max_fires,
        spread_seconds=options.spread_seconds,
        catch_up_seconds=options.catch_up_seconds,
        overlap=options.policy,
        dst=DstRequest(gap=options.gap, fold=options.fold),
        retry=options.retry,
        timeout_seconds=options.timeout_seconds,
        label=options.label,
        ordering_key=options.ordering_key,
        pause_after_failures=options.pause_after_failures,
        on_success=end_receiver(options.on_success),
        on_failure=end_receiver(options.on_failure),
        succeed_within_seconds=options.succeed_within_seconds,
        pause=_pause_view(cron),
        created_at=format_instant(cron.created_at),
        changed_at=format_instant(cron.changed_at),
    )


def _pause_view(cron: Cron) -> PauseView | None:
    pause = cron.pause
    return None if pause is None else PauseView(at=format_instant(pause.at), by=pause.by, note=pause.note)


def run_view(run: RunShown) -> RunView:
    row = run.row
    unknown = PLANNED if run.schedule_id is None else EXPIRED
    return RunView(
        nominal_due=format_instant(run.nominal_due),
        due=format_instant(run.due),
        schedule_id=None if run.schedule_id is None else str(run.schedule_id),
        state=unknown if row is None else row.shown_state.value,
        attempts=0 if row is None else row.attempts or 0,
        last_status=None if row is None else row.last_status,
        last_error=None if row is None else row.last_error,
        first_attempt_at=None if row is None else format_instant_or_none(row.first_attempt_at),
        finished_at=None if row is None else format_instant_or_none(row.finished_at),
        duration_seconds=None if row is None else _duration_seconds(row),
        reason=None if row is None else row.reason,
        kind="triggered" if run.triggered else "backfilled" if row is not None and _backfilled(row) else "scheduled",
        triggered=run.triggered,
    )


def _duration_seconds(row: Row) -> float | None:
    if row.first_attempt_at is None or row.finished_at is None:
        return None
    return max(row.finished_at - row.first_attempt_at, 0) / 1000


def _backfilled(row: Row) -> bool:
    """Whether it was redelivered without having been called before."""
    return row.redelivered_at is not None and not row.redelivered_after


def preview_view(preview: Preview) -> PreviewView:
    return PreviewView(
        expression=preview.written.expression,
        dialect=preview.written.dialect,
        also=preview.written.also,
        excluding=preview.written.excluding,
        calendar=preview.calendar,
        rule=preview.rule,
        timezone=preview.timezone,
        words=preview.words,
        next_fires=[format_instant(fire) for fire in preview.next_fires],
    )


def _calendar(cron: Cron) -> Calendar | None:
    try:
        rule = parse_recurrence(cron.expression)
    except InvalidRule:
        return None
    return rule.calendar if isinstance(rule, Compound) else None


def _rule(cron: Cron, *, now: int, retention_ms: int) -> tuple[str | None, list[UnixMillis]]:
    """The words and the next fires of a rule, as far as this version can read it; another may have stored it."""
    words = None
    try:
        words = in_words(parse_recurrence(cron.expression))
        return words, next_fires(cron, now=now, count=NEXT_FIRES, retention_ms=retention_ms)
    except InvalidRule:
        return words, []
