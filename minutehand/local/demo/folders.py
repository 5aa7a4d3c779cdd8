"""A folder that only demos fill. It is marked, so that no demo writes to or deletes the files of anybody else.

    missing or empty --mark--> marked --demos write--> filled --empty--> marked

The mark is inside the folder, so it goes wherever the folder goes, and a folder that somebody puts in its place has
none. Deleting first renames everything into a folder of its own, so that an interrupted deletion leaves no half data.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from minutehand.errors import LocalError

MARK = "DEMO.TAG"
SIGNATURE = "Signature: minutehand-demo-1"
_TEXT = f"""{SIGNATURE}
# `minutehand demo --fresh` and `minutehand spark demo` delete what is in this folder.
"""
_DELETED = "deleted"
_OF_A_FILE_SYSTEM = "lost+found"


class DemoFolder:
    """One folder. `keeps` are names in it that stay when it is emptied."""

    def __init__(self, path: Path, *, keeps: Sequence[str] = ()) -> None:
        self.path = path
        self._keeps = frozenset((MARK, _OF_A_FILE_SYSTEM, *keeps))

    @property
    def marked(self) -> bool:
        """Whether demos fill it."""
        try:
            return (self.path / MARK).read_bytes().startswith(SIGNATURE.encode())
        except OSError:
            return False

    @property
    def foreign(self) -> bool:
        """Whether it is anything else than a marked folder or an empty one."""
        if self.marked or not os.path.lexists(self.path):
            return False
        return not self.path.is_dir() or bool(self.content())

    def content(self) -> list[Path]:
        """What is in it, without what stays when it is emptied."""
        if not self.path.is_dir():
            return []
        return [entry for entry in self.path.iterdir() if entry.name not in self._keeps]

    def mark(self) -> None:
        """Create and mark it. It must not be `foreign`."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.marked:
            (self.path / MARK).write_text(_TEXT, encoding="utf-8")

    def size_bytes(self) -> int:
        """How much disk its content takes."""
        return sum(entry.lstat().st_blocks * 512 for entry in self.path.rglob("*"))

    def check_deletable(self) -> None:
        """Raise LocalError when the content is behind a symbolic link, or holds other file systems."""
        content = self.content()
        for path in (self.path, *content):
            if path.is_symlink():
                raise LocalError(
                    f"{path} is a symbolic link, and a demo deletes nothing behind one.",
                    f"Delete by hand what is in {path.resolve()}, or choose another directory with --dir.",
                )
        for path in content:
            if path.is_mount():
                raise LocalError(
                    f"Another file system is mounted on {path}, and a demo deletes nothing in it.",
                    "Unmount it, or choose another directory with --dir.",
                )

    def empty(self) -> None:
        """Delete its content. The folder stays: it may be a mount point."""
        deleted = self.path / _DELETED
        if deleted.exists():
            # An earlier deletion was interrupted.
            shutil.rmtree(deleted)
        content = self.content()
        deleted.mkdir()
        for entry in content:
            entry.rename(deleted / entry.name)
        shutil.rmtree(deleted)
