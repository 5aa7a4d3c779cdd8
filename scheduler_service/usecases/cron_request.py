"""The request to create or replace a cron, and every rule that it must satisfy. Pure.

`draft_cron` turns a `CronRequest` into what is stored or raises with every fault. The callback is judged as that of a
schedule is.
"""

from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from scheduler_service.domain.client_bounds import UNBOUND, ClientBounds
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.crons import (
    DEFAULT_DIALECT,
    Dialect,
    Dst,
    InvalidRule,
    Rule,
    in_words,
    load_zone,
    read_in_dialect,
)
from scheduler_service.domain.crons.occurrences import Fold, Gap
from scheduler_service.domain.crons.row import DEFAULT_CATCH_UP_SECONDS, CronCallback, CronOptions, CronSource
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.instants import read_instant
from scheduler_service.domain.options import RetryOverride, encode_headers
from scheduler_service.domain.spread import MAX_SPREAD_SECONDS
from scheduler_service.usecases.named_destinations import CheckDestination, no_such_destination
from scheduler_service.usecases.schedule_request import (
    CallbackRequest,
    CheckUrl,
    Instant,
    Name,
    TimeoutSeconds,
    asked_flow,
    asked_retry,
    asks_for_empty_body,
    draft_callback,
)

T = TypeVar("T")

MAX_FIRES = 1_000_000
MAX_CATCH_UP_SECONDS = 604_800
MAX_NOTE = 500
MAX_PREVIEWED = 100
DEFAULT_PREVIEWED = 5


class CronDraft(NamedTuple):
    """A valid rule and a valid callback."""

    expression: str
    timezone: str
    callback: CronCallback
    options: CronOptions


class DstRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do with fixed times of day that a change of clocks skips (`gap`) or repeats (`fold`)."""

    gap: Gap = "shift"
    fold: Fold = "first"


class CronRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule and the call to make at each of its fires.

    `expression` is read in its `dialect` and in `timezone` (an IANA name): five fields, if no dialect is given. It
    fires from `starts_at` to before `ends_at` (RFC 3339 with an offset), `max_fires` times at most. Each fire is
    delayed by up to `spread_seconds`, always by the same time for one cron. Fires missed by more than
    `catch_up_seconds` are skipped. `overlap` skip: a fire is skipped while the previous one has not ended. Runs have
    its `ordering_key`, as schedules do.
    """

    expression: str
    timezone: str
    callback: CallbackRequest
    dialect: Dialect = DEFAULT_DIALECT
    starts_at: Instant | None = None
    ends_at: Instant | None = None
    max_fires: Annotated[int, Meta(ge=1, le=MAX_FIRES)] | None = None
    spread_seconds: Annotated[int, Meta(ge=0, le=MAX_SPREAD_SECONDS)] = 0
    catch_up_seconds: Annotated[float, Meta(ge=0, le=MAX_CATCH_UP_SECONDS)] = DEFAULT_CATCH_UP_SECONDS
    overlap: Literal["allow", "skip"] = "allow"
    dst: DstRequest = DstRequest()
    retry: RetryOverride | None = None
    timeout_seconds: TimeoutSeconds | None = None
    label: Name | None = None
    ordering_key: Name | None = None


Note = Annotated[str, Meta(min_length=1, max_length=MAX_NOTE)]


class PauseRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why it is paused: shown with the cron until it is resumed, and recorded in the audit log. Left out, a note that
    it has stays."""

    note: Note | None = None


class PreviewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule to be tried out: its first `count` fires at `from` (now) or later."""

    expression: str
    timezone: str
    dialect: Dialect = DEFAULT_DIALECT
    dst: DstRequest = DstRequest()
    start: Instant | None = msgspec.field(default=None, name="from")
    count: Annotated[int, Meta(ge=1, le=MAX_PREVIEWED)] = DEFAULT_PREVIEWED


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """`expression` as it is shown in its dialect, `rule` the canonical text, `words` an English sentence, `next_fires`
    nominal instants."""

    expression: str
    dialect: Dialect
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
) -> CronDraft:
    """What to store for a request made at `now` (Unix milliseconds) by a client with `settings` in force. Raises
    Invalid with every fault."""
    faults: list[FieldError] = []
    rule = _rule(
        request,
        faults,
        starts_at=read_instant(request.starts_at, "/starts_at", faults),
        ends_at=read_instant(request.ends_at, "/ends_at", faults),
        now=now,
    )
    callback = request.callback
    headers, body = draft_callback(
        callback, settings=settings, check_url=check_url, faults=faults, check_destination=check_destination
    )
    faults += bounds.faults_of_schedule(request.retry, request.timeout_seconds)
    if faults or rule is None:
        raise Invalid(faults)
    method, url = callback.stored_target
    return CronDraft(
        expression=rule.expression.text,
        timezone=rule.timezone,
        callback=CronCallback(method=method, url=url, headers=encode_headers(headers), body=body),
        options=CronOptions(
            starts_at=rule.starts_at,
            ends_at=rule.ends_at,
            max_fires=request.max_fires,
            spread_seconds=request.spread_seconds,
            catch_up_seconds=request.catch_up_seconds,
            overlap=request.overlap,
            gap=request.dst.gap,
            fold=request.dst.fold,
            retry=asked_retry(request.retry),
            timeout_seconds=request.timeout_seconds,
            label=request.label,
            empty_body=asks_for_empty_body(callback),
            flow=asked_flow(callback),
            ordering_key=request.ordering_key,
            source=_source(request),
        ),
    )


def preview(request: PreviewRequest, *, now: int) -> Preview:
    """The fires of a rule, asked for at `now` (Unix milliseconds). Raises Invalid with every fault."""
    faults: list[FieldError] = []
    start = read_instant(request.start, "/from", faults)
    after = (now if start is None else start) - 1
    rule = _rule(request, faults, starts_at=None, ends_at=None, now=after)
    if faults or rule is None:
        raise Invalid(faults)
    return Preview(
        expression=rule.expression.text if _source(request) is None else request.expression,
        dialect=request.dialect,
        rule=rule.expression.text,
        timezone=rule.timezone,
        words=in_words(rule.expression),
        next_fires=rule.next_fires(after, request.count),
    )


def _rule(
    request: CronRequest | PreviewRequest,
    faults: list[FieldError],
    *,
    starts_at: UnixMillis | None,
    ends_at: UnixMillis | None,
    now: int,
) -> Rule | None:
    """None where there is a fault. Whether a rule ever fires is checked only if all its parts are valid."""
    expression = _judged(lambda: read_in_dialect(request.expression, request.dialect), faults)
    zone = _judged(lambda: load_zone(request.timezone), faults)
    if starts_at is not None and ends_at is not None and ends_at <= starts_at:
        faults.append(FieldError("/ends_at", "must be later than starts_at"))
    if faults or expression is None or zone is None:
        return None
    rule = _judged(
        lambda: Rule(
            expression=expression,
            timezone=request.timezone,
            dst=Dst(gap=request.dst.gap, fold=request.dst.fold),
            starts_at=starts_at,
            ends_at=ends_at,
            spread_seconds=request.spread_seconds if isinstance(request, CronRequest) else 0,
        ),
        faults,
    )
    if rule is not None:
        _judged(lambda: rule.check(now), faults)
    return rule


def _source(request: CronRequest | PreviewRequest) -> CronSource | None:
    """None where the canonical text is one of the dialect, too."""
    if request.dialect in (DEFAULT_DIALECT, "minutehand"):
        return None
    return CronSource(request.dialect, request.expression)


def _judged(make: Callable[[], T], faults: list[FieldError]) -> T | None:
    try:
        return make()
    except InvalidRule as error:
        faults.append(FieldError(f"/{error.field}", error.reason))
        return None
