"""Success deadlines: by when a schedule is to be delivered, and what is told if it is not. Pure.

A schedule with `succeed_within_seconds` has a deadline, so long after its due. A row of the built-in client `$events`
waits for it (`notices.deadline_row`), placed before the schedule's own row is, and so whatever becomes of the nodes,
the client or its receiver:

    create --> the deadline's row --> the schedule's row              a create that dies in between leaves an orphan
    the deadline's row is due --> read the schedule --> delivered in time, cancelled, none, another deadline: nothing
                                                    '-> `schedule.overdue`, with the state of the schedule as it is

The row is due `LOOK_AFTER_MS` after the deadline, because owners record a success seconds after it happened.
"""

from typing import Final, NamedTuple

import msgspec

from scheduler_service.domain.events import Event, EventType, derived_event_id
from scheduler_service.domain.ids import ClientId, ScheduleId, UnixMillis, due_of
from scheduler_service.domain.instants import format_instant, format_instant_or_none
from scheduler_service.domain.options import Undecodable, decode_options
from scheduler_service.domain.reasons import REASONS
from scheduler_service.domain.retry_rows import key_mark
from scheduler_service.domain.schedule_filters import destination_of
from scheduler_service.domain.schedules import Row, State
from scheduler_service.domain.waits import CAUSES, read_waits

DEADLINES_SINCE: Final = 34
"""The migration from which on programs know deadlines."""
MAX_WITHIN_SECONDS: Final = 30 * 86_400
LOOK_AFTER_MS: Final = 5_000
"""How long after a deadline the schedule is looked at. Owners of many busy minutes let successes wait for 4 s."""
TOLD_LATE_MS: Final = 10_000
"""A deadline that is looked at later than this after its time was missed by the nodes, too, which is told."""
_MARK: Final = '"succeed_within_seconds":'


class OverdueData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of `schedule.overdue`. Instants are RFC 3339. `reason`: what the schedule waits for, one of `WHY`, or a
    cause of waits (`waits.CAUSES`), or why it ended; `text` says it for people, where it is known.
    `told_late_seconds`: how long after `succeed_by` the nodes were able to tell it, if they were not in time."""

    due: str
    succeed_by: str
    state: str
    attempts: int
    reason: str
    text: str | None = None
    label: str | None = None
    key: str | None = None
    cron_id: str | None = None
    destination: str | None = None
    last_status: int | None = None
    last_error: str | None = None
    next_attempt_at: str | None = None
    finished_at: str | None = None
    told_late_seconds: float | None = None


class Standing(NamedTuple):
    """What is known beside the row. `in_flight`: a node may be calling it. `client`: the state in which the client's
    calls are held; None: they are not. `destination_paused`: that of the row. `now` is Unix milliseconds."""

    in_flight: bool
    client: str | None
    destination_paused: bool
    now: int


WHY: Final = {
    "client-suspended": "the client is suspended, so nothing is called",
    "client-paused": "the client is paused, so nothing is called",
    "destination-paused": "its destination is paused",
    "in-flight": "an attempt is under way",
    "receiver": "its receiver did not accept the last attempt; another one follows",
    "awaiting": "its receiver has accepted it, and has not said yet that it is done",
    "delivered-late": "it was delivered, but after its deadline",
    "not-called": "nobody has called it, and what kept it was not recorded",
    "failed": "it has failed for good",
    "skipped": "it was skipped",
}
"""The reasons, each with what it says."""


def within_seconds(options: str | None) -> float | None:
    """What a row's options say; mostly found out without decoding them. Options that can't be decoded say nothing."""
    if options is None or _MARK not in options:
        return None
    try:
        return decode_options(options).succeed_within_seconds
    except Undecodable:
        return None


def deadline_of(options: str | None, *, due: int) -> UnixMillis | None:
    """When a schedule of this due is to be delivered; None: it has no deadline."""
    within = within_seconds(options)
    return None if within is None else UnixMillis(due + round(within * 1000))


def met(row: Row, deadline: int) -> bool:
    """Whether there is nothing to tell of this row at its deadline: it was delivered in time, or is not to be called.
    A schedule that was redelivered counts by its present state."""
    if row.state == State.CANCELLED:
        return True
    return row.state == State.DELIVERED and (row.finished_at is None or row.finished_at <= deadline)


def why(row: Row, standing: Standing) -> str:
    """What keeps a schedule from having been delivered: what is certain, before what was remembered."""
    if row.state == State.DELIVERED:
        return "delivered-late"
    if row.ended:
        return row.reason or str(row.state)
    if standing.client is not None:
        return f"client-{standing.client}"
    if standing.destination_paused:
        return "destination-paused"
    if row.state == State.RETRYING and row.shown_state is not State.RETRYING:
        return str(row.shown_state)
    if row.attempts:
        return "receiver"
    if standing.in_flight:
        return "in-flight"
    if row.reason is not None:
        return row.reason
    waits = read_waits(row.fired_by)
    if waits:
        return max(waits, key=lambda wait: wait.ms).cause
    return "not-called"


def overdue_event(client_id: ClientId, row: Row, *, deadline: UnixMillis, standing: Standing) -> Event:
    """The event of a schedule that has missed its deadline. The same deadline makes the same id."""
    mark = key_mark(row.options)
    late_ms, reason = standing.now - deadline, why(row, standing)
    data = OverdueData(
        due=format_instant(due_of(row.schedule_id)),
        succeed_by=format_instant(deadline),
        state=row.shown_state,
        attempts=row.attempts or 0,
        reason=reason,
        text=WHY.get(reason) or CAUSES.get(reason) or REASONS.get(reason),
        label=row.label,
        key=None if mark is None else mark.name,
        cron_id=row.cron_id,
        destination=destination_of(row.url),
        last_status=row.last_status,
        last_error=row.last_error,
        next_attempt_at=format_instant_or_none(row.next_attempt_at),
        finished_at=format_instant_or_none(row.finished_at),
        told_late_seconds=late_ms / 1000.0 if late_ms > TOLD_LATE_MS else None,
    )
    return Event(
        event_id=derived_event_id(client_id, EventType.OVERDUE, row.schedule_id, deadline),
        type=EventType.OVERDUE,
        at=UnixMillis(standing.now),
        schedule_id=ScheduleId(row.schedule_id),
        data=msgspec.json.encode(data).decode(),
    )
