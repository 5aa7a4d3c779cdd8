"""Prometheus's programs for tests: `promtool` checks rules and queries, `prometheus` fires alerts.

They are taken from PATH, or else from Debian's package `prometheus`, which apt-get can download without root. The
package is kept in the download cache (`minutehand.local.jars.cache_directory`) and never installed.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from minutehand.local.jars import cache_directory
from minutehand.local.machine import free_ports
from minutehand.processes.children import TiedChild
from minutehand.reference_pages import Documented
from scheduler_service.runtime.metrics import Kind

RULES = Path("helm/minutehand/files/rules/minutehand.yaml")
DASHBOARD = Path("helm/minutehand/files/dashboards/minutehand.json")
RUNBOOK = Path("helm/minutehand/runbook.md")
PACKAGE = "prometheus"
FETCH_SECONDS = 120
_CHECK_SECONDS = 60
_API_SECONDS = 5


class NotToBeHad(Exception):
    """The program cannot be obtained here; the message says why."""


def find_program(name: str) -> Path:
    """`promtool` or `prometheus`. Raises NotToBeHad."""
    if (found := shutil.which(name)) is not None:
        return Path(found)
    kept = cache_directory() / "prometheus"
    if not (kept / "usr/bin" / name).is_file():
        _fetch(kept)
    return kept / "usr/bin" / name


def found_or_skipped(name: str) -> Path:
    """The program. Skips the test if there is none; the end of the run lists it."""
    try:
        return find_program(name)
    except NotToBeHad as reason:
        pytest.skip(f"no {name} is to be had ({reason}): what needs it was NOT tested")


def _fetch(kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix="prometheus-") as scratch:
        _run(["apt-get", "download", PACKAGE], cwd=scratch)
        (package,) = Path(scratch).glob("*.deb")
        _run(["dpkg", "-x", str(package), "unpacked"], cwd=scratch)
        try:
            os.rename(Path(scratch) / "unpacked", kept)
        except OSError:
            if not kept.is_dir():  # no other process was quicker
                raise


def _run(command: Sequence[str], *, cwd: str) -> None:
    if shutil.which(command[0]) is None:
        raise NotToBeHad(f"neither it nor {command[0]} is on PATH")
    try:
        subprocess.run(command, cwd=cwd, check=True, capture_output=True, timeout=FETCH_SECONDS, text=True)
    except (subprocess.SubprocessError, OSError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise NotToBeHad(f"{' '.join(command)} failed: {said.strip().splitlines()[-1]}") from error


def promtool(*arguments: str | Path) -> tuple[bool, str]:
    """Whether promtool accepted the input, and its output. Skips the test without promtool."""
    command = [found_or_skipped("promtool"), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_CHECK_SECONDS)
    return done.returncode == 0, done.stdout + done.stderr


def load_rules() -> list[dict[str, Any]]:
    """The alerts of the chart's file, in its order."""
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def write_rules(path: Path, rules: Sequence[Mapping[str, Any]], *, name: str = "under test") -> Path:
    """Write a rule file of one group that is evaluated every second."""
    document = {"groups": [{"name": name, "interval": "1s", "rules": list(rules)}]}
    path.write_text(yaml.safe_dump(document, width=1000), encoding="utf-8")
    return path


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def answer(self, path: str) -> Any:
        """The data that its API answers; None while it does not answer."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=_API_SECONDS) as answer:
                return json.load(answer)["data"]
        except (urllib.error.URLError, OSError):
            return None

    def firing(self) -> set[str]:
        """The names of the alerts that fire now."""
        alerts = (self.answer("/api/v1/alerts") or {"alerts": []})["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def healthy_targets(self) -> int:
        targets = (self.answer("/api/v1/targets") or {"activeTargets": []})["activeTargets"]
        return sum(target["health"] == "up" for target in targets)


@contextmanager
def running_prometheus(directory: Path, *, rules: Path, targets: Sequence[str]) -> Iterator[Prometheus]:
    """A Prometheus on a free loopback port that scrapes `targets` (host:port) every second."""
    program = found_or_skipped("prometheus")
    (port,) = free_ports(1)
    configuration = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "minutehand", "static_configs": [{"targets": list(targets)}]}],
    }
    file = directory / "prometheus.yaml"
    file.write_text(yaml.safe_dump(configuration), encoding="utf-8")
    child = TiedChild(
        [
            str(program),
            f"--config.file={file}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--storage.tsdb.path={directory / 'prometheus-data'}",
        ],
        console=directory / "prometheus.log",
    )
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        child.end(5.0)


def await_true(condition: Any, *, seconds: float, what: Any) -> None:
    """Poll until the condition is true. Raises AssertionError with `what()` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what()}"
        time.sleep(0.2)


def series_names(metrics: Iterable[Documented]) -> Iterator[str]:
    """The names by which Prometheus's queries know them."""
    for metric in metrics:
        if metric.kind is Kind.HISTOGRAM:
            yield from (f"{metric.name}_{part}" for part in ("bucket", "sum", "count"))
        else:
            yield metric.name
