"""What the listing of dead letters takes as query parameters, and the cursors that it goes on with."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from scheduler_service.api.cursor import disagreeing, is_window, no_cursor, seal, unseal
from scheduler_service.api.listing import MAX_WINDOW_MS
from scheduler_service.api.parameters import CURSOR, DEFAULT_LIMIT, instant_parameter, limit_parameter
from scheduler_service.domain.books import LetterKey
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import ClientId, ScheduleId, UnixMillis

MAX_LETTERS = 200
"""Each letter of a page comes with its schedule, body and all, from storage."""
MAX_REDRIVEN = 1000
_FROM: Final = instant_parameter("from", "The first instant of giving up to list. Left out: 24 hours before `to`.")
_TO: Final = instant_parameter(
    "to",
    "The first instant of giving up not to list, at most 24 hours after `from`. Left out: now or, if that is earlier, "
    "24 hours after `from`.",
)
_LIMIT: Final = limit_parameter(MAX_LETTERS)
LETTER_PARAMETERS: Final = (_FROM, _TO, _LIMIT, CURSOR)

_LISTING: Final = "dead-letters-1"
"""What this listing's cursors begin with; the number is that of their form."""


class _Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    listing: Literal["dead-letters-1"]
    start: UnixMillis
    end: UnixMillis
    failed_at: UnixMillis
    schedule_id: ScheduleId


_decode = msgspec.msgpack.Decoder(_Cursor).decode


class RedriveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which of those that gave up are to be called again: as they are listed. A cursor carries its window."""

    start: str | None = msgspec.field(name="from", default=None)
    end: str | None = msgspec.field(name="to", default=None)
    limit: Annotated[int, Meta(ge=1, le=MAX_REDRIVEN)] = DEFAULT_LIMIT
    cursor: str | None = None


class LettersAsked(NamedTuple):
    """Letters with start <= failed_at < end behind `after` (None: from the first on), and how many at most."""

    start: UnixMillis
    end: UnixMillis
    after: LetterKey | None
    limit: int


def read_letter_listing(client_id: ClientId, query: Mapping[str, str], *, now: int) -> LettersAsked:
    """`from` is included and defaults to 24 hours before `to`; `to` is excluded and defaults to now or, if that is
    earlier, 24 hours after `from`. A cursor carries the listing that it came from. Raises Invalid.
    """
    faults: list[FieldError] = []
    limit = _LIMIT.of(query, faults) or DEFAULT_LIMIT
    start, end = _FROM.of(query, faults), _TO.of(query, faults)
    if "cursor" not in query:
        if faults:
            raise Invalid(faults)
        return LettersAsked(*letter_window(start, end, now=now), None, limit)
    try:
        asked = letters_behind(client_id, query["cursor"], limit=limit)
    except Invalid as invalid:
        raise Invalid([*faults, *invalid.errors]) from None
    faults += disagreeing((("from", start, asked.start), ("to", end, asked.end)))
    if faults:
        raise Invalid(faults)
    return asked


def read_redrive(client_id: ClientId, request: RedriveRequest, *, now: int) -> LettersAsked:
    """The same window as that of a listing, out of a body. Raises Invalid."""
    given = {"from": request.start, "to": request.end, "cursor": request.cursor}
    query = {name: value for name, value in given.items() if value is not None}
    return read_letter_listing(client_id, query, now=now)._replace(limit=request.limit)


def letter_window(start: UnixMillis | None, end: UnixMillis | None, *, now: int) -> tuple[UnixMillis, UnixMillis]:
    """What is meant by instants that may be left out. Raises Invalid for what is no window, or too long a one."""
    if end is None:
        # What ends this very millisecond has ended.
        end = UnixMillis(now + 1 if start is None else max(start + 1, min(now + 1, start + MAX_WINDOW_MS)))
    first = UnixMillis(max(end - MAX_WINDOW_MS, 0)) if start is None else start
    if not first < end:
        raise Invalid([FieldError("/to", "must be after from")])
    if end - first > MAX_WINDOW_MS:
        raise Invalid([FieldError("/to", "is more than 24 hours after from; take one day at a time")])
    return first, end


def letters_behind(client_id: ClientId, cursor: str, *, limit: int) -> LettersAsked:
    """What a cursor goes on with. Raises Invalid."""
    known = unseal(client_id, cursor, decode=_decode)
    if not is_window(known.start, known.end, longest_ms=MAX_WINDOW_MS):
        raise no_cursor()
    if not known.start - 1 <= known.failed_at <= known.end:
        raise no_cursor()
    return LettersAsked(known.start, known.end, LetterKey(known.failed_at, known.schedule_id), limit)


def letter_cursor(client_id: ClientId, asked: LettersAsked, following: LetterKey | None) -> str | None:
    if following is None:
        return None
    return seal(client_id, _Cursor(_LISTING, asked.start, asked.end, *following))
