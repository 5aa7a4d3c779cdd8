"""Records what another user of the machine could see of a running Spark job."""

import contextlib
import json
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from minutehand.local.spark import prepare_spark
from minutehand.processes.programs import Program
from tests.support.processes import Deployment

OWN = "minutehand-spark-*"
"""The directory in which a job keeps what Spark's connector reads."""


class Ran(NamedTuple):
    """A successful job. `command_lines`: of all processes of this machine during the run. `kept`: the modes of the
    job's own files during the run, by name, and of their directory. `left`: the files that remain afterwards.
    """

    report: dict[str, Any]
    command_lines: set[str]
    kept: dict[str, int]
    left: list[Path]


def watched_job(cluster: Deployment, name: str, *arguments: str) -> Ran:
    """Run `minutehand spark run` and watch it from outside. Raises AssertionError unless it succeeds."""
    scratch = cluster.directory / f"scratch-{name}"
    scratch.mkdir()
    command = ["spark", "run", "--json", "--master", "local[2]", name, *arguments]
    return _watched(cluster.start(name, command, variables={"TMPDIR": str(scratch)}), scratch)


def submitted_job(directory: Path, conf: Mapping[str, object], name: str) -> Ran:
    """The same for `spark-submit --properties-file`, with pyspark's arguments."""
    scratch = directory / f"scratch-submitted-{name}"
    scratch.mkdir()
    properties = scratch / "spark.properties"
    properties.write_text("".join(f"{key} {value}\n" for key, value in conf.items()))
    jars = ",".join(map(str, prepare_spark()))
    options = f"--master local[2] --properties-file {properties} --jars {jars} pyspark-shell"
    program = Program(
        f"submitted-{name}",
        [name, "--json"],
        log_file=scratch / "log",
        module="spark",
        variables={"TMPDIR": str(scratch), "PYSPARK_SUBMIT_ARGS": options},
    )
    try:
        return _watched(program, scratch)
    finally:
        program.stop()


def _watched(program: Program, scratch: Path) -> Ran:
    lines, kept = set[str](), dict[str, int]()
    while program.exit_code() is None:
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                lines.add(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        for directory in scratch.glob(OWN):
            with contextlib.suppress(OSError):
                for one in (directory, *directory.iterdir()):
                    kept["" if one is directory else one.name] = stat.S_IMODE(one.stat().st_mode)
        time.sleep(0.2)
    said = program.log_file.read_text(encoding="utf-8")
    assert program.exit_code() == 0, said
    (report,) = (line for line in said.splitlines() if line.startswith("{"))
    return Ran(json.loads(report), lines, kept, list(scratch.glob(OWN)))
