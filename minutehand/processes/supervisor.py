"""A process between a program and its server, so that the server never outlives the program.

Run as a script by path, isolated (`python -I -S supervisor.py LOCK_FD COMMAND...`): it imports the standard library
only and starts in milliseconds. Its standard input is a pipe whose other end only the program holds. It starts the
command, prints its pid, and then:

    `stop SECONDS` on the pipe, or TERM, INT, HUP  ->  TERM to the command, KILL after the seconds
    the pipe ends, or the parent changes           ->  the program has died: the same, after ORPHAN_GRACE_SECONDS
    the command ends                               ->  exit with its code (128 + signal)

If the supervisor itself is killed, Linux kills the command (parent-death signal); other systems leave it running. The
command inherits `LOCK_FD`, so the lock is held as long as the command lives; -1 for none.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

ORPHAN_GRACE_SECONDS = 3.0
SIGNAL_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.1
_PR_SET_PDEATHSIG = 1


def _die_with(supervisor: int) -> None:
    """In the child, before exec: ask Linux for KILL when the supervisor dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The supervisor may have died before the request took effect.
        if os.getppid() != supervisor:
            os._exit(1)


def _end(child: subprocess.Popen[bytes], grace_seconds: float) -> int:
    # A stopped process would not receive TERM within the grace.
    child.send_signal(signal.SIGCONT)
    child.terminate()
    try:
        return child.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def _order(control: int, parent: int) -> float | None:
    """Poll the pipe and the parent; the grace with which to end the command, None to go on."""
    try:
        readable, _, _ = select.select([control], [], [], _POLL_SECONDS)
    except InterruptedError:
        return None
    if readable:
        words = os.read(control, 100).split()
        return float(words[1]) if len(words) == 2 else ORPHAN_GRACE_SECONDS
    return None if os.getppid() == parent else ORPHAN_GRACE_SECONDS


def main(arguments: Sequence[str]) -> int:
    """Run the command to its end; answers the exit code."""
    lock, command = int(arguments[0]), list(arguments[1:])
    parent, me = os.getppid(), os.getpid()
    signalled: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, frame: signalled.append(received))
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=2,
        pass_fds=() if lock < 0 else (lock,),
        preexec_fn=lambda: _die_with(me),
    )
    with contextlib.suppress(BrokenPipeError):
        os.write(1, f"{child.pid}\n".encode())
    while (code := child.poll()) is None:
        patience = SIGNAL_GRACE_SECONDS if signalled else _order(0, parent)
        if patience is not None:
            code = _end(child, patience)
            break
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
