"""Cursors of feeds: up to where a reader has read each track. Pure.

    base64url of varints: version, minutes since 1970 at which it was made, then for each track
        length and bytes of a built-in client's name (length 0: none), poller, epoch, block, seq + 1

A track that is not named has not been read at all. Cursors are opaque to callers, and hold nothing secret.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from scheduler_service.domain.events import Position
from scheduler_service.domain.ids import Minute

_VERSION: Final = 1
_MOST_BITS: Final = 63
_MOST_TRACKS: Final = 256
_MOST_STORED: Final = (1 << 31) - 1
_NAME = re.compile(rb"\$[a-z]{1,30}")


class FeedCursor(NamedTuple):
    """`made_in`: the minute in which it was made."""

    made_in: Minute
    positions: Mapping[str, Position]


class MovingCursor:
    """The texts of cursors that follow each other, such as those behind each event of a page: of tracks that stay where
    they are nothing is encoded again."""

    def __init__(self, cursor: FeedCursor) -> None:
        self._head = _varint(_VERSION) + _varint(cursor.made_in)
        self._parts = {track: _part(track, position) for track, position in sorted(cursor.positions.items())}

    def move(self, track: str, position: Position) -> None:
        """The reader has read this track up to here."""
        known = track in self._parts
        self._parts[track] = _part(track, position)
        if not known:
            self._parts = dict(sorted(self._parts.items()))

    def text(self) -> bytes:
        return urlsafe_b64encode(self._head + b"".join(self._parts.values())).rstrip(b"=")


def encode_feed_cursor(cursor: FeedCursor) -> str:
    return MovingCursor(cursor).text().decode()


def decode_feed_cursor(text: str) -> FeedCursor:
    """Raises ValueError, also for a cursor of a newer version."""
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    numbers = _Reader(data)
    if numbers.take() != _VERSION:
        raise ValueError("a cursor of another version")
    made_in = Minute(numbers.take())
    positions: dict[str, Position] = {}
    while numbers.left:
        name = numbers.take_bytes(numbers.take())
        if name and _NAME.fullmatch(name) is None:
            raise ValueError("not the name of a built-in client")
        poller, epoch, block, seq = (numbers.take() for _ in range(4))
        if poller > 9_999 or len(positions) >= _MOST_TRACKS:
            raise ValueError("too many tracks")
        if max(block, seq) > _MOST_STORED:
            raise ValueError("behind all events that can be stored")
        track = f"{name.decode()}/{poller:04}" if name else f"{poller:04}"
        positions[track] = Position(epoch, block, seq - 1)
    return FeedCursor(made_in, positions)


def _part(track: str, position: Position) -> bytes:
    name, _, poller = track.rpartition("/")
    numbers = (int(poller), position.epoch, position.block, position.seq + 1)
    return b"".join((_varint(len(name)), name.encode(), *map(_varint, numbers)))


def _varint(value: int) -> bytes:
    return bytes(_sevens(value))


def _sevens(value: int) -> Iterator[int]:
    while value > 0x7F:
        yield value & 0x7F | 0x80
        value >>= 7
    yield value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self) -> int:
        value = 0
        for bits in range(0, _MOST_BITS, 7):
            byte = self.take_bytes(1)[0]
            value |= (byte & 0x7F) << bits
            if byte < 0x80:
                return value
        raise ValueError("too large a number")

    def take_bytes(self, length: int) -> bytes:
        if length > self.left:
            raise ValueError("cut off")
        self._at += length
        return self._data[self._at - length : self._at]
