"""The key ring: the keys that signing secrets are encrypted under at rest.

A ring is a text, one key a line; the first one encrypts, all decrypt:

    # anything after a hash is a comment
    2026-11 6bJ0Uu3...=      an id of up to 64 letters, digits, dots, dashes or underscores; 32 bytes in base64
    2025-06 u1Lq8dX...=

A stored secret is `1 | nonce (12 bytes) | ciphertext | tag (16)`: AES-256-GCM (NIST SP 800-38D) with a random nonce, of
which one key may see 2^32. Client and secret id are authenticated with it, so a secret that is copied to another
client's row can't be opened. The key's id is in `encryption_key_id`; null means that the secret is in the clear: it was
stored without a ring, and stays readable when there is one.

To replace a key: `minutehand secrets new-key`; put its line last in the file of every process; when all have it, put it
first; `minutehand secrets rotate`; then delete the old line. A process that lacks a key holds the calls of clients
whose secrets it can't open: nothing is ever sent unsigned, or signed by some of the secrets only.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec.structs import replace

from membership.errors import MinutehandError
from scheduler_service.domain.clients import SigningSecret
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.runtime.randomness import Randomness

SETTING = "secrets.key_ring_file"
KEY_BYTES = 32
NONCE_BYTES = 12
_TAG_BYTES = 16
_FORM = b"\x01"
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RingInvalid(MinutehandError):
    """A text that is no key ring. The message names the line, never its content."""


@dataclass(frozen=True, slots=True)
class KeyRing:
    """`primary` None: an empty ring, which encrypts nothing."""

    primary: str | None = None
    keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, text: str) -> "KeyRing":
        """Raises RingInvalid."""
        keys: dict[str, bytes] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or not _KEY_ID.fullmatch(words[0]):
                raise RingInvalid(f"line {number} is not `ID KEY`: make one with `minutehand secrets new-key`")
            key_id, key = words[0], _decode(words[1])
            if key is None:
                raise RingInvalid(f"line {number}: the key {key_id} is not {KEY_BYTES} bytes in base64")
            if key_id in keys:
                raise RingInvalid(f"line {number}: the id {key_id} occurs twice")
            keys[key_id] = key
        if not keys:
            raise RingInvalid("it has no key: make one with `minutehand secrets new-key`")
        return cls(next(iter(keys)), keys)

    def seal(self, secret: SigningSecret, *, randomness: Randomness) -> SigningSecret:
        """Encrypt a secret under the primary key; unchanged where there is none."""
        assert secret.encryption_key_id is None
        if self.primary is None:
            return secret
        nonce = randomness.secret_bytes(NONCE_BYTES)
        encryption = AESGCM(self.keys[self.primary]).encrypt(nonce, secret.secret, _whose(secret))
        return replace(secret, secret=_FORM + nonce + encryption, encryption_key_id=self.primary)

    def open(self, secret: SigningSecret) -> SigningSecret:
        """The secret in the clear. Raises SecretLocked."""
        key_id = secret.encryption_key_id
        if key_id is None:
            return secret
        key, stored = self.keys.get(key_id), secret.secret
        if key is None:
            raise SecretLocked(
                f"the signing secret {secret.secret_id} of client {secret.client_id} is encrypted under the key "
                f"{key_id}, which is not in the key ring: add it to the file that {SETTING} names",
                key_id=key_id,
            )
        if stored[:1] != _FORM or len(stored) < 1 + NONCE_BYTES + _TAG_BYTES:
            raise _unreadable(secret, key_id)
        nonce, encryption = stored[1 : 1 + NONCE_BYTES], stored[1 + NONCE_BYTES :]
        try:
            clear = AESGCM(key).decrypt(nonce, encryption, _whose(secret))
        except InvalidTag:
            raise _unreadable(secret, key_id) from None
        return replace(secret, secret=clear, encryption_key_id=None)


def new_key(key_id: str, *, randomness: Randomness) -> str:
    """The line of a new key. Raises RingInvalid for an invalid id."""
    if not _KEY_ID.fullmatch(key_id):
        raise RingInvalid(f"{key_id!r} is no key id: use up to 64 letters, digits, dots, dashes or underscores")
    return f"{key_id} {base64.b64encode(randomness.secret_bytes(KEY_BYTES)).decode()}"


def _decode(text: str) -> bytes | None:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if len(key) == KEY_BYTES else None


def _whose(secret: SigningSecret) -> bytes:
    """The associated data: client and secret id. No id has a zero byte, so different pairs give different data."""
    return b"\0".join((b"minutehand-signing-secret", secret.client_id.encode(), secret.secret_id.encode()))


def _unreadable(secret: SigningSecret, key_id: str) -> SecretLocked:
    return SecretLocked(
        f"the signing secret {secret.secret_id} of client {secret.client_id} does not open with the key {key_id} of "
        f"the ring: the file that {SETTING} names has another key with that id, or the stored value was changed",
        key_id=key_id,
    )
