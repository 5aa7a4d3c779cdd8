"""The README keeps to what exists, and begins with the two commands."""

import os
import re

from tests.architecture.sources import ROOMS, ROOT

README = (ROOT / "README.md").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_two_commands_come_first() -> None:
    assert re.findall(r"make ([a-z]+)", README)[:2] == ["demo", "test"]


def test_every_command_it_names_exists() -> None:
    named = set(re.findall(r"(?:`|^ *(?:\$ )?)make ([a-z-]+)", README, re.MULTILINE))
    assert named - TARGETS == set()


def test_every_module_it_names_exists() -> None:
    named = {path for path in re.findall(r"`([a-z_]+/[a-z_/]+)(?:\.py)?`", README) if path.split("/")[0] in ROOMS}
    missing = [path for path in named if not ((ROOT / path).is_dir() or (ROOT / f"{path}.py").is_file())]
    assert named
    assert missing == []


def test_the_gates_run_the_test_command_of_the_readme() -> None:
    gates = ROOT / ".ci" / "run"
    assert os.access(gates, os.X_OK)
    assert re.search(r"for gate in lint types imports test;", gates.read_text())
