"""The demo, run as a newcomer does: in a separate process and an empty directory."""

import contextlib
import json
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest

from minutehand.local.demo.files import DemoDirectory
from minutehand.local.settings import FIRST_COMPILER
from minutehand.processes.identity import ProcessIdentity, identify, is_alive
from minutehand.profiles import read_profiles
from tests.bench.cpu import cpu_seconds
from tests.support.demos import START_SECONDS, demo

KEYS = {"api_url", "admin_key", "client_id", "client_key", "signing_secret", "receiver_url", "pids"}
START_CPU = 20.0
"""What all processes compute until demo.json is there, in starts of a node: 12 to 15 of them, on machines of any speed
and under any load, which change CPU seconds by half."""
GONE_SECONDS = 15.0
ROOT = Path(__file__).parents[2]


def await_state(directory: Path, process: subprocess.Popen[str]) -> dict[str, Any]:
    """The contents of a running demo's demo.json; a killed one may have left its own."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            output, errors = process.communicate()
            pytest.fail(f"there is no demo.json; the demo ended with {process.returncode} and said:\n{output}{errors}")
        with contextlib.suppress(FileNotFoundError):
            state: dict[str, Any] = json.loads((directory / "demo.json").read_text(encoding="utf-8"))
            if identify(state["pids"]["cassandra"]) is not None:
                return state
        time.sleep(0.1)


def identities(state: dict[str, Any]) -> list[ProcessIdentity]:
    pids = state["pids"]
    found = [identify(pid) for pid in (pids["cassandra"], *pids["api"], *pids["nodes"])]
    assert None not in found, "a process of demo.json does not run"
    return [one for one in found if one is not None]


def assert_gone(processes: list[ProcessIdentity]) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    while left := [one.pid for one in processes if is_alive(one)]:
        assert time.monotonic() < deadline, f"left running: {left}"
        time.sleep(0.1)


def test_the_demo_from_its_first_start_to_its_second(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    with demo(directory) as first:
        state = await_state(directory, first)
        assert state.keys() == KEYS
        assert state["pids"].keys() == {"cassandra", "api", "nodes"}
        assert (len(state["pids"]["api"]), len(state["pids"]["nodes"])) == (1, 2)
        assert stat.S_IMODE((directory / "demo.json").stat().st_mode) == 0o600
        processes = identities(state)
        used = [cpu_seconds(pid) or 0.0 for pid in (first.pid, *(one.pid for one in processes))]
        assert sum(used) <= START_CPU * median(used[-2:]), used
        if (command := Path(f"/proc/{processes[0].pid}/cmdline")).exists():
            assert FIRST_COMPILER in command.read_text().split("\0")
        for key in (state["admin_key"], state["client_key"]):
            answer = httpx.get(
                f"{state['api_url']}/v1/clients/{state['client_id']}/schedules",
                headers={"Authorization": f"Bearer {key}"},
                trust_env=False,
            )
            assert answer.status_code == 200
            with httpx.Client(base_url=state["api_url"], trust_env=False, follow_redirects=True) as browser:
                first_page = browser.post("/console/login", data={"key": key})
                assert (first_page.status_code, "Log out" in first_page.text) == (200, True)
        corner = [str(ROOT / "examples" / "own_corner.py"), "--url", state["api_url"], "--client", state["client_id"]]
        tour = subprocess.run(
            [sys.executable, *corner, "--key", state["client_key"]], capture_output=True, text=True, timeout=150
        )
        assert (tour.returncode, tour.stderr) == (0, ""), tour.stdout
        with demo(directory, "--once") as beside:
            output, errors = beside.communicate(timeout=60)
            assert beside.returncode == 1
            assert re.fullmatch(r"Another demo runs in .*\. Stop it, or .*\.\n", errors), errors
        assert all(map(is_alive, processes)), "a second demo harmed the first"
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert_gone(processes)
    with demo(directory, "--once") as again:
        second = await_state(directory, again)
        kept = ("api_url", "receiver_url", "admin_key", "client_key", "signing_secret")
        assert [second[name] for name in kept] == [state[name] for name in kept]
        profile = read_profiles()["demo"]
        assert (profile.url, profile.key) == (state["api_url"], state["admin_key"])
        processes = identities(second)
        output, errors = again.communicate(timeout=120)
        assert again.returncode == 0, output + errors
        assert "Its data is that of an earlier demo: calls that came due while nothing ran are made now." in output
        assert "All 5 came, and their signatures are right." in output
        assert re.findall(r"Stopping ([\w -]+)", output) == ["node demo-2", "node demo-1", "the API", "Cassandra"]
        assert f"Everything is stopped. The data stays in {directory}." in output
        assert not (directory / "demo.json").exists()
        assert_gone(processes)
        (seconds,) = re.findall(r"\((\d+) s since the start\)", output)
        assert int(seconds) < 60, "20 are promised; a machine that is busy with other things gets more"


def test_an_interrupt_stops_everything(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    DemoDirectory(directory).mark()
    (directory / "cassandra" / "older").touch()
    with demo(directory, "--fresh") as running:
        processes = identities(await_state(directory, running))
        assert not (directory / "cassandra" / "older").exists()
        running.send_signal(signal.SIGINT)
        output, errors = running.communicate(timeout=60)
        assert "earlier demo" not in output
        assert running.returncode in (0, 130), errors
        assert "Traceback" not in errors
        assert_gone(processes)
        assert not (directory / "demo.json").exists()


def test_calls_go_to_the_demos_kafka_by_the_lines_that_it_prints(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        """[kafka.clusters.elsewhere]
brokers = ["127.0.0.1:9"]
clients = ["demo"]
topic_prefixes = ["demo."]
""",
        encoding="utf-8",
    )
    with demo(tmp_path / "demo", "--kafka", "--nodes", "1", "--targets", str(own)) as running:
        assert running.stdout is not None
        said: list[str] = []
        while not (said and said[-1].startswith("The next demo goes on")):
            line = running.stdout.readline()
            assert line, "".join(said) + (running.stderr.read() if running.stderr is not None else "")
            said.append(line)
        (read,) = [line for line in said if " ingest read " in line]
        assert '{"order":"to Kafka"}' in "".join(said), "the demo's own call"
        exports = [line.strip() for line in said if line.startswith("  export ")]
        put, create = (line.strip() for line in said[said.index(read) - 2 : said.index(read)])
        elsewhere = put.replace("/orders ", "/elsewhere ").replace('"cluster": "demo"', '"cluster": "elsewhere"')
        first = shell(exports, elsewhere, put, create)
        assert first.count('"kind":"kafka"') == 2, first
        deadline = time.monotonic() + 60
        while 'value      {"order":19}' not in (found := shell(exports, read.strip())):
            assert time.monotonic() < deadline, found
            time.sleep(0.2)
        assert "webhook-signature: v1," in found
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)


def shell(*lines: list[str] | str) -> str:
    """What a shell of a newcomer prints for these lines."""
    program = "\n".join(line for some in lines for line in ([some] if isinstance(some, str) else some))
    done = subprocess.run(["sh", "-euc", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
