"""Callbacks' headers as they are stored: encrypted where there is a key ring, because they carry credentials.

    [["Authorization","Bearer ..."]]     in the clear, as without a ring: a JSON list
    sealed:1:2026-11:9cN2...             `sealed`, version of the form, id of a key of the ring, ciphertext in base64

AES-256-SIV (RFC 5297) under a key derived from the ring's (HKDF-SHA256, RFC 5869). The client is authenticated with it,
so a text that is copied to another client's row can't be opened. It takes no nonce: equal headers of one client give
equal texts. So a row can be inserted twice with equal values; in exchange a reader of the database sees which of one
client's rows have the same headers, and no more. Retry rows, fires of crons and rescheduled rows carry the same text.

It adds 9 us to a call (3 to seal, 0.5 to open) where its headers are cached, 14 us where they differ each time, and 0.2
us without a ring.

"[]", no headers, is never encrypted. A text without the mark is in the clear, so rows from before there was a ring, or
from while `secrets.encrypt_headers` was off, stay readable.
"""

import base64
import binascii
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.options import NO_HEADERS
from scheduler_service.usecases.key_ring import SETTING, KeyRing

_MARK = "sealed:"
_FORM = f"{_MARK}1:"
_KEY_BYTES = 64
_INFO = b"minutehand-callback-headers"


HEADERS_REMEMBERED = 4096
"""Texts that are cached with their other form: most calls of a client carry the same headers."""
REMEMBERED_LENGTH = 1024


class HeaderCipher:
    """Encrypts and decrypts headers under one ring."""

    def __init__(self, ring: KeyRing) -> None:
        self._sealed: dict[tuple[ClientId, str], str] = {}
        self._opened: dict[tuple[ClientId, str], str] = {}
        self._primary = ring.primary
        self._ciphers: Mapping[str, AESSIV] = {key_id: AESSIV(_derived(key)) for key_id, key in ring.keys.items()}

    def seal(self, client_id: ClientId, headers: str) -> str:
        """Encrypt headers under the ring's first key."""
        if self._primary is None or headers == NO_HEADERS:
            return headers
        known = self._sealed.get((client_id, headers))
        if known is not None:
            return known
        encryption = self._ciphers[self._primary].encrypt(headers.encode(), [_whose(client_id)])
        sealed = f"{_FORM}{self._primary}:{base64.b64encode(encryption).decode()}"
        self._remember(client_id, headers, sealed)
        return sealed

    def known(self, client_id: ClientId, headers: str) -> str | None:
        """What `open` answers, from the cache only: None for headers that were not opened or sealed lately."""
        return self._opened.get((client_id, headers)) if headers.startswith(_MARK) else headers

    def open(self, client_id: ClientId, headers: str) -> str:
        """Stored headers in the clear. Raises SecretLocked."""
        if (known := self.known(client_id, headers)) is not None:
            return known
        key_id, _, text = headers.removeprefix(_FORM).partition(":")
        if not headers.startswith(_FORM):
            raise SecretLocked(f"callback headers of client {client_id} were encrypted by a newer program", key_id="")
        if (cipher := self._ciphers.get(key_id)) is None:
            raise SecretLocked(
                f"callback headers of client {client_id} are encrypted under the key {key_id}, which is not in the "
                f"key ring: add it to the file that {SETTING} names",
                key_id=key_id,
            )
        try:
            opened = cipher.decrypt(base64.b64decode(text, validate=True), [_whose(client_id)]).decode()
        except (InvalidTag, binascii.Error, ValueError):
            raise SecretLocked(
                f"callback headers of client {client_id} do not open with the key {key_id} of the ring: the file that "
                f"{SETTING} names has another key of that id, or what is stored was changed",
                key_id=key_id,
            ) from None
        if key_id == self._primary:
            self._remember(client_id, opened, headers)
        return opened

    def _remember(self, client_id: ClientId, clear: str, sealed: str) -> None:
        if len(sealed) > REMEMBERED_LENGTH:
            return
        if len(self._sealed) >= HEADERS_REMEMBERED:
            self._sealed.clear()
            self._opened.clear()
        self._sealed[client_id, clear] = sealed
        self._opened[client_id, sealed] = clear


def _derived(key: bytes) -> bytes:
    """A separate key for AES-SIV: the ring's own keys are used with AES-GCM."""
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=_INFO).derive(key)


def _whose(client_id: ClientId) -> bytes:
    return _INFO + b"\0" + client_id.encode()
