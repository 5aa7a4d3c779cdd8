"""A running `minutehand demo`: started as its user does, and known by what it prints."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from minutehand.processes.programs import clean_environment

START_SECONDS = 300.0
"""As long as a start itself waits for its parts: 180 s for Cassandra, 60 s for the API and 60 s for the nodes."""
_INVITED = "The next demo goes on with"


@contextmanager
def demo(directory: Path, *arguments: str, output: IO[str] | int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """A running `minutehand demo`, killed at the end if it still runs. `output`: where it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "minutehand", "demo", "--dir", str(directory), "--heap-mb", "512", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(os.environ),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


class Running(NamedTuple):
    """A demo that has said what to do next. `variables`: those of the lines that begin with `export`. `directory`:
    where it keeps its files. `log`: all that it prints."""

    variables: dict[str, str]
    directory: Path
    log: Path

    def await_line(self, pattern: str, *, seconds: float) -> re.Match[str]:
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern, self.log.read_text(encoding="utf-8"), re.MULTILINE)) is None:
            assert time.monotonic() < deadline, f"the demo does not say {pattern}:\n{self.log.read_text()}"
            time.sleep(0.2)
        return found

    @property
    def state(self) -> dict[str, Any]:
        """What it keeps for scripts: addresses, keys and process ids."""
        return dict(json.loads((self.directory / "demo.json").read_text(encoding="utf-8")))


@contextmanager
def invited(directory: Path) -> Iterator[Running]:
    """A demo whose first callbacks have come and that watches from then on. Ends with it."""
    found = Running({}, directory / "demo", directory / "demo.log")
    with found.log.open("w", encoding="utf-8") as output, demo(found.directory, output=output):
        found.await_line(_INVITED, seconds=START_SECONDS)
        found.variables.update(
            re.findall(r"^  export (\w+)=(.*)$", found.log.read_text(encoding="utf-8"), re.MULTILINE)
        )
        yield found
