"""Sessions of the console: what a browser holds instead of a key. Pure."""

from typing import Final

import msgspec

from scheduler_service.domain.ids import HOUR_MS, UnixMillis

SESSION_MS: Final = 8 * HOUR_MS
"""For how long a session lasts: a working day."""


class OfKey(msgspec.Struct, frozen=True, tag="key"):
    """Begun with a stored key: it may do what that key may, as long as that key is good."""

    key_id: str


class OfConfiguredKey(msgspec.Struct, frozen=True, tag="configured"):
    """Begun with the configured administrator's key. `proof`: an HMAC of the session's token under that key's hash, so
    that the session ends when another key is configured."""

    proof: bytes


class Session(msgspec.Struct, frozen=True):
    """`token_hash`: the SHA-256 of the token, which is in the browser's cookie and nowhere else."""

    token_hash: bytes
    owner: OfKey | OfConfiguredKey
    created_at: UnixMillis
    expires_at: UnixMillis
