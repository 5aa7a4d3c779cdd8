"""What the listing of schedules takes as query parameters, and the cursors that it goes on with."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler_service.api.http.paging import WindowCursor, WindowListing, seal
from scheduler_service.api.http.query import choice_parameter, text_parameter
from scheduler_service.domain.ids import DAY_MS, MAX_DUE, ClientId, CronId, ScheduleId, UnixMillis
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.list_schedules import Position, Window

MAX_LIMIT: Final = 1000


class ScheduleCursor(WindowCursor, frozen=True, tag="schedules-1"):
    state: State | None
    label: str | None
    cron_id: CronId | None
    due: UnixMillis
    schedule_id: ScheduleId | None


def _left_out(start: UnixMillis | None, end: UnixMillis | None, now: int) -> tuple[int, int]:
    first = now if start is None else start
    return first, min(first + DAY_MS, MAX_DUE) if end is None else end


_LISTING: Final = WindowListing(
    ScheduleCursor,
    start="The first due to list. Left out: now.",
    end="The first due not to list, at most 24 hours after `from`. Left out: 24 hours after `from`.",
    left_out=_left_out,
    longest_days=1,
    most=MAX_LIMIT,
    filters=(
        choice_parameter("state", "Only schedules in this state.", State, State),
        text_parameter("label", "Only schedules with this label."),
        text_parameter("cron_id", "Only the runs of this cron."),
    ),
)
PARAMETERS: Final = _LISTING.parameters


class Asked(NamedTuple):
    """What to list, from where on, and how much at most."""

    window: Window
    position: Position | None
    limit: int


def read_listing(client_id: ClientId, query: Mapping[str, str], *, now: int) -> Asked:
    """Raises Invalid."""
    asked = _LISTING.read(client_id, query, now=now, fits=lambda cursor: cursor.start <= cursor.due <= cursor.end)
    window = Window(client_id=client_id, start=asked.start, end=asked.end, **asked.filters)
    position = None if asked.cursor is None else Position(asked.cursor.due, asked.cursor.schedule_id)
    return Asked(window, position, asked.limit)


def schedule_cursor(window: Window, position: Position | None) -> str | None:
    if position is None:
        return None
    filters = (window.state, window.label, window.cron_id)
    return seal(
        window.client_id, ScheduleCursor(window.start, window.end, *filters, position.due, position.schedule_id)
    )
