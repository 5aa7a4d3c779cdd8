"""The query parameters of a listing, with every fault named at once."""

from collections.abc import Mapping
from typing import NamedTuple

from scheduler_service.api.cursor import decode_cursor, disagreeing
from scheduler_service.api.parameters import (
    CURSOR,
    DEFAULT_LIMIT,
    choice_parameter,
    instant_parameter,
    limit_parameter,
    text_parameter,
)
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import DAY_MS, MAX_DUE, ClientId, CronId, UnixMillis
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.list_schedules import Position, Window

MAX_WINDOW_MS = DAY_MS
_FROM = instant_parameter("from", "The first due to list. Left out: now.")
_TO = instant_parameter(
    "to", "The first due not to list, at most 24 hours after `from`. Left out: 24 hours after `from`."
)
_STATE = choice_parameter("state", "Only schedules in this state.", State, State)
_LABEL = text_parameter("label", "Only schedules with this label.")
_CRON_ID = text_parameter("cron_id", "Only the runs of this cron.")
MAX_LIMIT = 1000
_LIMIT = limit_parameter(MAX_LIMIT)
PARAMETERS = (_FROM, _TO, _STATE, _LABEL, _CRON_ID, _LIMIT, CURSOR)


class Asked(NamedTuple):
    """What to list, from where on, and how much at most."""

    window: Window
    position: Position | None
    limit: int


def read_listing(client_id: ClientId, query: Mapping[str, str], *, now: int) -> Asked:
    """`from` is included and defaults to now, `to` is excluded and defaults to 24 hours after `from`. A cursor carries
    the listing it came from; what is given beside it must agree. Raises Invalid.
    """
    faults: list[FieldError] = []
    limit = _LIMIT.of(query, faults) or DEFAULT_LIMIT
    state = _STATE.of(query, faults)
    start, end = _FROM.of(query, faults), _TO.of(query, faults)
    label, cron = _LABEL.of(query, faults), _CRON_ID.of(query, faults)
    cron_id = None if cron is None else CronId(cron)
    if "cursor" in query:
        try:
            window, position = decode_cursor(client_id, query["cursor"])
        except Invalid as invalid:
            raise Invalid([*faults, *invalid.errors]) from None
        faults += disagreeing(
            (
                ("from", start, window.start),
                ("to", end, window.end),
                ("state", state, window.state),
                ("label", label, window.label),
                ("cron_id", cron_id, window.cron_id),
            )
        )
        if faults:
            raise Invalid(faults)
        return Asked(window, position, limit)
    first = UnixMillis(now) if start is None else start
    last = UnixMillis(min(first + MAX_WINDOW_MS, MAX_DUE)) if end is None else end
    if not faults and not first < last:
        faults.append(FieldError("/to", "must be after from"))
    elif not faults and last - first > MAX_WINDOW_MS:
        faults.append(FieldError("/to", "is more than 24 hours after from; list one day at a time"))
    if faults:
        raise Invalid(faults)
    window = Window(client_id=client_id, start=first, end=last, state=state, label=label, cron_id=cron_id)
    return Asked(window, None, limit)
