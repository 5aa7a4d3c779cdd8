"""Calls that are spread over some seconds: each is due later by a part of them, chosen by a hash or chance. Pure."""

import hashlib
from typing import Final

MAX_SPREAD_SECONDS: Final = 3_600
POINT_BITS: Final = 64


def point_of(name: str) -> int:
    """A point for a name, always the same one: `POINT_BITS` bits, uniform."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=POINT_BITS // 8).digest(), "big")


def offset_ms(point: int, seconds: int) -> int:
    """Where a point lies within so many seconds: 0 <= offset < seconds."""
    return point * seconds * 1000 >> POINT_BITS
