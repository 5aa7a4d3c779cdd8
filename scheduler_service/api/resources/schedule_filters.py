"""The filters of schedules as query parameters, as fields of bodies, and in the cursors of what pages a window."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

from msgspec import Meta
from multidict import MultiDict

from scheduler_service.api.http.paging import WindowCursor, WindowQuery
from scheduler_service.api.http.query import Parameter, RepeatedParameter, repeated_parameter, text_parameter
from scheduler_service.domain.destinations import DESTINATION_PATTERN
from scheduler_service.domain.ids import ClientId, CronId, ScheduleId, UnixMillis
from scheduler_service.domain.schedule_filters import (
    MAX_HOST,
    MAX_LABELS,
    ScheduleFilter,
    read_destination,
    read_host,
    read_key_prefix,
    read_labels,
)
from scheduler_service.domain.schedule_keys import KEY_PATTERN
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.filter_request import FilterRequest
from scheduler_service.usecases.list_schedules import Position, Window
from scheduler_service.usecases.schedule_request import MAX_TEXT

_STATES: Final = [state.value for state in State]


def _labels(texts: Sequence[str]) -> tuple[str, ...]:
    if any(len(text) > MAX_TEXT for text in texts):
        raise ValueError(f"must have at most {MAX_TEXT} characters")
    return read_labels(texts)


def _states(texts: Sequence[str]) -> tuple[State, ...]:
    if not set(texts) <= set(_STATES):
        raise ValueError(f"must be one of {', '.join(_STATES)}")
    return tuple(state for state in State if state.value in texts)


def _parameter(
    name: str, sentence: str, read: Callable[[str], str], pattern: str | None, longest: int
) -> Parameter[str]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": longest}
    if pattern is not None:
        schema = {"type": "string", "pattern": pattern}
    return Parameter(name=name, sentence=sentence, schema=schema, read=read)


STATE: Final[RepeatedParameter[State]] = repeated_parameter(
    "state",
    "Only schedules in this state.",
    schema={"type": "string", "enum": _STATES},
    most=len(_STATES),
    read_all=_states,
)
FILTERS: Final[tuple[Parameter[Any], ...]] = (
    STATE,
    repeated_parameter(
        "label",
        "Only schedules with this label.",
        schema={"type": "string", "maxLength": MAX_TEXT},
        most=MAX_LABELS,
        read_all=_labels,
    ),
    text_parameter("cron_id", "Only the runs of this cron."),
    _parameter("destination", "Only calls to the destination of this name.", read_destination, DESTINATION_PATTERN, 63),
    _parameter(
        "host", "Only calls to this host: a name or an address as in a URL, without port.", read_host, None, MAX_HOST
    ),
    _parameter("key_prefix", "Only schedules whose own key begins with this.", read_key_prefix, KEY_PATTERN, 256),
)


class FilterFields(FilterRequest, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same filters in a body."""

    state: State | Annotated[list[State], Meta(max_length=len(_STATES))] | None = None


def as_query(fields: Mapping[str, str | Sequence[str] | None]) -> MultiDict[str]:
    """Fields of a body as query parameters: a list as a repeated one; null is left out."""
    query: MultiDict[str] = MultiDict()
    for name, value in fields.items():
        for text in (value,) if isinstance(value, str) else value or ():
            query.add(name, text)
    return query


def filter_of(filters: Mapping[str, Any]) -> ScheduleFilter:
    """The filter that the parameters FILTERS have read."""
    given = {name: value for name, value in filters.items() if value is not None}
    return ScheduleFilter(states=given.pop("state", ()), labels=given.pop("label", ()), **given)


def values_of(filter_: ScheduleFilter) -> dict[str, Any]:
    """What `filter_of` makes it of: the inverse."""
    return {
        "state": filter_.states or None,
        "label": filter_.labels or None,
        "cron_id": filter_.cron_id,
        "destination": filter_.destination,
        "host": filter_.host,
        "key_prefix": filter_.key_prefix,
    }


def window_of(client_id: ClientId, asked: WindowQuery[Any]) -> Window:
    """The window and the filter that a query asks for."""
    return Window(client_id=client_id, start=asked.start, end=asked.end, filter=filter_of(asked.filters))


class FilterCursor(WindowCursor, frozen=True):
    state: tuple[State, ...] | None
    label: tuple[str, ...] | None
    cron_id: CronId | None
    destination: str | None
    host: str | None
    key_prefix: str | None
    due: UnixMillis
    schedule_id: ScheduleId | None

    @property
    def position(self) -> Position:
        return Position(self.due, self.schedule_id)


def fits_window(cursor: FilterCursor) -> bool:
    return cursor.start <= cursor.due <= cursor.end


def cursor_fields(window: Window, position: Position) -> dict[str, Any]:
    return {
        "start": window.start,
        "end": window.end,
        **values_of(window.filter),
        "due": position.due,
        "schedule_id": position.schedule_id,
    }
