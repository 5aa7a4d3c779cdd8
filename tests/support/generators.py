"""The pinned programs that generate clients from the OpenAPI document, the ones that lint it, and the compiler of the
TypeScript SDK.

They are installed once per machine, into the shared download cache, under the digest of their lock file: Python's into
an environment of its own, Node's by `npm ci`. One process installs at a time; the others wait and use its result.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from minutehand.local.file_lock import FileLock
from minutehand.local.jars import cache_directory

ROOT = Path(__file__).parents[2]
PYTHON_LOCK = ROOT / "requirements" / "generators.lock"
NODE_FILES = ROOT / "tests" / "integration" / "generated"
TYPESCRIPT_FILES = ROOT / "sdk" / "typescript"
LEAST_NODE = (20, 19)
WAIT_SECONDS = 0.5


class GeneratorsUnavailable(Exception):
    """The programs are not installed, and cannot be. The message says why."""


def ensure_python() -> Path:
    """The directory of the programs of Python's generator, installed if need be. Raises GeneratorsUnavailable."""

    def install(into: Path) -> None:
        _run([sys.executable, "-m", "venv", str(into)])
        pip = [str(into / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        _run([*pip, "--quiet", "--require-hashes", "-r", str(PYTHON_LOCK)])

    return _ensure("python", [PYTHON_LOCK], install) / "bin"


def ensure_node(files: Path = NODE_FILES) -> Path:
    """The directory with the `node_modules` that `files` locks, installed if need be. Raises GeneratorsUnavailable."""
    _check_node()

    def install(into: Path) -> None:
        into.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(files / name, into)
        _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], into)

    return _ensure("node", [files / "package-lock.json"], install)


def _check_node() -> None:
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        raise GeneratorsUnavailable("they run on Node.js, and no node and npm are on the PATH")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < LEAST_NODE:
        raise GeneratorsUnavailable(
            f"they need Node.js {'.'.join(map(str, LEAST_NODE))} or newer, not {said.strip() or 'this one'}"
        )


def _ensure(kind: str, locked: Sequence[Path], install: Callable[[Path], None]) -> Path:
    """The directory that `install` has filled. A stamp is written last, so an interrupted installation starts again. It
    is installed in place, because a Python environment cannot be moved.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in locked)).hexdigest()[:16]
    home = cache_directory() / "generators" / f"{kind}-{sys.version_info[0]}.{sys.version_info[1]}-{digest}"
    stamp, lock = home / "installed", FileLock(home.with_suffix(".lock"))
    while not stamp.is_file():
        if not lock.try_acquire():
            time.sleep(WAIT_SECONDS)
            continue
        try:
            if not stamp.is_file():
                shutil.rmtree(home, ignore_errors=True)
                install(home)
                stamp.touch()
        finally:
            lock.release()
    return home


def _run(command: list[str], directory: Path | None = None) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last_words = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise GeneratorsUnavailable(f"{command[0]} could not install them: {last_words}")
