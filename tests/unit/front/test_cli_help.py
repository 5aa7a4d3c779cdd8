"""The help of the command line: of every command and parameter, with examples that the commands take."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from minutehand.cli import failures
from minutehand.cli.app import app
from minutehand.client import OwnSettings
from tests.support.command_tree import command_tree


def commands(group: Any, name: str = "minutehand") -> Iterator[tuple[str, Any]]:
    for child, command in group.commands.items():
        path = f"{name} {child}"
        if hasattr(command, "commands"):
            yield from commands(command, path)
        else:
            yield path, command


ALL = dict(commands(command_tree()))
JOBS = "minutehand spark run"
"""It hands its arguments, --help too, to a job."""
SERVERS = {"minutehand api", "minutehand node", "minutehand ingest kafka", "minutehand demo", "minutehand spark demo"}


def test_there_is_a_command_for_everything_promised() -> None:
    wanted = {f"minutehand {name}" for name in ("api", "node", "migrate", "demo", "config", "metrics")}
    wanted |= {"minutehand spark run", "minutehand spark demo", "minutehand usage", "minutehand audits"}
    wanted |= {f"minutehand cassandra {verb}" for verb in ("start", "stop", "status")}
    wanted |= {f"minutehand clients {verb}" for verb in ("register", "list", "show", "suspend", "resume", "delete")}
    wanted |= {f"minutehand clients {verb}" for verb in ("trial-call", "set", "pause", "unpause")}
    wanted |= {f"minutehand keys {verb}" for verb in ("create", "list", "revoke")}
    wanted |= {f"minutehand schedules {verb}" for verb in ("create", "get", "show", "cancel", "list")}
    wanted |= {
        f"minutehand schedules {verb}"
        for verb in ("redeliver", "reschedule", "update", "run", "attempts", "cancel-window", "reschedule-window")
    }
    wanted |= {f"minutehand ingest {verb}" for verb in ("kafka", "schema", "send")}
    wanted |= {f"minutehand dead-letters {verb}" for verb in ("list", "redeliver", "acknowledge")}
    wanted |= {f"minutehand reconciliations {verb}" for verb in ("create", "show", "list", "schedules", "stop")}
    verbs = ("put", "list", "show", "pause", "resume", "trigger", "delete", "runs", "preview")
    wanted |= {f"minutehand crons {verb}" for verb in verbs}
    wanted |= {f"minutehand destinations {verb}" for verb in ("put", "get", "list", "pause", "resume", "delete")}
    wanted |= {f"minutehand subscriptions {verb}" for verb in ("put", "show", "list", "delete")}
    assert wanted <= ALL.keys()


@pytest.mark.parametrize("path", sorted(ALL))
def test_every_command_and_every_parameter_has_help(path: str) -> None:
    command = ALL[path]
    assert len(command.help or "") > 15
    for parameter in command.params:
        assert getattr(parameter, "help", None) or parameter.name == "help", f"{path} {parameter.name}"
    if path not in SERVERS:
        assert "--json" in {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("path", sorted(ALL))
def test_every_command_has_an_example_that_it_takes(path: str) -> None:
    example = (ALL[path].epilog or "").partition("Example: ")[2]
    assert example.startswith(path)
    line = example.removeprefix(path).partition(" >")[0]
    assert ALL[path].make_context(path, shlex.split(line))


def test_every_help_ends_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    groups = {path.rpartition(" ")[0] for path in ALL}
    assert "minutehand" in groups
    for path in sorted({*ALL, *groups} - {JOBS}):
        assert failures.run([*path.split()[1:], "--help"]) == 0
        usage, *_, last = capsys.readouterr().out.rstrip().split("\n\n")
        assert "[[" not in usage, path
        # On one line, however long: what is copied from an example can be run.
        assert "\n" not in last, path
        assert f"{last} ".startswith(f"  Example: {path} "), path


def test_the_help_of_set_names_every_setting_of_a_client_s_own() -> None:
    (given,) = (one for one in ALL["minutehand clients set"].params if one.name == "settings")
    assert set(OwnSettings.__annotations__) <= set(re.findall(r"\w+", given.help))


HELPS = """
import sys
from minutehand.cli import failures
for line in sys.stdin:
    assert failures.run(line.split()) == 0
print(*sys.modules)
"""
SLOW = {"asyncio", "httpx", "minutehand.client", "msgspec", "pydantic", "rich", "scheduler_service", "ssl"}


def test_help_imports_nothing_slow() -> None:
    groups = {path.rpartition(" ")[0] for path in ALL}
    lines = "\n".join(f"{path} --help".removeprefix("minutehand ") for path in sorted({*ALL, *groups} - {JOBS}))
    program = [sys.executable, "-c", HELPS]
    loaded = subprocess.run(program, input=lines, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    assert SLOW & set(loaded.split()) == set()


@pytest.mark.parametrize("path", sorted(ALL.keys() - {JOBS}))
def test_help_is_what_the_command_itself_prints(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINUTEHAND_CA_FILE", "")
    words = path.split()[1:]
    assert failures.run([*words, "--help"]) == 0
    assert failures.run(["--ca-file", "unread.pem", *words, "-h"]) == 0
    said = capsys.readouterr().out
    assert said == said[: len(said) // 2] * 2
    assert "Usage: minutehand" in said


def test_help_of_what_is_no_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.run(["shedules", "--help"]) == 2
    assert "Did you mean 'schedules'?" in capsys.readouterr().err
    assert failures.run(["schedules", "creat", "-h"]) == 2
    assert failures.run(["schedules", "create", "extra", "--help"]) == 0


def test_no_command_is_summed_up_by_half_a_sentence() -> None:
    root: Any = typer.main.get_command(app)
    groups = [root, *(group for group in command_tree().commands.values() if hasattr(group, "commands"))]
    cut = {}
    for group in groups:
        room = 80 - 2 - 6 - max(map(len, group.commands))
        for name, command in group.commands.items():
            if (summary := command.get_short_help_str(room)).endswith("..."):
                cut[f"{group.name} {name}"] = summary
    assert cut == {}
