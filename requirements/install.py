"""Makes the virtual environment and installs one lock file into it, with progress.

Usage, from the project's root: python requirements/install.py VENV LOCK [--no-build-isolation]

With the flag, packages published as source only are built by the packages already installed (pip would fetch their
build tools unpinned).

Standard library only, because it runs before anything is installed. Every package is fetched by name and checked
against the hashes in the lock file; the project itself is then installed in place. An interrupted run continues where
it stopped. A run whose output nobody reads goes on without it.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import venv
from pathlib import Path

PIP_OPTIONS = ("--disable-pip-version-check", "--no-input")
OFFLINE_SIGNS = (
    "NewConnectionError",
    "Failed to establish a new connection",
    "NameResolutionError",
    "Network is unreachable",
)
HANDLED = re.compile(r"(?:Collecting|Ignoring|Requirement already satisfied:) ([\w.-]+)")
SECONDS_TO_TELL = (1.0, 5.0)
"""How often a step says that it goes on: on a terminal, where the line is overwritten, and anywhere else."""


class InstallError(Exception):
    """The environment is not usable; the message says what to do."""


class Steps:
    """Prints each step as it begins, and how long it takes while it does."""

    def __init__(self, *, every_seconds: float | None = None) -> None:
        on_terminal, elsewhere = SECONDS_TO_TELL
        self._terminal = sys.stdout.isatty()
        self._every_seconds = every_seconds or (on_terminal if self._terminal else elsewhere)
        self._text, self._began = "", 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> "Steps":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def begin(self, text: str) -> None:
        self._text, self._began = text, time.monotonic()
        show(text)

    def count(self, text: str) -> None:
        """One of many steps: without a terminal, `_tell` prints the latest of them."""
        self._text, self._began = text, time.monotonic()
        if self._terminal:
            show(text)

    def _tell(self) -> None:
        while not self._ended.wait(self._every_seconds):
            if self._text:
                show(self._text, f" ({time.monotonic() - self._began:.0f} s)")


def interpreter_of(directory: Path, steps: Steps) -> Path:
    """The environment's Python. The environment is rebuilt when it is missing, too old, moved, or its base Python was
    removed."""
    python, pip = directory / "bin" / "python", directory / "bin" / "pip"
    # pip's script names its interpreter by path, so it shows whether the environment was moved.
    if pip.is_file() and str(directory) in pip.read_text() and works(python):
        return python
    if importlib.util.find_spec("ensurepip") is None:
        version = "{}.{}".format(*sys.version_info)
        raise InstallError(
            f"{sys.executable} can't make virtual environments, because its ensurepip is missing: install it "
            f"(Debian, Ubuntu: apt install python{version}-venv), or name another Python with make PYTHON=..."
        )
    steps.begin(f"Creating {directory.name} with Python {sys.version.split()[0]} and pip")
    try:
        venv.EnvBuilder(clear=True, symlinks=True, with_pip=True).create(directory)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InstallError(f"The virtual environment could not be made in {directory}: {error}") from error
    return python


def works(python: Path) -> bool:
    probe = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([str(python), "-c", probe], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def install_lock(python: Path, lock: Path, steps: Steps, *options: str) -> None:
    """Install exactly what `lock` names. Raises InstallError with the end of pip's output when pip fails."""
    total = sum("==" in line for line in lock.read_text().splitlines())
    steps.begin(f"{lock.stem}: fetching up to {total} packages")
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        *PIP_OPTIONS,
        "--progress-bar=off",
        "--require-hashes",
        *options,
        "-r",
        str(lock),
    ]
    output: list[str] = []
    seen = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            for line in process.stdout or ():
                output.append(line.rstrip())
                if name := HANDLED.match(line):
                    seen += 1
                    steps.count(f"{lock.stem}: {seen} of {total} packages, {name[1]}")
                elif line.startswith("Installing collected packages"):
                    steps.begin(f"{lock.stem}: unpacking {line.count(',') + 1} packages")
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    if process.returncode != 0:
        raise InstallError(explain(output))


def show(text: str, ending: str = "", *, end: bool = False) -> None:
    """Print a line that the next one overwrites on a terminal, and an ordinary line anywhere else."""
    try:
        if sys.stdout.isatty():
            # Of a line that wraps only the last part could be overwritten.
            room = max(shutil.get_terminal_size().columns - 1 - len(ending), 0)
            print(f"\r\033[K{text if end else text[:room]}{ending}", end="\n" if end else "", flush=True)
        else:
            print(text + ending, flush=True)
    except OSError:
        # What is in the buffer must go somewhere, or the interpreter complains of it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def explain(output: list[str]) -> str:
    text = "\n".join(output)
    if any(sign in text for sign in OFFLINE_SIGNS):
        return "The package registry can't be reached: connect to the network, or configure pip, and run it again."
    if "No space left on device" in text:
        return "The disk is full: the environment needs about 1.5 GB. Free some space and run it again."
    return "pip could not install the pinned packages. Its last words:\n" + "\n".join(output[-15:])


def install_project(python: Path) -> None:
    command = [
        str(python),
        "-m",
        "pip",
        "install",
        *PIP_OPTIONS,
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-e",
        ".",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise InstallError(f"The project itself could not be installed:\n{done.stdout.strip()}")


def main(directory: Path, lock: Path, *options: str) -> int:
    try:
        with Steps() as steps:
            python = interpreter_of(directory, steps)
            install_lock(python, lock, steps, *options)
            steps.begin(f"{lock.stem}: installing the project itself")
            install_project(python)
    except InstallError as error:
        print("\n" * sys.stdout.isatty() + str(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The same command continues from here.", file=sys.stderr)
        return 130
    show(f"{lock.stem}: installed in {directory.name}", end=True)
    return 0


if __name__ == "__main__":
    if sys.stdout is None:
        # It was closed.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.exit(main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]), *sys.argv[3:]))
