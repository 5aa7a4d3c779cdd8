"""Values loaded from files that change while a process runs: certificates, passwords, keys.

    stat the files --unchanged--> the present value
          `-----changed--> load --usable--> the new value, from now on; a line in the log
                            `---not usable--> the present value stays until they change again; a line in the log

Symbolic links are followed. Kubernetes replaces a mounted secret by changing one link (`..data`), so all files of a
secret change at once; files that are replaced one after the other may be refused in between, once.
"""

import os
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from membership.errors import MinutehandError
from scheduler_service.runtime.logging import get_logger

_log = get_logger("minutehand")
T = TypeVar("T")
_Seen = tuple[tuple[int, int, int, int] | None, ...]


class FilesUnusable(MinutehandError):
    """Files can't be read, or have the wrong content. Says which and what to do, never what they hold."""


class FromFiles(Generic[T]):
    """The value that `load` makes of `files`. `load` may raise FilesUnusable; the constructor lets that through."""

    def __init__(self, files: Sequence[str], load: Callable[[], T], *, what: str) -> None:
        """`what` the files hold, for the log."""
        self._files = tuple(files)
        self._load = load
        self._what = what
        self._seen = self._look()
        self._value = load()
        self.generation = 0
        """Incremented with every new value."""

    def current(self) -> T:
        """The value as of now. Costs a few microseconds a file if nothing changed. May be called on any thread."""
        seen = self._look()
        if seen != self._seen:
            # Set before loading, so that a change during the load is noticed by the next call.
            self._seen = seen
            try:
                self._value = self._load()
            except FilesUnusable as error:
                _log.error("files-refused", what=self._what, reason=str(error), kept="what was read before")
            else:
                self.generation += 1
                _log.info("files-read-again", what=self._what, files=list(self._files))
        return self._value

    @property
    def latest(self) -> T:
        """The value as of the last `current`, for frequent callers that accept an older one."""
        return self._value

    def _look(self) -> _Seen:
        return tuple(_fingerprint(file) for file in self._files)


def read_text(file: str, *, setting: str) -> str:
    """A file's text, stripped. Raises FilesUnusable, naming the setting and the file."""
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read().strip()
    except OSError as error:
        raise FilesUnusable(f"{setting} names {file}, which can't be read ({(error.strerror or '').lower()})") from None
    except UnicodeDecodeError:
        raise FilesUnusable(f"{setting} names {file}, which is no text (UTF-8)") from None
    if not text:
        raise FilesUnusable(f"{setting} names {file}, which is empty")
    return text


def _fingerprint(file: str) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
