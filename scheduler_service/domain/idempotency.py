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
_BARE: Final = rf"[\x21\x23-\x7e][\x21-\x7e]{{0,{MAX_IDEMPOTENCY_KEY - 1}}}"
_QUOTED: Final = rf'"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\]){{1,{MAX_IDEMPOTENCY_KEY}}}"'
KEY_PATTERN: Final = f"^(?:{_BARE}|{_QUOTED})$"
"""How the header gives a key: as a string of structured fields (RFC 9651), as in
draft-ietf-httpapi-idempotency-key-header; or as it is, without a quote at its beginning."""
_encode: Final = msgspec.json.Encoder(order="deterministic").encode
NOTHING: Final = UUID(int=0)
"""Takes the place of the id of a refused item."""

_is_key = re.compile(KEY_PATTERN.strip("^$")).fullmatch
_ESCAPED = re.compile(r"\\(.)")


def read_key(text: str) -> str | None:
    """The key that the header's value gives; None for one that gives none. In quotes and without, it is the same."""
    if _is_key(text) is None:
        return None
    return _ESCAPED.sub(r"\1", text[1:-1]) if text.startswith('"') else text


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


def fingerprint_of(method: str, path: str, *asked: object) -> bytes:
    """A digest that tells requests apart (BLAKE2b, 256 bits). `path`: decoded. `asked`: what the body was decoded to,
    so that two bodies of the same content are one request, whatever their order, white space and defaults. Bytes, of
    what could not be decoded, count as they are. So does JSON that a receiver gets as it was written.
    """
    digest = hashlib.blake2b(f"{method} {path}\n".encode(), digest_size=32)
    for one in asked:
        content = one if isinstance(one, bytes) else _encode(one)
        digest.update(b"%d:" % len(content))
        digest.update(content)
    return digest.digest()
