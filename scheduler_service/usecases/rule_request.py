"""The part of a request that says when a cron fires: texts in a dialect, days off, and a zone. Pure."""

from collections.abc import Callable
from typing import Annotated, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from scheduler_service.domain.crons import (
    DEFAULT_DIALECT,
    Calendar,
    Dialect,
    Dst,
    InvalidRule,
    Member,
    Recurrence,
    Rule,
    Written,
    anchored,
    calendar_faults,
    compose,
    load_zone,
    read_in_dialect,
    written_of_canonical,
)
from scheduler_service.domain.crons.calendars import checked
from scheduler_service.domain.crons.compound import MAX_EXCLUDED, MAX_MEMBERS, anchor_second
from scheduler_service.domain.crons.dst import Fold, Gap
from scheduler_service.domain.crons.row import CronSource
from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.ids import UnixMillis

T = TypeVar("T")


class DstRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do with fixed times of day that a change of clocks skips (`gap`) or repeats (`fold`)."""

    gap: Gap = "shift"
    fold: Fold = "first"


class RuleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`expression` and those in `also` and `excluding` are read in `dialect` (without one: five fields, as cronie reads
    them) and in `timezone` (an IANA name). It fires when `expression` or one of `also` does, except at minutes that one
    of `excluding` matches, and on days off as `calendar` says."""

    expression: str
    timezone: str
    dialect: Dialect = DEFAULT_DIALECT
    also: Annotated[tuple[str, ...], Meta(max_length=MAX_MEMBERS - 1)] = ()
    excluding: Annotated[tuple[str, ...], Meta(max_length=MAX_EXCLUDED)] = ()
    calendar: Calendar | None = None
    dst: DstRequest = DstRequest()


class JudgedRule(NamedTuple):
    """`recurrence` is what is stored: its intervals may have no anchor yet."""

    recurrence: Recurrence
    rule: Rule


def judge_rule(
    request: RuleRequest,
    faults: list[FieldError],
    *,
    now: int,
    counted_from: int,
    starts_at: UnixMillis | None = None,
    ends_at: UnixMillis | None = None,
    spread_seconds: int = 0,
) -> JudgedRule | None:
    """None where there is a fault. Whether a rule ever fires after `now` is checked only if all its parts are valid.
    `counted_from`: the anchor of its intervals (Unix milliseconds)."""
    recurrence = _recurrence(request, faults)
    zone = _judged(lambda: load_zone(request.timezone), faults)
    if starts_at is not None and ends_at is not None and ends_at <= starts_at:
        faults.append(FieldError("/ends_at", "must be later than starts_at"))
    if faults or recurrence is None or zone is None:
        return None
    rule = _judged(
        lambda: Rule(
            expression=anchored(recurrence, anchor_second(starts_at, counted_from)),
            timezone=request.timezone,
            dst=Dst(gap=request.dst.gap, fold=request.dst.fold),
            starts_at=starts_at,
            ends_at=ends_at,
            spread_seconds=spread_seconds,
        ),
        faults,
    )
    if rule is None:
        return None
    _judged(lambda: rule.check(now), faults)
    return JudgedRule(recurrence, rule)


def source_of(request: RuleRequest) -> CronSource | None:
    """None where the canonical text says it in the dialect, too."""
    if request.dialect in (DEFAULT_DIALECT, "minutehand"):
        return None
    return CronSource(request.dialect, request.expression, request.also, request.excluding)


def written_by(rule: str, source: CronSource | None) -> Written:
    """How a rule is shown: as it was written, or by its canonical text."""
    if source is None:
        return written_of_canonical(rule)
    return Written(source.dialect, source.expression, source.also, source.excluding)


def _recurrence(request: RuleRequest, faults: list[FieldError]) -> Recurrence | None:
    before = len(faults)
    members = _read(request, (request.expression,), lambda place: "/expression", faults)
    members += _read(request, request.also, lambda place: f"/also/{place}", faults)
    excluding = _read(request, request.excluding, lambda place: f"/excluding/{place}", faults)
    calendar = request.calendar
    if calendar is not None:
        wrong = calendar_faults(calendar)
        faults += (FieldError(f"/{fault.field}", fault.reason) for fault in wrong)
        calendar = None if wrong else checked(calendar)
    if len(faults) > before:
        return None
    return _judged(lambda: compose(members, excluding, calendar), faults)


def _read(
    request: RuleRequest, texts: tuple[str, ...], pointer: Callable[[int], str], faults: list[FieldError]
) -> tuple[Member, ...]:
    found: list[Member] = []
    for place, text in enumerate(texts):
        try:
            found.append(read_in_dialect(text, request.dialect))
        except InvalidRule as error:
            faults.append(FieldError(pointer(place), error.reason))
    return tuple(found)


def _judged(make: Callable[[], T], faults: list[FieldError]) -> T | None:
    try:
        return make()
    except InvalidRule as error:
        faults.append(FieldError(f"/{error.field}", error.reason))
        return None
