"""Minutehand's own processes, tied to the program that starts them: for the demo, the bench and the tests.

They die with their starter like every tied child. Their output goes to a file; their configuration comes from a file
and the few variables given here, never from Minutehand's variables in the starter's environment.
"""

import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from minutehand.errors import LocalError
from minutehand.processes.children import TiedChild
from minutehand.processes.identity import send_signal

_POLL_SECONDS = 0.05
_KEPT = ("MINUTEHAND_CACHE_DIR", "MINUTEHAND_JAVA_HOME", "MINUTEHAND_MAVEN_REPOSITORY")
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class ProgramFailed(LocalError):
    """A program ended, or did not get ready."""


class Program:
    """`python -m MODULE ARGUMENTS`, running. `name` identifies it in messages."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        log_file: Path,
        variables: Mapping[str, str] | None = None,
        module: str = "minutehand",
        directory: Path | None = None,
    ) -> None:
        """`directory`: the working directory, whose packages it imports first. None: this process's."""
        self.name = name
        self.log_file = log_file
        log_file.parent.mkdir(parents=True, exist_ok=True)
        self._child = TiedChild(
            [sys.executable, "-m", module, *arguments],
            console=log_file,
            directory=directory or Path.cwd(),
            environment={**clean_environment(os.environ), **(variables or {})},
        )

    @property
    def pid(self) -> int:
        return self._child.identity.pid

    def exit_code(self) -> int | None:
        """None while it runs, 128 + signal when one ended it."""
        return self._child.exit_code()

    def stop(self, grace_seconds: float = 25.0) -> None:
        """Ask it to end, and kill it after the grace. Idempotent."""
        self._child.end(grace_seconds)

    def kill(self) -> None:
        """End it at once, as a crash would. Returns when it is gone."""
        send_signal(self._child.identity, signal.SIGKILL)
        self._child.end(0.0)

    def send(self, number: signal.Signals) -> None:
        """Signal it."""
        send_signal(self._child.identity, number)

    def await_ready(self, url: str, *, seconds: float = 60.0) -> None:
        """Return when `url` answers 200. Raises ProgramFailed when the process ends first, or it takes too long."""
        deadline = time.monotonic() + seconds
        while not answers_ok(url):
            if self.exit_code() is not None:
                raise ProgramFailed(
                    f"The {self.name} did not start: {self.last_words()}", f"Its log is {self.log_file}."
                )
            if time.monotonic() > deadline:
                raise ProgramFailed(
                    f"The {self.name} was not ready within {seconds:.0f} s.", f"Its log is {self.log_file}."
                )
            time.sleep(_POLL_SECONDS)

    def last_words(self) -> str:
        """The last line of its output."""
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with code {self.exit_code()} and without output."


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without Minutehand's settings, except those that locate the embedded servers' downloads."""
    return {name: value for name, value in environment.items() if not name.startswith("MINUTEHAND_") or name in _KEPT}


def answers_ok(url: str) -> bool:
    """Whether a GET is answered 200 now. Bypasses proxies."""
    try:
        with _DIRECT.open(url, timeout=2.0) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False
