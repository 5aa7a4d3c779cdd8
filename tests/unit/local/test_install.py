"""The installation of the environment reports its steps and its progress."""

import importlib.util
import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from tests.architecture.sources import ROOT


def load() -> ModuleType:
    """Load the script, which belongs to no package."""
    spec = importlib.util.spec_from_file_location("install", ROOT / "requirements" / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def install() -> ModuleType:
    return load()


@pytest.fixture
def shown(install: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(install, "show", lambda text, *ending, **options: lines.append(text))
    return lines


def test_a_long_step_says_that_it_goes_on(install: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    repeated = threading.Event()

    def show(text: str, ending: str = "", *, end: bool = False) -> None:
        lines.append(text + ending)
        if len(lines) == 3:
            repeated.set()

    monkeypatch.setattr(install, "show", show)
    with install.Steps(every_seconds=0.001) as steps:
        steps.begin("Creating .venv")
        assert repeated.wait(5), "it is silent"
    first, *later = lines
    assert first == "Creating .venv"
    assert all(re.fullmatch(r"Creating \.venv \(0 s\)", line) for line in later), later


PIP = """\
import sys
if "--require-hashes" in sys.argv:
    print("Collecting aiohttp==1 (from -r lock)")
    print("Requirement already satisfied: rich==1 in there")
    print("Installing collected packages: aiohttp, rich")
"""


def test_each_stage_of_an_installation_has_a_line(install: ModuleType, shown: list[str], tmp_path: Path) -> None:
    (tmp_path / "pip.py").write_text(PIP)
    lock = tmp_path / "local.lock"
    lock.write_text("aiohttp==1\nrich==1\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}" exec python3 "$@"\n')
    python.chmod(0o755)
    with install.Steps(every_seconds=60) as steps:
        install.install_lock(python, lock, steps)
    assert shown == ["local: fetching up to 2 packages", "local: unpacking 2 packages"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_on_a_narrow_terminal_can_be_overwritten(install: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "20")
    install.show("local: fetching up to 96 packages", " (12 s)")
    install.show("local: installed in .venv", end=True)
    first, last = terminal.getvalue().split("\r\033[K")[1:]
    assert first == "local: fetch (12 s)"
    assert last == "local: installed in .venv\n", "nothing overwrites it"


@pytest.mark.parametrize("output", ["closed", "a pipe that nobody reads"])
def test_without_a_reader_it_goes_on(tmp_path: Path, output: str) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)
    (python.parent / "pip").write_text(str(tmp_path / "venv"))
    lock = tmp_path / "local.lock"
    lock.write_text("aiohttp==1\n")
    command = [sys.executable, str(ROOT / "requirements" / "install.py"), str(tmp_path / "venv"), str(lock)]
    if output == "closed":
        command = ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *command]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
