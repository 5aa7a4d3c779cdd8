"""Free resources of this machine: loopback ports, memory and disk."""

import errno
import ipaddress
import random
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from minutehand.errors import LocalError
from minutehand.local.errors import DiskFull, PortBusy, PortUnusable, TooLittleMemory

CHOICE = range(18_000, 30_000)
"""Below the range of ephemeral ports, so that a port chosen now is still free a little later."""
_TRIES = 200

BESIDE_HEAP_MB = 400
"""Memory of a small Cassandra beside its heap: classes, compiled code, threads, buffers, mapped files."""
DISK_MB = 512
"""Disk that an empty server uses at once (commit log segments, system tables) with room for a first run."""
_MIB = 1024 * 1024


def free_ports(count: int, hosts: Sequence[str] = ("127.0.0.1",)) -> list[int]:
    """`count` different ports, each free on every one of `hosts` right now. Nothing reserves them."""
    found: list[int] = []
    for port in random.SystemRandom().sample(CHOICE, _TRIES + count):
        if all(_refusal(host, port) is None for host in hosts):
            found.append(port)
            if len(found) == count:
                return found
    raise LocalError(f"No {count} free ports were found on {', '.join(hosts)}.", "Close programs that listen there.")


def check_loopback(host: str) -> None:
    """Raise `LocalError` unless `host` is a loopback address: an embedded server has no password."""
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise LocalError(
            f"An embedded server has no password and listens on loopback addresses only, not on {host}.",
            "Use 127.0.0.1 (or 127.0.0.2, ... for more servers).",
        )


def check_port(host: str, port: int, *, setting: str) -> None:
    """Raise `PortBusy` or `PortUnusable` unless a server could listen on `host` and `port` now."""
    refusal = _refusal(host, port)
    if refusal is None:
        return
    if refusal.errno == errno.EADDRINUSE:
        raise PortBusy(host=host, port=port, setting=setting)
    raise PortUnusable(host=host, port=port, reason=refusal.strerror or "refused", setting=setting)


def _refusal(host: str, port: int) -> OSError | None:
    """The error of binding and listening, None when it works. Like servers, it sets SO_REUSEADDR, so connections of a
    former server in TIME_WAIT do not count."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OverflowError:
            return OSError(errno.EINVAL, "no such port")
        except OSError as error:
            return error
    return None


def check_memory(
    heap_mb: int,
    available_mb: int | None,
    *,
    beside_mb: int = BESIDE_HEAP_MB,
    server: str = "Cassandra",
    least_mb: int = 512,
) -> None:
    """Raise `TooLittleMemory` when the heap and the memory beside it exceed `available_mb` (None: not known)."""
    needed_mb = heap_mb + beside_mb
    if available_mb is not None and available_mb < needed_mb:
        raise TooLittleMemory(
            needed_mb=needed_mb, available_mb=available_mb, heap_mb=heap_mb, server=server, least_mb=least_mb
        )


def check_disk(directory: Path, *, freed_bytes: int = 0) -> None:
    """Raise `DiskFull` when the file system of `directory`, which need not exist yet, has less than `DISK_MB` free,
    `freed_bytes` included."""
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    available_mb = (shutil.disk_usage(existing).free + freed_bytes) // _MIB
    if available_mb < DISK_MB:
        raise DiskFull(directory=directory, available_mb=available_mb, needed_mb=DISK_MB)


def available_memory_mb(root: Path = Path("/")) -> int | None:
    """Memory available without swapping: the machine's, or what the control group leaves if that is less.

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
    """The rest of this container's limit, control groups version 2 only. Cached file pages can be reclaimed."""
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
