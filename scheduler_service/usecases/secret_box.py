"""The secret box: the key ring as its file has it now, for whoever stores or needs signing secrets."""

from dataclasses import dataclass

import structlog

from scheduler_service.domain.clients import SigningSecret
from scheduler_service.domain.ports import SecretBox
from scheduler_service.runtime.files import FilesUnusable, FromFiles, read_text
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.key_ring import SETTING, KeyRing, RingInvalid

_log = structlog.get_logger("minutehand.secrets")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSettings:
    """How clients' signing secrets are stored. APIs and pollers must have the same."""

    key_ring_file: str | None = None
    """File with the keys that secrets are encrypted under, `ID KEY` a line; the first one encrypts, all decrypt. See
    `minutehand secrets`. May change while processes run. None: new secrets are stored in the clear."""


class ClearBox:
    """`domain.ports.SecretBox` without a ring: new secrets stay in the clear, encrypted ones are locked."""

    primary = None
    generation = 0

    def seal(self, secret: SigningSecret) -> SigningSecret:
        return secret

    def open(self, secret: SigningSecret) -> SigningSecret:
        return KeyRing().open(secret)


class KeyRingBox:
    """`domain.ports.SecretBox` over a ring's file. Raises FilesUnusable where it can't be used at the start."""

    def __init__(self, file: str, *, randomness: Randomness) -> None:
        self._randomness = randomness
        self._ring = FromFiles([file], lambda: _load(file), on_refused=_report)

    @property
    def generation(self) -> int:
        self._ring.current()
        return self._ring.generation

    @property
    def primary(self) -> str | None:
        return self._ring.current().primary

    def seal(self, secret: SigningSecret) -> SigningSecret:
        return self._ring.current().seal(secret, randomness=self._randomness)

    def open(self, secret: SigningSecret) -> SigningSecret:
        return self._ring.current().open(secret)


def secret_box(settings: SecretSettings, *, randomness: Randomness) -> SecretBox:
    """The box that the settings ask for. Raises FilesUnusable."""
    file = settings.key_ring_file
    return ClearBox() if file is None else KeyRingBox(file, randomness=randomness)


def _load(file: str) -> KeyRing:
    try:
        return KeyRing.parse(read_text(file, setting=SETTING))
    except RingInvalid as error:
        raise FilesUnusable(f"{SETTING} names {file}, which is no key ring: {error}") from None


def _report(reason: str) -> None:
    _log.error("key-ring-refused", reason=reason, kept="the keys that were read before")
