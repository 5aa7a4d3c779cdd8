"""Values made of files that change while a process runs: certificates, passwords, keys.

    look at the files (stat) --> as before: the value that is known
                             --> changed:   load --> usable: the new value, from now on
                                                 --> not:    said once, the known value stays until they change again

Files are looked at through symbolic links. Kubernetes replaces a mounted secret by turning one link (`..data`), so all
files of a secret change at once; files that are replaced one after the other may be refused in between, once.
"""

import os
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from membership.errors import MinutehandError

T = TypeVar("T")
_Seen = tuple[tuple[int, int, int, int] | None, ...]


class FilesUnusable(MinutehandError):
    """Files that can't be read, or don't hold what they should. Says which and what to do, never what they hold."""


class FromFiles(Generic[T]):
    """What `load` makes of `files`. `load` raises FilesUnusable, the first time to whoever makes this object."""

    def __init__(self, files: Sequence[str], load: Callable[[], T], *, on_refused: Callable[[str], None]) -> None:
        """`on_refused` hears once of each change that could not be used, as a sentence."""
        self._files = tuple(files)
        self._load = load
        self._on_refused = on_refused
        self._seen = self._look()
        self._value = load()
        self.generation = 0
        """One more for every new value."""

    def current(self) -> T:
        """The value as of now. A few microseconds a file as long as nothing changed. May be called on any thread."""
        seen = self._look()
        if seen != self._seen:
            # Before loading: what changes meanwhile is loaded by the next call.
            self._seen = seen
            try:
                self._value = self._load()
            except FilesUnusable as error:
                self._on_refused(str(error))
            else:
                self.generation += 1
        return self._value

    @property
    def latest(self) -> T:
        """The value as of the last look, for what is asked often and does not mind an older one."""
        return self._value

    def _look(self) -> _Seen:
        return tuple(_fingerprint(file) for file in self._files)


def read_text(file: str, *, setting: str) -> str:
    """A file's text without the white space around it. Raises FilesUnusable, naming the setting and the file."""
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
