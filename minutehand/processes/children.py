"""The two ways in which a server is bound to the program that started it.

Tied: a supervisor process runs between the two, and the server dies when the program does, by whatever cause. Detached:
the server outlives its starter; any program that finds its state file may stop it.

Both start the server in a new session, so that Ctrl-C in a terminal reaches the program only, which stops its servers
in the order it chooses.
"""

import contextlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from minutehand.processes import supervisor
from minutehand.processes.identity import ProcessIdentity, end_process, identify, is_alive


class Child(Protocol):
    """A started server process."""

    @property
    def identity(self) -> ProcessIdentity: ...

    def exit_code(self) -> int | None:
        """None while it runs; else its code (128 + signal), or 0 when the code is not known any more."""

    def end(self, grace_seconds: float) -> None:
        """TERM, KILL after the grace; returns when it is gone. Idempotent."""


class TiedChild:
    """A server behind a supervisor."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        console: Path | None,
        directory: Path | None = None,
        lock: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`console`: where its output goes. `lock` is inherited by the server. None: this process's own standard error,
        no lock, its directory, its environment."""
        with contextlib.nullcontext() if console is None else console.open("wb") as output:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, str(-1 if lock is None else lock), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=directory,
                env=environment,
                pass_fds=() if lock is None else (lock,),
                start_new_session=True,
            )
        try:
            self._identity = _first_identity(self._supervisor)
        except BaseException:
            self._supervisor.kill()
            self._close()
            raise

    @property
    def identity(self) -> ProcessIdentity:
        return self._identity

    def exit_code(self) -> int | None:
        code = self._supervisor.poll()
        return code if code is None or code >= 0 else 128 - code

    def end(self, grace_seconds: float) -> None:
        stdin = self._supervisor.stdin
        if stdin is not None and not stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                stdin.write(f"stop {grace_seconds}\n".encode())
                stdin.flush()
        try:
            # The supervisor sends KILL after the grace by itself; the rest is room for a busy machine.
            self._supervisor.wait(grace_seconds + 15.0)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
        end_process(self._identity, grace_seconds=0.0)
        self._close()

    def _close(self) -> None:
        self._supervisor.wait()
        for pipe in (self._supervisor.stdin, self._supervisor.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class DetachedChild:
    """A server without a supervisor, started by this process."""

    def __init__(self, command: Sequence[str], *, console: Path, directory: Path, lock: int) -> None:
        with console.open("wb") as output:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=directory,
                pass_fds=(lock,),
                start_new_session=True,
            )
        identity = identify(self._process.pid)
        # It has ended already. Its pid can't have been reused: this process has not reaped it yet.
        self._identity = identity or ProcessIdentity(self._process.pid, "over")

    @property
    def identity(self) -> ProcessIdentity:
        return self._identity

    def exit_code(self) -> int | None:
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def end(self, grace_seconds: float) -> None:
        end_process(self._identity, grace_seconds=grace_seconds, reap=self._process.poll)
        self._process.wait()


class FoundChild:
    """A detached server that another process started."""

    def __init__(self, identity: ProcessIdentity) -> None:
        self._identity = identity

    @property
    def identity(self) -> ProcessIdentity:
        return self._identity

    def exit_code(self) -> int | None:
        return None if is_alive(self._identity) else 0

    def end(self, grace_seconds: float) -> None:
        end_process(self._identity, grace_seconds=grace_seconds)


def _first_identity(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    assert process.stdout is not None
    pid = int(process.stdout.readline() or b"0")
    return identify(pid) or ProcessIdentity(pid, "over")
