"""Cursors of listings: opaque, versioned, and good for the listing they came from only.

A cursor holds the whole listing (window and filters) beside the place to go on, so that it is enough by itself. A
checksum keyed by the client catches what was cut, edited or taken from elsewhere. It protects nothing: whoever forges a
cursor may list the same without one. So its window is held to the bounds of one that is given (`is_window`): else a
forged one could make a process read the index of a million years.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from scheduler_service.api.parameters import MAX_CURSOR
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import DAY_MS, MAX_DUE, ClientId, CronId, ScheduleId, UnixMillis
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.list_schedules import Position, Window

T = TypeVar("T")

VERSION = 1
_CHECKSUM_BYTES = 6


class _Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    version: int
    start: UnixMillis
    end: UnixMillis
    state: State | None
    label: str | None
    cron_id: CronId | None
    due: UnixMillis
    schedule_id: ScheduleId | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Cursor).decode


def encode_cursor(window: Window, position: Position) -> str:
    cursor = _Cursor(
        VERSION,
        window.start,
        window.end,
        window.state,
        window.label,
        window.cron_id,
        position.due,
        position.schedule_id,
    )
    return seal(window.client_id, cursor)


def decode_cursor(client_id: ClientId, text: str) -> tuple[Window, Position]:
    """Raises Invalid."""
    cursor = unseal(client_id, text, decode=_decode)
    if cursor.version != VERSION or not is_window(cursor.start, cursor.end, longest_ms=DAY_MS):
        raise no_cursor()
    if not cursor.start <= cursor.due <= cursor.end:
        raise no_cursor()
    window = Window(
        client_id=client_id,
        start=cursor.start,
        end=cursor.end,
        state=cursor.state,
        label=cursor.label,
        cron_id=cursor.cron_id,
    )
    return window, Position(cursor.due, cursor.schedule_id)


def seal(client_id: ClientId, cursor: msgspec.Struct) -> str:
    """The text of a cursor. Listings tell theirs apart by what is in them."""
    data = _encode(cursor)
    return base64.urlsafe_b64encode(_checksum(client_id, data) + data).decode().rstrip("=")


def unseal(client_id: ClientId, text: str, *, decode: Callable[[bytes], T]) -> T:
    """What was sealed. Raises Invalid."""
    try:
        if len(text) > MAX_CURSOR:
            raise ValueError
        padded = text + "=" * (-len(text) % 4)
        raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        data = raw[_CHECKSUM_BYTES:]
        if raw[:_CHECKSUM_BYTES] != _checksum(client_id, data):
            raise ValueError
        return decode(data)
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise no_cursor() from None


def is_window(start: int, end: int, *, longest_ms: int) -> bool:
    """Whether a listing may span [start, end)."""
    return 0 <= start < end <= min(start + longest_ms, MAX_DUE)


def disagreeing(beside: Iterable[tuple[str, object, object]]) -> list[FieldError]:
    """What is wrong with parameters given beside a cursor: names, what was given (None: nothing that could be read),
    and what the cursor's listing has."""
    return [
        FieldError(f"/{name}", "is not that of the listing which the cursor goes on with; leave it out")
        for name, given, meant in beside
        if given is not None and given != meant
    ]


def no_cursor() -> Invalid:
    return Invalid(
        [FieldError("/cursor", "this is not a cursor of this listing of this client's; begin again without it")]
    )


def _checksum(client_id: ClientId, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES, key=client_id.encode()).digest()
