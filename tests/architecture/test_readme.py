"""The README keeps to what exists, and begins with the two commands."""

import ast
import os
import re
from typing import Any

import typer.main

from minutehand import client
from minutehand.cli.app import app
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


def test_every_file_of_the_examples_that_it_names_exists() -> None:
    named = set(re.findall(r"`(examples/[a-z_/.]+)`", README))
    assert named
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_its_python_is_python_that_the_sdk_has() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    imported = next(node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.ImportFrom))
    assert imported.module == "minutehand.client"
    assert {alias.name for alias in imported.names} <= set(client.__all__)
    called = {node.attr for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Attribute)}
    assert called - {"schedules", "schedule_id"} <= {
        name for part in (client.Minutehand, client.ClientScope, schedules(), schedules().bulk()) for name in dir(part)
    }


def test_every_command_of_its_own_exists() -> None:
    known = commands()
    named = set(re.findall(r"^minutehand ([a-z-]+(?: [a-z-]+)?)", README, re.MULTILINE))
    assert named
    assert {words for words in named if words not in known and words.split()[0] not in known} == set()


def schedules() -> Any:
    with client.Minutehand("http://127.0.0.1", "the-key") as api:
        return api.client("shop").schedules


def commands() -> set[str]:
    """Those of the command line: single ones by their name, those of a group by both."""
    tree: Any = typer.main.get_command(app)
    found = set()
    for name, command in tree.commands.items():
        children = getattr(command, "commands", None)
        found |= {name} if children is None else {f"{name} {child}" for child in children}
    return found
