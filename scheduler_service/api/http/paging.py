"""What all listings share: a window, a limit, and a cursor that continues where a page ended.

A `Listing` has a limit and a cursor, a `WindowListing` also `from`, `to` and filters. Both report every fault at once.

Cursors are opaque, versioned, and valid only for the listing they came from. A cursor holds its whole listing (window
and filters) beside the position, so that it suffices alone; parameters given with it must agree. A checksum keyed by
the client id detects cursors that were cut, edited or taken from elsewhere. It is no protection: its key is public, and
a forged cursor lists nothing that the caller could not list without it. So the window in a cursor is held to the same
bounds as a given one; else a forged cursor could make a process read the index of a million years. A listing whose
windows have any length must bound by itself what one request reads.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from scheduler_service.api.http.query import (
    CURSOR,
    CURSOR_PATTERN,
    DEFAULT_LIMIT,
    MAX_CURSOR,
    Parameter,
    instant_parameter,
    limit_parameter,
)
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import DAY_MS, MAX_DUE, ClientId, UnixMillis
from scheduler_service.domain.instants import window_faults

_CHECKSUM_BYTES = 6
_TEXT = re.compile(CURSOR_PATTERN.strip("^$"))


class Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a listing continues. Each listing has its own subclass, tagged with its name and a version: "balance-1"."""


class WindowCursor(Cursor, frozen=True):
    """A cursor with its window. A field of a subclass that has the name of a filter holds that filter's value."""

    start: UnixMillis
    end: UnixMillis


C = TypeVar("C", bound=Cursor)
W = TypeVar("W", bound=WindowCursor)
T = TypeVar("T")
LeftOut = Callable[[UnixMillis | None, UnixMillis | None, int], tuple[int, int]]
"""Answers the window for `from`, `to` (None: left out) and the present instant."""


class Listing(Generic[C]):
    """A listing from its first item on, or after a cursor."""

    def __init__(self, cursor: type[C], *, most: int, default: int = DEFAULT_LIMIT) -> None:
        self._limit = limit_parameter(most, default=default)
        self._default = min(default, most)
        self._decode = msgspec.msgpack.Decoder(cursor).decode
        self.parameters: tuple[Parameter[Any], ...] = (self._limit, CURSOR)

    def read(self, client_id: ClientId, query: Mapping[str, str]) -> tuple[C | None, int]:
        """The cursor, if one is given, and the limit. Raises Invalid."""
        faults: list[FieldError] = []
        limit = self._limit.of(query, faults) or self._default
        cursor = None
        if "cursor" in query:
            try:
                cursor = unseal(client_id, query["cursor"], decode=self._decode)
            except Invalid as invalid:
                faults += invalid.errors
        if faults:
            raise Invalid(faults)
        return cursor, limit


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowQuery(Generic[W]):
    """What to list: start <= instant < end, by these filters, after `cursor` (None: from the first on), at most `limit`
    items."""

    start: UnixMillis
    end: UnixMillis
    filters: Mapping[str, Any]
    cursor: W | None
    limit: int


class WindowListing(Generic[W]):
    """A listing within a window of at most `longest_days`; None: of any length. `start` and `end` describe its bounds
    to callers. `most` None: its pages have no limit."""

    def __init__(
        self,
        cursor: type[W],
        *,
        start: str,
        end: str,
        left_out: LeftOut,
        longest_days: int | None,
        most: int | None,
        filters: Sequence[Parameter[Any]] = (),
    ) -> None:
        self._start, self._end = instant_parameter("from", start), instant_parameter("to", end)
        self._left_out = left_out
        self._longest_days = longest_days
        self._filters = tuple(filters)
        self._limit = None if most is None else limit_parameter(most)
        self._decode = msgspec.msgpack.Decoder(cursor).decode
        paged = (CURSOR,) if self._limit is None else (self._limit, CURSOR)
        self.parameters: tuple[Parameter[Any], ...] = (self._start, self._end, *self._filters, *paged)

    def read(
        self, client_id: ClientId, query: Mapping[str, str], *, now: int, fits: Callable[[W], bool]
    ) -> WindowQuery[W]:
        """`fits`: whether a cursor's position is within its own window. Raises Invalid."""
        faults: list[FieldError] = []
        limit = (None if self._limit is None else self._limit.of(query, faults)) or DEFAULT_LIMIT
        start, end = self._start.of(query, faults), self._end.of(query, faults)
        filters = {filter_.name: filter_.of(query, faults) for filter_ in self._filters}
        cursor = None
        if "cursor" in query:
            try:
                cursor = unseal(client_id, query["cursor"], decode=self._decode)
                if not self._may_span(cursor) or not fits(cursor):
                    raise no_cursor()
            except Invalid as invalid:
                raise Invalid([*faults, *invalid.errors]) from None
            meant = {"from": cursor.start, "to": cursor.end, **{name: getattr(cursor, name) for name in filters}}
            faults += _disagreeing({"from": start, "to": end, **filters}, meant)
            start, end, filters = cursor.start, cursor.end, {name: meant[name] for name in filters}
        first, last = self._left_out(start, end, now)
        if not any(fault.pointer in ("/from", "/to") for fault in faults):
            faults += window_faults(first, last, longest_days=self._longest_days)
        if faults:
            raise Invalid(faults)
        return WindowQuery(start=UnixMillis(first), end=UnixMillis(last), filters=filters, cursor=cursor, limit=limit)

    def _may_span(self, cursor: WindowCursor) -> bool:
        latest = MAX_DUE if self._longest_days is None else min(cursor.start + self._longest_days * DAY_MS, MAX_DUE)
        return 0 <= cursor.start < cursor.end <= latest


def until_now(*, longest_days: int) -> LeftOut:
    """`from` left out: 24 hours before `to`. `to` left out: now or, if that is earlier, `longest_days` after `from`."""

    def left_out(start: UnixMillis | None, end: UnixMillis | None, now: int) -> tuple[int, int]:
        if end is not None:
            return (max(end - DAY_MS, 0) if start is None else start), end
        # `to` is exclusive: now + 1 includes what happened in this millisecond.
        last = now + 1 if start is None else max(start + 1, min(now + 1, start + longest_days * DAY_MS))
        return (max(last - DAY_MS, 0) if start is None else start), last

    return left_out


def seal(client_id: ClientId, cursor: Cursor) -> str:
    """The text of a cursor. Its tag says which listing it belongs to."""
    data = msgspec.msgpack.encode(cursor)
    return base64.urlsafe_b64encode(_checksum(client_id, data) + data).decode().rstrip("=")


def unseal(client_id: ClientId, text: str, *, decode: Callable[[bytes], T]) -> T:
    """The cursor of a sealed text. Raises Invalid."""
    try:
        if len(text) > MAX_CURSOR or _TEXT.fullmatch(text) is None:
            raise ValueError
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        data = raw[_CHECKSUM_BYTES:]
        if raw[:_CHECKSUM_BYTES] != _checksum(client_id, data):
            raise ValueError
        return decode(data)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise no_cursor() from None


def no_cursor() -> Invalid:
    return Invalid([FieldError("/cursor", "this is no cursor of this list; start again without it")])


def _disagreeing(given: Mapping[str, object], meant: Mapping[str, object]) -> list[FieldError]:
    """The faults of parameters that contradict the cursor. A None in `given` was left out or is reported already."""
    return [
        FieldError(f"/{name}", "differs from the list that the cursor continues; leave it out")
        for name, value in given.items()
        if value is not None and value != meant[name]
    ]


def _checksum(client_id: ClientId, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES, key=client_id.encode()).digest()
