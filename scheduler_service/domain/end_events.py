"""The event of the end of a schedule: what feeds and notices say of it."""

import msgspec

from scheduler_service.domain.events import OF_STATE, Event, id_of_end
from scheduler_service.domain.ids import UnixMillis, due_of
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.retry_rows import key_mark
from scheduler_service.domain.schedule_filters import destination_of
from scheduler_service.domain.schedules import Definition, Outcome


class EndData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of an event of a schedule's end. Instants are RFC 3339."""

    due: str
    attempts: int
    label: str | None = None
    key: str | None = None
    cron_id: str | None = None
    destination: str | None = None
    last_status: int | None = None
    last_error: str | None = None
    reason: str | None = None
    rescheduled_to: str | None = None


def event_of_end(definition: Definition, outcome: Outcome) -> Event:
    """The event of this end of a schedule, whose row is the original or the retry row of its last attempt."""
    mark = key_mark(definition.options)
    data = EndData(
        due=format_instant(due_of(definition.schedule_id)),
        attempts=outcome.attempts,
        label=definition.label,
        key=None if mark is None else mark.name,
        cron_id=definition.cron_id,
        destination=destination_of(definition.url),
        last_status=outcome.last_status,
        last_error=outcome.last_error,
        reason=outcome.reason,
        rescheduled_to=None if outcome.rescheduled_to is None else str(outcome.rescheduled_to),
    )
    return Event(
        event_id=id_of_end(definition.client_id, definition.schedule_id, outcome),
        type=OF_STATE[outcome.state],
        at=outcome.finished_at or UnixMillis(definition.due),
        schedule_id=definition.schedule_id,
        data=msgspec.json.encode(data).decode(),
    )
