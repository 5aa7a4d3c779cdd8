"""Idempotency keys: a caller's name for one request, so that repeating it does nothing twice. Pure.

Before the first request under a key makes anything, it stores the ids that it will make and the instant as of which it
was judged. A repeat makes what is missing, with these ids and as of that instant.
"""

import hashlib
import re
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from scheduler_service.domain.ids import ClientId, UnixMillis

MAX_IDEMPOTENCY_KEY: Final = 255
KEY_PATTERN: Final = rf"^[\x21-\x7e]{{1,{MAX_IDEMPOTENCY_KEY}}}$"
"""Visible ASCII characters."""
NOTHING: Final = UUID(int=0)
"""Takes the place of the id of a refused item."""

is_key = re.compile(KEY_PATTERN.strip("^$")).fullmatch


class Keyed(NamedTuple):
    """A request under a key. Each client has its own keys."""

    client_id: ClientId
    key: str
    fingerprint: bytes


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What the first request under a key has chosen: `ids` of all that it makes, in order, and its instant."""

    fingerprint: bytes
    ids: tuple[UUID, ...]
    created_at: UnixMillis


def fingerprint_of(method: str, path: str, body: bytes) -> bytes:
    """A digest that tells requests apart (BLAKE2b, 256 bits). `path` as it was sent.

    The body counts byte for byte: the same content in other bytes is refused, which is safe, and a caller that repeats
    a request still has its bytes.
    """
    digest = hashlib.blake2b(f"{method} {path}\n".encode(), digest_size=32)
    digest.update(body)
    return digest.digest()
