"""The README begins with the two commands, and its programs run."""

import ast
import os
import re
import shlex
from typing import Any

import pytest
import yaml

from minutehand import client
from tests.architecture.sources import ROOT
from tests.support.command_tree import command_tree

README = (ROOT / "README.md").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_two_commands_come_first() -> None:
    assert re.findall(r"make ([a-z]+)", README)[:2] == ["demo", "test"]


def test_the_gates_run_the_test_command_of_the_readme() -> None:
    gates = ROOT / ".ci" / "run"
    assert os.access(gates, os.X_OK)
    named = gates_of(gates.read_text())
    assert named - TARGETS == set()
    assert "test" in named
    assert re.search(r'^    make .*"\$gate"$', gates.read_text(), re.MULTILINE)


def test_the_forge_runs_the_same_as_the_gates() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "gates.yml").read_text())
    run = " ".join(workflow["jobs"]["gates"]["strategy"]["matrix"]["gate"]).split()
    recipe = re.findall(r"^test:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    suites = " ".join(re.findall(r"\$\(MAKE\)(?: --[a-z-]+)* ([a-z ]+)", "".join(recipe))).split()
    assert suites
    assert sorted(run) == sorted(gates_of((ROOT / ".ci" / "run").read_text()) - {"test"} | set(suites))


def gates_of(script: str) -> set[str]:
    (named,) = re.findall(r"^for gate in ([a-z -]+); do$", script, re.MULTILINE)
    return set(named.split())


@pytest.mark.parametrize("document", ["README.md", "docs/using.md"])
def test_its_python_is_python_that_the_sdk_has(document: str) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    imported = next(node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.ImportFrom))
    assert imported.module == "minutehand.client"
    assert {alias.name for alias in imported.names} <= set(client.__all__)
    called = {node.attr for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Attribute)}
    assert called - {"schedules", "schedule_id", "environ"} <= {
        name for part in (client.Minutehand, client.ClientScope, schedules(), schedules().bulk()) for name in dir(part)
    }


def schedules() -> Any:
    with client.Minutehand("http://127.0.0.1", "the-key") as api:
        return api.client("shop").schedules


@pytest.mark.parametrize("document", ["using", "operations"])
def test_commands_take_what_the_guides_give_them(document: str) -> None:
    text = (ROOT / "docs" / f"{document}.md").read_text().replace("\\\n", " ")
    lines = re.findall(r"^minutehand ((?:'[^']*'|[^'#<\n])+)", text, re.MULTILINE)
    assert len(lines) > 10
    tree = command_tree()
    for line in lines:
        command, arguments = tree, shlex.split(line)
        while children := getattr(command, "commands", None):
            command = children[arguments.pop(0)]
        assert command.make_context(line, arguments), line


def commands() -> set[str]:
    """The command line's commands: single ones by their name, those of a group by both."""
    tree = command_tree()
    found = set()
    for name, command in tree.commands.items():
        children = getattr(command, "commands", None)
        found |= {name} if children is None else {f"{name} {child}" for child in children}
    return found
