"""Bulk cancels: what they take, by id or by window, and how the outcomes are shown."""

from collections.abc import Mapping, Sequence
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from scheduler_service.api.listing import MAX_LIMIT, Asked, read_listing
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import ClientId, ScheduleId, is_schedule_id
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.cancel_schedules import BeingRetried, Outcome
from scheduler_service.usecases.edit_schedule import (
    AlreadyFinished,
    Cancelled,
    InDoubt,
    InFlight,
    NoSuchSchedule,
    WasRescheduled,
)

MAX_CANCELS = 1000


class CancelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Either the ids, or a window of at most 24 hours by due time (and a label): then whatever has not ended in it is
    cancelled. What was rescheduled to an instant outside the window is not in it. A cursor carries its window."""

    schedule_ids: Annotated[list[str], Meta(min_length=1, max_length=MAX_CANCELS)] | None = None
    start: str | None = msgspec.field(name="from", default=None)
    end: str | None = msgspec.field(name="to", default=None)
    label: str | None = None
    cursor: str | None = None


class CancelItemView(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one: 200 cancelled, 404 there is none, 409 in flight or ended otherwise (`state` says how), 503
    unknown: ask again.

    `reason` in-doubt beside 200: it is not called again, and may have been called before. `rescheduled_to` beside 409:
    the schedule that is called instead of a cancelled one, which this request leaves as it is.
    """

    schedule_id: str
    status: int
    state: str | None
    reason: str | None = None
    rescheduled_to: UUID | None = None


def read_cancel(client_id: ClientId, request: CancelRequest, *, now: int) -> Asked | None:
    """The window that is meant; None: the ids are. Raises Invalid."""
    given = {"from": request.start, "to": request.end, "label": request.label, "cursor": request.cursor}
    query = {name: value for name, value in given.items() if value is not None}
    if request.schedule_ids is not None:
        faults = [FieldError(f"/{name}", "can't be given beside schedule_ids") for name in query]
        if faults:
            raise Invalid(faults)
        return None
    faults = [
        FieldError(f"/{name}", "is required without schedule_ids")
        for name in ("from", "to")
        if name not in query and "cursor" not in query
    ]
    if faults:
        raise Invalid(faults)
    return read_listing(client_id, query, now=now)._replace(limit=MAX_LIMIT)


def known_ids(texts: Sequence[str]) -> dict[str, ScheduleId]:
    """The texts that can be ids of ours."""
    found: dict[str, ScheduleId] = {}
    for text in texts:
        try:
            value = UUID(text)
        except ValueError:
            continue
        if str(value) == text.lower() and is_schedule_id(value):
            found[text] = ScheduleId(value)
    return found


def cancel_item(text: str, schedule_id: ScheduleId | None, outcomes: Mapping[ScheduleId, Outcome]) -> CancelItemView:
    match NoSuchSchedule() if schedule_id is None else outcomes[schedule_id]:
        case Cancelled(row=row):
            return CancelItemView(text, 200, State.CANCELLED.value, reason=row.reason)
        case WasRescheduled(row=row):
            return CancelItemView(text, 409, State.CANCELLED.value, rescheduled_to=row.rescheduled_to)
        case InFlight(row=row) | InDoubt(row=row) | AlreadyFinished(row=row) | BeingRetried(row=row):
            return CancelItemView(text, 409, row.state or State.SCHEDULED.value)
        case NoSuchSchedule():
            return CancelItemView(text, 404, None)
        case _:
            return CancelItemView(text, 503, None)
