"""Runs what the chart adds to our own programs: the test's wait, and the shell line of the jobs."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.helm.chart import Chart, Document, of_kind
from tests.support.chart_reference import CHART


class _Probe(BaseHTTPRequestHandler):
    """Is ready at the third request where the path asks for that; counts the requests."""

    asked: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.asked.append((self.command, self.path))
        ready = self.path == "/readyz" or (self.path == "/late/readyz" and len(self.asked) > 2)
        body = b'{"status":"ok"}' if ready else b'{"reasons":["storage is not reachable"]}'
        self.send_response(200 if ready else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep its log out of the suite's output."""


@pytest.fixture
def server() -> Iterator[str]:
    _Probe.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Probe) as serving:
        thread = Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


def program(documents: list[Document]) -> tuple[list[str], list[str]]:
    """The test pod's command, with these addresses instead of its own."""
    ((pod),) = of_kind(documents, "Pod")
    command = pod["spec"]["containers"][0]["command"]
    return command[:3], command[4:]


def wait(documents: list[Document], seconds: str, *addresses: str) -> subprocess.CompletedProcess[str]:
    python, option, text = program(documents)[0]
    assert python == "python"
    command = [sys.executable, option, text, seconds, *addresses]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def test_the_test_asks_the_api_and_every_node_whether_they_are_ready(
    rendered: Mapping[str, list[Document]],
) -> None:
    for documents in rendered.values():
        secured = "API_TLS_CERT_FILE" in str(of_kind(documents, "Deployment"))
        (api,) = of_kind(documents, "Service", "-api")
        (headless,) = of_kind(documents, "Service", "-node")
        (nodes,) = of_kind(documents, "StatefulSet")
        scheme, host = "https" if secured else "http", api["metadata"]["name"]
        of_nodes = "https" if "OPS_TLS_CERT_FILE" in str(nodes) else "http"
        service, port = nodes["spec"]["serviceName"], headless["spec"]["ports"][0]["port"]
        assert program(documents)[1] == [
            f"{scheme}://{host}:{api['spec']['ports'][0]['port']}/readyz",
            *(
                f"{of_nodes}://{nodes['metadata']['name']}-{number}.{service}:{port}/readyz"
                for number in range(nodes["spec"]["replicas"])
            ),
        ]
        ((pod),) = of_kind(documents, "Pod")
        assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
        assert not pod["spec"]["containers"][0].get("env"), "what only looks needs no keys"


def test_the_test_passes_when_all_are_ready(rendered: Mapping[str, list[Document]], server: str) -> None:
    done = wait(rendered["minimal"], "10", f"{server}/readyz", f"{server}/late/readyz")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert {method for method, _ in _Probe.asked} == {"GET"}


def test_the_test_fails_with_the_reason(rendered: Mapping[str, list[Document]], server: str) -> None:
    done = wait(rendered["minimal"], "0", f"{server}/never")
    assert done.returncode == 1
    assert "503" in done.stdout
    assert "storage is not reachable" in done.stdout
    gone = wait(rendered["minimal"], "0", "http://127.0.0.1:9/readyz")
    assert gone.returncode == 1
    assert "refused" in gone.stdout


def jobs(documents: list[Document], tmp_path: Path) -> dict[str, list[str]]:
    """What each CronJob's shell line starts: the arguments of `minutehand`, by the job's name."""
    fake = tmp_path / "minutehand"
    fake.write_text('#!/bin/sh\nfor one in "$@"; do echo "$one"; done\n')
    fake.chmod(0o755)
    started = {}
    for one in of_kind(documents, "CronJob"):
        container = one["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
        variables = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        done = subprocess.run(
            container["command"], env=variables, capture_output=True, text=True, check=False, timeout=10
        )
        assert (done.returncode, done.stderr) == (0, "")
        started[one["metadata"]["name"].partition("-minutehand-")[2].replace("-", "_")] = done.stdout.splitlines()
    return started


def test_jobs_get_the_window_before_now(rendered: Mapping[str, list[Document]], tmp_path: Path) -> None:
    before = datetime.now(UTC)
    started = jobs(rendered["everything"], tmp_path)
    assert started.keys() == {"audit_books", "usage", "archive"}
    for name, given in started.items():
        assert given[:5] == ["spark", "run", "--memory", "2g", "--json"]
        assert given[5] == name
    window = [datetime.fromisoformat(text) for text in started["audit_books"][6:] if re.match(r"\d", text)]
    assert window[1] - window[0] == timedelta(hours=1)
    assert timedelta(hours=1) <= before - window[1] + timedelta(seconds=30) <= timedelta(hours=2, minutes=1)
    assert all(one == one.replace(minute=0, second=0) for one in window)
    assert started["archive"][6:] == ["--output", "/archive"]


def test_a_job_does_not_run_beside_itself(rendered: Mapping[str, list[Document]]) -> None:
    for one in of_kind(rendered["everything"], "CronJob"):
        assert one["spec"]["concurrencyPolicy"] == "Forbid"
        assert one["spec"]["timeZone"] == "Etc/UTC"
    assert not of_kind(rendered["minimal"], "CronJob")


def test_days_are_days_in_utc(tmp_path: Path, rendered: Mapping[str, list[Document]]) -> None:
    (one,) = of_kind(rendered["everything"], "CronJob", "-usage")
    text = one["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"][2]
    shell = text.split("exec ")[0] + 'echo "$(day -1) $(day 0)"'
    done = subprocess.run(
        ["/bin/sh", "-euc", shell], env={"TZ": "Pacific/Kiritimati", "PATH": "/usr/bin:/bin"}, capture_output=True,
        text=True, check=True, timeout=10,
    )  # fmt: skip
    first, second = (datetime.fromisoformat(day) for day in done.stdout.split())
    assert second - first == timedelta(days=1)
    assert abs(second - datetime.now(UTC).replace(tzinfo=None)) <= timedelta(days=1)


def test_the_waiting_program_is_the_file_beside_the_chart(rendered: Mapping[str, list[Document]]) -> None:
    assert program(rendered["minimal"])[0][2].strip() == (CHART / "files" / "ready.py").read_text().strip()


def test_the_commands_of_the_notes_reach_the_api_with_the_administrators_key(chart: Chart, tmp_path: Path) -> None:
    """The command that `kubectl exec` would start in an API pod, started here with a program that prints its
    arguments.
    """
    fake, key = tmp_path / "minutehand", tmp_path / "admin-key"
    fake.write_text('#!/bin/sh\necho "$MINUTEHAND_KEY" "$@"\n')
    fake.chmod(0o755)
    key.write_text("the-administrators-key\n")
    lines = [
        shlex.split(line) for line in chart.notes("minimal", tmp_path / "chart").splitlines() if "kubectl exec" in line
    ]
    said = []
    for words in lines:
        assert words[words.index("--") :][:3] == ["--", "sh", "-c"]
        variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "MINUTEHAND_API_ADMIN_KEY_FILE": str(key)}
        command = words[words.index("--") + 1 :]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True, timeout=10)
        said.append(done.stdout.strip())
    assert said == [
        "the-administrators-key clients register shop --url http://127.0.0.1:8080",
        "the-administrators-key keys create shop --url http://127.0.0.1:8080",
    ]
