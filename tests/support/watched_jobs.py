"""What another user of the machine could see of a Spark job while it runs."""

import contextlib
import json
import stat
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.processes import Deployment

OWN = "minutehand-spark-*"
"""Where a job keeps what Spark's connector reads."""


class Ran(NamedTuple):
    """A job that went well. `command_lines`: of all processes of this machine, while it ran. `kept`: the modes of its
    own files meanwhile, by name, and of their directory. `left`: those that are there afterwards."""

    report: dict[str, Any]
    command_lines: set[str]
    kept: dict[str, int]
    left: list[Path]


def watched_job(cluster: Deployment, name: str, *arguments: str) -> Ran:
    """`minutehand spark run`, looked at from outside until it ends. Raises AssertionError where it did not go well."""
    scratch = cluster.directory / f"scratch-{name}"
    scratch.mkdir()
    arguments = ("spark", "run", "--json", "--master", "local[2]", name, *arguments)
    program = cluster.start(name, list(arguments), variables={"TMPDIR": str(scratch)})
    lines, kept = set[str](), dict[str, int]()
    while program.exit_code() is None:
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                lines.add(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        for directory in scratch.glob(OWN):
            with contextlib.suppress(OSError):
                for one in (directory, *directory.iterdir()):
                    kept["" if one is directory else one.name] = stat.S_IMODE(one.stat().st_mode)
        time.sleep(0.05)
    said = program.log_file.read_text(encoding="utf-8")
    assert program.exit_code() == 0, said
    return Ran(json.loads(said.splitlines()[-1]), lines, kept, list(scratch.glob(OWN)))
