"""A program that was written for GoScheduler's README runs unchanged, and its receiver is called once and on time."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.support.cassandra import SuiteCassandra
from tests.support.processes import Deployment, deployment

PROGRAM = Path(__file__).parents[2] / "examples" / "goscheduler.sh"
LATE_SECONDS = 2.0
CRON_SECONDS = 150.0
"""The first fire of a cron of every minute may be two minutes ahead."""

Call = tuple[float, str, dict[str, str], bytes]


@contextmanager
def receiver(calls: list[Call]) -> Iterator[str]:
    """Its URL. It records each call: when, how, headers, body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            at = time.time()
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            calls.append((at, self.command, dict(self.headers.items()), body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/hook"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def cluster(cassandra: SuiteCassandra, tmp_path: Path) -> Iterator[Deployment]:
    with deployment(cassandra, tmp_path, tables={"goscheduler": {"apps": ("test", "Athena=athena")}}) as built:
        built.start_api()
        built.start_node("node-a")
        yield built


def run(cluster: Deployment, **variables: str) -> list[str]:
    """The words of the program's last line: id, due, status."""
    done = subprocess.run(
        ["sh", PROGRAM],
        env={"PATH": os.environ["PATH"], "GOSCHEDULER": cluster.api_url, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1].split()


def test_the_program_of_the_readme(cluster: Deployment) -> None:
    """It calls the server itself, as the README's own example does."""
    _, _, status = run(cluster)
    assert status == "SUCCESS"


def test_its_receiver_is_called_once_and_on_time(cluster: Deployment) -> None:
    calls: list[Call] = []
    with receiver(calls) as url:
        id_, due, status = run(cluster, CALLED=url, METHOD="POST", CRON="* * * * *")
        assert status == "SUCCESS"
        (first,) = (call for call in calls if "Parent-Schedule-Id" not in call[2])
        at, method, headers, body = first
        assert 0 <= at - int(due) < LATE_SECONDS
        assert (method, body) == ("POST", b"{}")
        assert headers["Schedule-Id"] == headers["Minutehand-Schedule-Id"] == id_
        assert (headers["Content-Type"], headers["Accept"]) == ("application/json", "application/json")
        (cron,) = httpx.get(f"{cluster.api_url}/goscheduler/crons/schedules", trust_env=False).json()["data"]
        deadline = time.monotonic() + CRON_SECONDS
        while not (fired := [call for call in calls if "Parent-Schedule-Id" in call[2]]):
            assert time.monotonic() < deadline, "the cron did not fire"
            time.sleep(0.2)
        at, _, headers, _ = fired[0]
        assert at % 60 < LATE_SECONDS
        assert headers["Parent-Schedule-Id"] == headers["Minutehand-Cron-Id"] == cron["scheduleId"]
        path = f"{cluster.api_url}/goscheduler/schedules"
        run_shown = httpx.get(f"{path}/{headers['Schedule-Id']}", trust_env=False).json()["data"]["schedule"]
        assert (run_shown["appId"], run_shown["scheduleTime"] % 60) == ("test", 0)
        runs = httpx.get(f"{path}/{cron['scheduleId']}/runs", params={"when": "past"}, trust_env=False).json()
        assert headers["Schedule-Id"] in [one["scheduleId"] for one in runs["data"]["schedules"]]
        deleted = httpx.delete(f"{path}/{cron['scheduleId']}", trust_env=False).json()["data"]["schedule"]
        assert deleted["status"] == "DELETED"
        assert len(calls) == len({call[2]["Schedule-Id"] for call in calls})
