"""The part of a request that says by when a schedule is to be delivered. Pure."""

from typing import Protocol

from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.ids import DAY_MS, HOUR_MS
from scheduler_service.domain.instants import format_instant, parse_instant
from scheduler_service.domain.success_deadlines import MAX_WITHIN_SECONDS


class AsksDeadline(Protocol):
    """A request that may have a success deadline."""

    @property
    def succeed_within_seconds(self) -> float | None: ...

    @property
    def succeed_by(self) -> str | None: ...


def faults_of_deadline(settings: ClientSettings, within_seconds: float | None) -> list[FieldError]:
    """Of a request with a success deadline; None: it is an instant."""
    if not settings.event_feed:
        how = "switch the client's setting event_feed on (PATCH .../settings)"
        what = f"is told as an event, and this client has no feed of events: {how}"
        return [FieldError("/succeed_within_seconds", what)]
    if within_seconds is not None and within_seconds * 1000 > longest_ms(settings):
        return [FieldError("/succeed_within_seconds", f"must be at most {_longest(settings)}")]
    return []


def longest_ms(settings: ClientSettings) -> int:
    """How long after its due a deadline may be: a schedule that has failed must still be there to be looked at."""
    return min(MAX_WITHIN_SECONDS * 1000, settings.retention_days * DAY_MS - HOUR_MS)


def _longest(settings: ClientSettings) -> str:
    seconds = longest_ms(settings) // 1000
    return f"{seconds} seconds: an hour less than the client's retention_days, and 30 days"


def faults_of_succeed_by(settings: ClientSettings, request: AsksDeadline, due: int) -> list[FieldError]:
    if request.succeed_by is None:
        return []
    if request.succeed_within_seconds is not None:
        return [FieldError("/succeed_by", "give at most one of succeed_by and succeed_within_seconds; both are given")]
    try:
        by = parse_instant(request.succeed_by)
    except ValueError as error:
        return [FieldError("/succeed_by", str(error))]
    if not 1_000 <= by - due <= longest_ms(settings):
        bounds = f"must be after the due {format_instant(due)} by at least 1 second and at most {_longest(settings)}"
        return [FieldError("/succeed_by", bounds)]
    return []


def stored_deadline(request: AsksDeadline, due: int) -> float | None:
    """What is stored: a deadline counts from the due."""
    if request.succeed_by is None:
        return request.succeed_within_seconds
    return (parse_instant(request.succeed_by) - due) / 1000.0
