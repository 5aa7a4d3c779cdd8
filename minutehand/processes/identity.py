"""Processes by identity, so that a reused pid is never mistaken for the process that had it before."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A pid and the start time of its process as the system reports it: opaque, compared for equality only."""

    pid: int
    started: str


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of the process that has `pid` now; None when there is none, or only its exit status is left."""
    started = _started_linux(pid) if Path("/proc/self/stat").exists() else _started_ps(pid)
    return None if started is None else ProcessIdentity(pid, started)


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether this process is running."""
    return identify(identity.pid) == identity


def send_signal(identity: ProcessIdentity, number: signal.Signals) -> bool:
    """Signal this process; False when it is gone."""
    if not is_alive(identity):
        return False
    try:
        # The process may end between check and signal, but a pid is not reused that quickly.
        os.kill(identity.pid, number)
    except ProcessLookupError:
        return False
    return True


def freeze(identity: ProcessIdentity, *, patience_seconds: float = 5.0) -> bool:
    """Stop this process, and return when every thread of it stands still; False when it is gone.

    Sending the signal is not enough: threads on another core run on until they next enter the kernel.
    """
    if not send_signal(identity, signal.SIGSTOP):
        return False
    deadline = time.monotonic() + patience_seconds
    while not _stands_still(identity.pid) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS / 10)
    return True


def end_process(identity: ProcessIdentity, *, grace_seconds: float, reap: Callable[[], object] = lambda: None) -> None:
    """TERM, and KILL after the grace; returns when it is gone. `reap` collects the exit status of a child."""
    # A stopped process would not receive TERM within the grace.
    send_signal(identity, signal.SIGCONT)
    for number, patience in ((signal.SIGTERM, grace_seconds), (signal.SIGKILL, 30.0)):
        if not send_signal(identity, number):
            break
        deadline = time.monotonic() + patience
        while is_alive(identity) and time.monotonic() < deadline:
            reap()
            time.sleep(_POLL_SECONDS)
    reap()


def _started_linux(pid: int) -> str | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    # The name, in parentheses, may hold spaces and parentheses, so fields are counted from its end, state first.
    fields = text.rpartition(")")[2].split()
    # Field 22 of stat, the start in clock ticks since boot: unique only together with the boot's id.
    return None if fields[0] in "ZX" else f"{boot}/{fields[19]}"


def _stands_still(pid: int) -> bool:
    threads = Path(f"/proc/{pid}/task")
    if not threads.exists():
        states = subprocess.run(
            ["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False
        ).stdout
        return states.strip()[:1] in ("T", "")
    return all(_state_linux(thread) in "TZX" for thread in threads.iterdir())


def _state_linux(thread: Path) -> str:
    """The state's letter; a thread that is gone counts as dead."""
    try:
        return (thread / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def _started_ps(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    return None if not answer or answer[0].startswith("Z") else " ".join(answer[1:])
