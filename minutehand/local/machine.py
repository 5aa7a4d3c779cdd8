"""What this machine has to spare: memory and disk."""

import shutil
from pathlib import Path

from minutehand.local.errors import DiskFull, TooLittleMemory

BESIDE_HEAP_MB = 400
"""What a small Cassandra uses beside its heap: classes, compiled code, threads, buffers, mapped files."""
DISK_MB = 512
"""What an empty server writes at once (commit log segments, system tables) with room for a first run."""
_MIB = 1024 * 1024


def check_memory(heap_mb: int, available_mb: int | None) -> None:
    """Raise `TooLittleMemory` when the heap and what comes beside it exceed `available_mb` (None: not known)."""
    needed_mb = heap_mb + BESIDE_HEAP_MB
    if available_mb is not None and available_mb < needed_mb:
        raise TooLittleMemory(needed_mb=needed_mb, available_mb=available_mb, heap_mb=heap_mb)


def check_disk(directory: Path) -> None:
    """Raise `DiskFull` when the file system of `directory` has less than `DISK_MB` free."""
    available_mb = shutil.disk_usage(directory).free // _MIB
    if available_mb < DISK_MB:
        raise DiskFull(directory=directory, available_mb=available_mb, needed_mb=DISK_MB)


def available_memory_mb(root: Path = Path("/")) -> int | None:
    """Memory that can be had without swapping: the machine's, or what the control group leaves if that is less.

    None where the system does not tell (macOS).
    """
    known = [size for size in (_machine_bytes(root), _group_bytes(root)) if size is not None]
    return min(known) // _MIB if known else None


def _machine_bytes(root: Path) -> int | None:
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _group_bytes(root: Path) -> int | None:
    """Version 2 of control groups only, as seen from inside a container. Cached file pages can be reclaimed."""
    group = root / "sys/fs/cgroup"
    limit, used = _text(group / "memory.max").strip(), _text(group / "memory.current").strip()
    if not limit.isdigit() or not used.isdigit():
        return None
    statistics = dict(line.split() for line in _text(group / "memory.stat").splitlines())
    reclaimable = int(statistics.get("inactive_file", 0)) + int(statistics.get("active_file", 0))
    return max(int(limit) - int(used) + reclaimable, 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
