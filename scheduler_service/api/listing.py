"""The query parameters of a listing, with every fault named at once."""

from collections.abc import Mapping
from typing import NamedTuple

from scheduler_service.api.cursor import decode_cursor
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import MAX_DUE, ClientId, CronId, UnixMillis
from scheduler_service.domain.instants import parse_instant
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.list_schedules import Position, Window
from scheduler_service.usecases.schedule_request import DAY_MS, MAX_TEXT

PARAMETERS = ("from", "to", "state", "label", "cron_id", "limit", "cursor")
DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
MAX_WINDOW_MS = DAY_MS


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
    limit = read_limit(query, faults)
    state = _state(query.get("state"), faults)
    start = read_instant(query, "from", faults)
    end = read_instant(query, "to", faults)
    label = _text(query, "label", faults)
    cron = _text(query, "cron_id", faults)
    cron_id = None if cron is None else CronId(cron)
    if "cursor" in query:
        try:
            window, position = decode_cursor(client_id, query["cursor"])
        except Invalid as invalid:
            raise Invalid([*faults, *invalid.errors]) from None
        given = {"from": start, "to": end, "state": state, "label": label, "cron_id": cron_id}
        meant = (window.start, window.end, window.state, window.label, window.cron_id)
        faults.extend(
            FieldError(f"/{name}", "is not that of the listing which the cursor goes on with; leave it out")
            for (name, value), before in zip(given.items(), meant, strict=True)
            if name in query and value != before and not _named(faults, name)
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


def read_limit(query: Mapping[str, str], faults: list[FieldError], *, most: int = MAX_LIMIT) -> int:
    """How much to list at most. Answers the default beside a fault."""
    text = query.get("limit")
    if text is None:
        return DEFAULT_LIMIT
    if text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= most:
        return int(text)
    faults.append(FieldError("/limit", f"must be an integer from 1 to {most}"))
    return DEFAULT_LIMIT


def _state(text: str | None, faults: list[FieldError]) -> State | None:
    if text is None:
        return None
    try:
        return State(text)
    except ValueError:
        faults.append(FieldError("/state", f"must be one of {', '.join(State)}"))
        return None


def _text(query: Mapping[str, str], name: str, faults: list[FieldError]) -> str | None:
    text = query.get(name)
    if text is not None and len(text) > MAX_TEXT:
        faults.append(FieldError(f"/{name}", f"must have at most {MAX_TEXT} characters"))
        return None
    return text


def read_instant(query: Mapping[str, str], name: str, faults: list[FieldError]) -> UnixMillis | None:
    """An instant among the parameters. Answers None beside a fault."""
    text = query.get(name)
    if text is None:
        return None
    try:
        # An offset's plus sign that was not percent-encoded arrives as a space.
        instant = parse_instant(text.replace(" ", "+"))
    except ValueError as error:
        faults.append(FieldError(f"/{name}", str(error)))
        return None
    if not 0 <= instant <= MAX_DUE:
        faults.append(FieldError(f"/{name}", "must not be before 1970"))
        return None
    return instant


def _named(faults: list[FieldError], name: str) -> bool:
    return any(fault.pointer == f"/{name}" for fault in faults)
