"""Runs the lines of a page of documentation as its reader would: in one shell and one Python, from top to bottom.

    page --dates moved to today, ports and the address for words filled in--> a program of bash, a program of Python

A page may be read on any day: its dates move by as many days as today is after `WRITTEN`. Commands that have no end are
interrupted after a while, and a request that is refused ends the program, as a command that fails does.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, NamedTuple

from minutehand.local.machine import free_ports
from minutehand.processes.programs import clean_environment

ROOT: Final = Path(__file__).resolve().parents[2]
WRITTEN: Final = date(2026, 11, 22)
"""The day after that on which examples take place: windows of that day are past at any hour."""
ENDLESS_SECONDS: Final = 30
"""How long what has no end is watched: an overdue schedule is told of within that time."""
INTERRUPTED: Final = 124
"""The exit code of a program that had no end."""
BLOCK: Final = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)
OF_A_CLOCK_OF_ITS_OWN: Final = {"docs/how-to/test-with-virtual-time.md"}
"""Pages whose dates stay as they are."""
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d(?=[T\"& ])")
_PREVIEWED = ("crons preview", '{"expression"')
_PORT = re.compile(r"\b9000\b")

SHELL: Final = """\
set -eEu -o pipefail
trap 'echo "failed: $BASH_COMMAND" >&2' ERR
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT

curl() {
    case " $* " in
    *" -N "*) command curl -sS --fail-with-body --max-time 5 "$@" || [ $? = 28 ] ;;
    *) command curl -sS --fail-with-body --max-time 60 "$@" ;;
    esac
    echo
}

minutehand() {
    case "$*" in
    # In the background: killed with the jobs of this shell.
    "dev "*) exec minutehand "$@" ;;
    "events tail "*) timeout --signal INT "$ENDLESS_SECONDS" minutehand "$@" || [ $? = 124 ] ;;
    # What a reader sees refused: its schedule waits; no Kafka is offered; nobody has that name; the receiver refuses.
    "destinations delete "*" warehouse" | *"--kind kafka"* | *"--destination orders"*) ! command minutehand "$@" ;;
    "clients trial-call "*"--destination billing" | "clients trial-call "*cancelled*) ! command minutehand "$@" ;;
    *) command minutehand "$@" ;;
    esac
}

# A busy machine is slower than a reader's.
sleep() { command sleep $((3 * $1)); }

# What installs, fetches or starts something.
make() { :; }
pip() { :; }
pipx() { :; }
npx() { :; }
npm() { :; }
go() { :; }

# The address that the demo's receiver has shown last.
address_for_words() {
    until grep -o 'http[^ ]*/v1/acknowledgements/[^ ]*' "$DEMO_LOG" | tail -n 1 | grep .; do command sleep 0.2; done
}
"""


class Ran(NamedTuple):
    """What came of a program. `said`: all that it printed."""

    code: int
    said: str


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a language of a page, such as `docs/using.md`, in order."""
    return [code for name, code in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")) if name == language]


def moved(text: str, *, today: date) -> str:
    """The text with its dates as far from `today` as they are from `WRITTEN`. Where a rule is previewed they stay:
    clocks are changed on certain days."""

    def move(found: re.Match[str]) -> str:
        return str(date.fromisoformat(found[0]) + (today - WRITTEN))

    lines = text.splitlines(keepends=True)
    return "".join(line if any(word in line for word in _PREVIEWED) else _DATE.sub(move, line) for line in lines)


def run_shell(page: str, variables: Mapping[str, str], directory: Path, *, demo_log: Path) -> Ran:
    """Run the page's lines for a shell. `variables`: those that the demo prints. `demo_log`: what it prints."""
    (port,) = free_ports(1)
    lines = "\n".join(blocks(page, "sh")).replace("ACK_URL=...", "ACK_URL=$(address_for_words)")
    script = directory / "page.sh"
    today = WRITTEN if page in OF_A_CLOCK_OF_ITS_OWN else _today()
    script.write_text(SHELL + _PORT.sub(str(port), moved(lines, today=today)), encoding="utf-8")
    also = {"DEMO_LOG": str(demo_log), "ENDLESS_SECONDS": str(ENDLESS_SECONDS)}
    return _run(["bash", str(script)], {**variables, **also}, directory)


def run_python(page: str, variables: Mapping[str, str], directory: Path) -> Ran:
    """Run the page's Python as one program. One without an end is interrupted."""
    program = directory / "page.py"
    program.write_text(moved("\n".join(blocks(page, "python")), today=_today()), encoding="utf-8")
    interrupted = ["timeout", "--signal", "INT", str(ENDLESS_SECONDS)]
    return _run([*interrupted, sys.executable, "-W", "ignore::ResourceWarning", str(program)], variables, directory)


def _run(command: list[str], variables: Mapping[str, str], directory: Path) -> Ran:
    (directory / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**clean_environment(os.environ), **variables, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    return Ran(done.returncode, done.stdout)


def _today() -> date:
    return datetime.now(UTC).date()
