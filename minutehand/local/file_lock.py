"""An advisory lock on a file, held as long as any process has the open file.

It is `flock`: the kernel drops it when the last holder dies, so there is no stale lock to clear. A child that inherits
the descriptor holds the lock too; that is how a server holds the lock of its data directory.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self


class FileLock:
    """Not re-entrant; one object is one holder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free; answer whether this object holds it now. Creates the file and its directory."""
        if self._descriptor is not None:
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def fileno(self) -> int:
        """The descriptor to hand to a child. The lock must be held."""
        if self._descriptor is None:
            raise ValueError("the lock is not held")
        return self._descriptor

    def release(self) -> None:
        """Release this process's hold; children that inherited it keep theirs. Idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        if not self.try_acquire():
            raise BlockingIOError(f"{self._path} is locked by another process")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
