"""Texts as they are stored under the key ring: callbacks' headers, and documents of destinations.

    [["Authorization","Bearer ..."]]     in the clear, as without a ring: JSON
    sealed:1:2026-11:9cN2...             `sealed`, version of the form, id of a key of the ring, ciphertext in base64

AES-256-SIV (RFC 5297) under a key derived from the ring's (HKDF-SHA256, RFC 5869), another one for each kind of text,
so that no text passes for one of another kind. The owner is authenticated with it, so a text that is copied to another
client's row can't be opened. It takes no nonce: equal texts of one owner are stored alike. So a row can be inserted
twice with equal values; in exchange a reader of the database sees which of one client's rows have the same text, and no
more.

A text without the mark is in the clear, so rows from before there was a ring stay readable.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId
from scheduler_service.usecases.key_ring import SETTING, KeyRing

_MARK: Final = "sealed:"
_FORM: Final = f"{_MARK}1:"
_KEY_BYTES: Final = 64


@dataclass(frozen=True, slots=True)
class TextKind:
    """`info` separates the keys of kinds from each other; `called`: what a reader of an error is told."""

    info: bytes
    called: str


HEADERS: Final = TextKind(b"minutehand-callback-headers", "callback headers")
DESTINATIONS: Final = TextKind(b"minutehand-destinations", "destinations")


def is_sealed(text: str) -> bool:
    return text.startswith(_MARK)


class TextCipher:
    """Encrypts and decrypts texts of one kind under one ring."""

    def __init__(self, ring: KeyRing, kind: TextKind) -> None:
        self.primary = ring.primary
        self._kind = kind
        self._ciphers: Mapping[str, AESSIV] = {
            key_id: AESSIV(_derived(key, kind.info)) for key_id, key in ring.keys.items()
        }

    def seal(self, client_id: ClientId, text: str, name: str | None = None) -> str:
        """Encrypt under the ring's first key; without a ring the text stays in the clear. `name`: of what the client
        has several."""
        if self.primary is None:
            return text
        encryption = self._ciphers[self.primary].encrypt(text.encode(), self._whose(client_id, name))
        return f"{_FORM}{self.primary}:{base64.b64encode(encryption).decode()}"

    def open(self, client_id: ClientId, text: str, name: str | None = None) -> str:
        """A stored text in the clear. Raises SecretLocked."""
        if not is_sealed(text):
            return text
        key_id, _, encryption = text.removeprefix(_FORM).partition(":")
        subject = f"{self._kind.called} of client {client_id}"
        if not text.startswith(_FORM):
            raise SecretLocked(f"{subject} were encrypted by a newer program", key_id="")
        if (cipher := self._ciphers.get(key_id)) is None:
            raise SecretLocked(
                f"{subject} are encrypted under the key {key_id}, which is not in the key ring: add it to the file "
                f"that {SETTING} names",
                key_id=key_id,
            )
        try:
            return cipher.decrypt(base64.b64decode(encryption, validate=True), self._whose(client_id, name)).decode()
        except (InvalidTag, binascii.Error, ValueError):
            raise SecretLocked(
                f"{subject} do not open with the key {key_id} of the ring: the file that {SETTING} names has another "
                "key of that id, or what is stored was changed",
                key_id=key_id,
            ) from None

    def _whose(self, client_id: ClientId, name: str | None) -> list[bytes]:
        owner = self._kind.info + b"\0" + client_id.encode()
        return [owner] if name is None else [owner, name.encode()]


def sealed_under(text: str) -> str | None:
    """The id of the key that a stored text is encrypted under; None: it is in the clear."""
    return text.removeprefix(_FORM).partition(":")[0] if text.startswith(_FORM) else None


def _derived(key: bytes, info: bytes) -> bytes:
    """A separate key for AES-SIV: the ring's own keys are used with AES-GCM."""
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=info).derive(key)
