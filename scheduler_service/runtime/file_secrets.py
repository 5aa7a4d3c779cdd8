"""Secrets of the configuration that come from files, and follow them.

A setting that is a secret is a text. If it was read from a file, it is a `FileSecret`: the text as of the start, and
where the present one is. Who uses a secret for longer than one request asks `now` at each use. Content that the
setting would refuse at the start is refused later too: the old stays in use, with a line in the log.

Some secrets may be several words: all of them are accepted, and the first is sent. So a secret that several processes
share is replaced without a gap: add the new one as the last, everywhere; move it to the front; remove the old one.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import Final, overload

from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.files import FilesUnusable, FromFiles, read_text

SECRET_LOOK_SECONDS: Final = 5.0


class FileSecret(str):
    """The text of a file as of the start. `check` raises ValueError for a later text that the setting refuses."""

    check: Callable[[str], object]
    _followed: FromFiles[str]

    @classmethod
    def read(cls, file: str, *, setting: str) -> "FileSecret":
        """Raises FilesUnusable."""
        secret = cls(read_text(file, setting=setting))
        secret.check = lambda text: None

        def checked() -> str:
            text = read_text(file, setting=setting)
            try:
                secret.check(text)
            except ValueError as error:
                raise FilesUnusable(f"{setting} names {file}, which can't be used: {error}") from None
            return text

        secret._followed = FromFiles([file], checked, what=f"secret {setting.removesuffix('_file')}")
        return secret

    def now(self) -> str:
        """The present text. Costs a few microseconds if the file has not changed."""
        return self._followed.current()


@overload
def now(secret: str) -> str: ...
@overload
def now(secret: str | None) -> str | None: ...
def now(secret: str | None) -> str | None:
    """The present text of a secret, whether or not it comes from a file."""
    return secret.now() if isinstance(secret, FileSecret) else secret


def words(secret: str) -> list[str]:
    """All that are accepted of a secret that may be several words."""
    return now(secret).split()


def sent(secret: str) -> str:
    """What is sent of a secret that may be several words: the first."""
    return words(secret)[0]


def accepts(secret: str, given: str) -> bool:
    """Whether `given` is one of the words of a secret. The time that it takes tells nothing about them."""
    offered = _hash(given)
    return sum(hmac.compare_digest(_hash(word), offered) for word in words(secret)) > 0


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogateescape")).digest()


async def keep_looking(secrets: Iterable[FileSecret], clock: Clock) -> None:
    """Look at the files until cancelled, so that a change is logged before the secret is used."""
    while True:
        for secret in secrets:
            secret.now()
        await clock.sleep(SECRET_LOOK_SECONDS)
