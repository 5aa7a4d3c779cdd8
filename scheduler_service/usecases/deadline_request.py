"""The part of a request that says by when a schedule is to be delivered. Pure."""

from typing import Protocol

from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.deadlines import MAX_WITHIN_SECONDS
from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.instants import format_instant, parse_instant


class AsksDeadline(Protocol):
    """A request that may have a success deadline."""

    @property
    def succeed_within_seconds(self) -> float | None: ...

    @property
    def succeed_by(self) -> str | None: ...


def faults_of_deadline(settings: ClientSettings) -> list[FieldError]:
    """Of a request with a success deadline."""
    if settings.event_feed:
        return []
    how = "switch the client's setting event_feed on (PATCH .../settings)"
    return [FieldError("/succeed_within_seconds", f"is told as an event, and this client has no feed of events: {how}")]


def faults_of_succeed_by(request: AsksDeadline, due: int) -> list[FieldError]:
    if request.succeed_by is None:
        return []
    if request.succeed_within_seconds is not None:
        return [FieldError("/succeed_by", "give at most one of succeed_by and succeed_within_seconds; both are given")]
    try:
        by = parse_instant(request.succeed_by)
    except ValueError as error:
        return [FieldError("/succeed_by", str(error))]
    if not 1_000 <= by - due <= MAX_WITHIN_SECONDS * 1000:
        days = MAX_WITHIN_SECONDS // 86_400
        return [FieldError("/succeed_by", f"must be from 1 second to {days} days after the due {format_instant(due)}")]
    return []


def stored_deadline(request: AsksDeadline, due: int) -> float | None:
    """What is stored: a deadline counts from the due."""
    if request.succeed_by is None:
        return request.succeed_within_seconds
    return (parse_instant(request.succeed_by) - due) / 1000.0
