"""A job that cannot begin says why in a sentence."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

from minutehand.cli import failures
from minutehand.local.machine import free_ports
from minutehand.processes.programs import clean_environment
from spark.errors import cause_of
from spark.jobs import JOBS
from tests.support.zone_files import zone_file


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("nothing is there.", "nothing is there."),
        ("java.io.IOException: Failed to open a connection\n\tat a.b.C(C.java:1)", "Failed to open a connection."),
        (
            "org.apache.spark.SparkException: Job aborted: Traceback (most recent call last):\n"
            '  File "x.py", line 1, in f\nmembership.errors.StoreUnavailable: No Cassandra answers\n'
            "\n\tat a.b.C(C.java:1)",
            "No Cassandra answers.",
        ),
    ],
)
def test_a_cause_in_a_sentence(said: str, cause: str) -> None:
    assert cause_of(AnalysisException(said)) == cause


def test_the_help_names_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.run(["spark", "run", "--help"]) == 0
    assert {job.name for job in JOBS} <= set(re.findall(r"\w+", capsys.readouterr().out))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--old", "{tmp}/none.whl"], "{tmp}/none.whl is neither `installed` nor a directory or wheel of zones"),
        (
            ["--old", "{tmp}/empty"],
            "{tmp}/empty holds no compiled zone: give a directory or wheel of tzdata, or `installed`",
        ),
        (["--old", "{tmp}/bare"], "--old: {tmp}/bare does not say which release it is: write its name, such as 2026a"),
        (["--old", "installed", "--new", "{tmp}/bare"], "--new: {tmp}/bare does not say which release it is"),
        (["--old", "installed"], "--old and --new are the same release, "),
        (
            ["--old", "{tmp}/named", "--output", "moves.txt"],
            "--output: moves.txt is to end in .parquet, .csv or .jsonl",
        ),
        (["--old", "installed", "--new", "{tmp}/named", "--apply"], "--apply needs the new release where it is run"),
    ],
)
def test_tz_audit_checks_its_releases_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    sentence: str,
) -> None:
    monkeypatch.setattr("minutehand.local.spark.prepare_spark", lambda progress: pytest.fail("Spark was started"))
    for name in ("bare", "named"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Town").write_bytes(zone_file(1))
    (tmp_path / "named" / "+VERSION").write_text("2031a\n")
    (tmp_path / "empty").mkdir()
    told = [one.format(tmp=tmp_path) for one in arguments]
    assert failures.run(["spark", "run", "tz_audit", *told]) == 2
    assert f"tz_audit: {sentence.format(tmp=tmp_path)}" in capsys.readouterr().err


def test_a_cassandra_that_is_not_there() -> None:
    (port,) = free_ports(1)
    where = {"MINUTEHAND_CASSANDRA_CONTACT_POINTS": "127.0.0.1", "MINUTEHAND_CASSANDRA_PORT": str(port)}
    done = subprocess.run(
        [sys.executable, "-m", "minutehand", "spark", "run", "--master", "local[1]", "usage"],
        env={**clean_environment(os.environ), **where},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    (sentence,) = (line for line in done.stderr.splitlines() if line.startswith("usage: "))
    assert "Spark could not do it: Failed to open native connection to Cassandra" in sentence
    assert str(port) in sentence
    assert "Traceback" not in done.stderr
    assert "\tat " not in done.stderr
