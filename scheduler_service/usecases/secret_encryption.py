"""The secret box: the key ring as its file has it now, for what stores or needs signing secrets and headers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from scheduler_service.domain.clients import SigningSecret
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import SecretBox
from scheduler_service.runtime.files import FilesUnusable, FromFiles, read_text
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.key_ring import SETTING, KeyRing, RingInvalid
from scheduler_service.usecases.sealed_headers import HeaderCipher

_log = get_logger("minutehand.secrets")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSettings:
    """How clients' signing secrets and callbacks' headers are stored. APIs and pollers must have the same."""

    key_ring_file: str | None = None
    """File with the keys that secrets are encrypted under, `ID KEY` a line; the first one encrypts, all decrypt. See
    `minutehand secrets`. May change while processes run. None: new secrets are stored in the clear."""
    encrypt_headers: bool = True
    """Callbacks' headers are encrypted too, where there is a key ring. False: new ones are stored in the clear, what is
    encrypted stays readable. For an upgrade from programs that can't read those: an API waits by itself while it sees
    pollers of before, jobs and `minutehand secrets rotate` do not."""


class ClearBox:
    """`domain.ports.SecretBox` without a ring: new secrets stay in the clear, encrypted ones are locked."""

    primary = None
    encrypts_headers = False
    generation = 0
    _headers = HeaderCipher(KeyRing())

    def seal(self, secret: SigningSecret) -> SigningSecret:
        return secret

    def open(self, secret: SigningSecret) -> SigningSecret:
        return KeyRing().open(secret)

    def seal_headers(self, client_id: ClientId, headers: str) -> str:
        return headers

    def open_headers(self, client_id: ClientId, headers: str) -> str:
        return self._headers.open(client_id, headers)


class KeyRingBox:
    """`domain.ports.SecretBox` over a ring's file. While `older_programs` answers True, programs run that can't read
    encrypted headers. Raises FilesUnusable where the file can't be used at the start."""

    def __init__(
        self,
        file: str,
        *,
        randomness: Randomness,
        encrypt_headers: bool = True,
        older_programs: Callable[[], bool] = lambda: False,
    ) -> None:
        self._randomness = randomness
        self._encrypt_headers = encrypt_headers
        self._older_programs = older_programs
        self._keys = FromFiles([file], lambda: _load(file), on_refused=_report)

    @property
    def generation(self) -> int:
        self._keys.current()
        return self._keys.generation

    @property
    def primary(self) -> str | None:
        return self._keys.current().ring.primary

    @property
    def encrypts_headers(self) -> bool:
        return self._encrypt_headers and self.primary is not None

    def seal(self, secret: SigningSecret) -> SigningSecret:
        return self._keys.current().ring.seal(secret, randomness=self._randomness)

    def open(self, secret: SigningSecret) -> SigningSecret:
        return self._keys.current().ring.open(secret)

    def seal_headers(self, client_id: ClientId, headers: str) -> str:
        if not self._encrypt_headers or self._older_programs():
            return headers
        return self._keys.current().headers.seal(client_id, headers)

    def open_headers(self, client_id: ClientId, headers: str) -> str:
        # Without a look at the file where that can't change the answer: every call on a poller comes here.
        known = self._keys.latest.headers.known(client_id, headers)
        return self._keys.current().headers.open(client_id, headers) if known is None else known


def secret_box(
    settings: SecretSettings, *, randomness: Randomness, older_programs: Callable[[], bool] = lambda: False
) -> SecretBox:
    """The box that the settings ask for; `older_programs` as in `KeyRingBox`. Raises FilesUnusable."""
    file = settings.key_ring_file
    if file is None:
        return ClearBox()
    return KeyRingBox(
        file, randomness=randomness, encrypt_headers=settings.encrypt_headers, older_programs=older_programs
    )


class _Keys(NamedTuple):
    """One content of the file."""

    ring: KeyRing
    headers: HeaderCipher


def _load(file: str) -> _Keys:
    try:
        ring = KeyRing.parse(read_text(file, setting=SETTING))
        return _Keys(ring, HeaderCipher(ring))
    except RingInvalid as error:
        raise FilesUnusable(f"{SETTING} names {file}, which is no key ring: {error}") from None


def _report(reason: str) -> None:
    _log.error("key-ring-refused", reason=reason, kept="the keys that were read before")
