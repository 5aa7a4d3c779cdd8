"""The life of an embedded server, with a fake Java: starts, ends, and nothing left behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from minutehand.local import EmbeddedCassandra, LocalError, RunningCassandra, find_cassandra, start_cassandra
from minutehand.local import cassandra as room
from minutehand.local.errors import DataDirLocked, PortBusy, StartFailed, TooLittleMemory
from minutehand.local.lock_file import JarSet
from minutehand.local.machine import free_ports
from minutehand.local.state import read_state
from minutehand.processes.identity import ProcessIdentity, identify, is_alive
from tests.support import fake_java

PATIENCE_SECONDS = 20.0


@pytest.fixture(autouse=True)
def no_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "read_lock", lambda name: JarSet(name, "org.example:none:0", ()))


def recipe(directory: Path, behaviour: str, **changes: Any) -> EmbeddedCassandra:
    native_port, storage_port = free_ports(2)
    values: dict[str, Any] = {
        "data_dir": directory / "data",
        "native_port": native_port,
        "storage_port": storage_port,
        "heap_mb": 1,
        "environment": fake_java.home(directory / "java", behaviour),
    }
    return EmbeddedCassandra(**{**values, **changes})


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return met


def gone(identity: ProcessIdentity) -> bool:
    return eventually(lambda: not is_alive(identity))


@pytest.mark.parametrize("tied", [True, False])
def test_a_server_starts_stops_and_starts_again(tmp_path: Path, tied: bool) -> None:
    made = recipe(tmp_path, fake_java.ANSWERS, tied=tied)
    for _ in range(2):
        with made.start() as running:
            identity = identify(running.pid)
            assert running.is_running()
            assert running.answers()
            assert (running.contact_points, running.port) == (("127.0.0.1",), made.native_port)
        assert identity is not None
        assert not is_alive(identity)
        assert not running.is_running()
        assert find_cassandra(made.data_dir) is None
        running.stop()


def test_a_data_directory_has_one_server(tmp_path: Path) -> None:
    made = recipe(tmp_path, fake_java.ANSWERS)
    with made.start() as running:
        with pytest.raises(DataDirLocked, match=rf"process {running.pid}, port {made.native_port}"):
            made.start()
        assert running.answers()


@pytest.mark.parametrize("port", ["native_port", "storage_port"])
def test_a_busy_port_is_named_before_anything_starts(tmp_path: Path, port: str) -> None:
    made = recipe(tmp_path, fake_java.ANSWERS)
    setting = {"native_port": "--native-port", "storage_port": "--storage-port"}[port]
    with socket.create_server(("127.0.0.1", getattr(made, port))), pytest.raises(PortBusy, match=setting):
        made.start()
    assert not (made.data_dir / "conf").exists()
    assert read_state(made.data_dir) is None


def test_a_heap_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TooLittleMemory):
        recipe(tmp_path, fake_java.ANSWERS, heap_mb=10_000_000).start()


@pytest.mark.parametrize("tied", [True, False])
def test_a_server_that_ends_at_once_says_why(tmp_path: Path, tied: bool) -> None:
    made = recipe(tmp_path, "says ERROR [main] - Saved cluster name Other", tied=tied)
    with pytest.raises(StartFailed, match="Saved cluster name Other"):
        made.start()
    assert read_state(made.data_dir) is None


@pytest.mark.parametrize("tied", [True, False])
def test_a_server_that_never_answers_is_ended(tmp_path: Path, tied: bool) -> None:
    made = recipe(tmp_path, fake_java.SILENT, tied=tied, start_seconds=0.3)
    seen: list[ProcessIdentity] = []

    def progress(done: int, total: int, what: str) -> None:
        state = read_state(made.data_dir)
        seen.extend([state.identity] if state else [])

    with pytest.raises(StartFailed, match="no answer within 0 s"):
        made.start(progress)
    assert seen
    assert not is_alive(seen[0])


@pytest.mark.parametrize("tied", [True, False])
def test_a_server_that_ignores_its_end_is_killed(tmp_path: Path, tied: bool) -> None:
    running = recipe(tmp_path, fake_java.DEAF, tied=tied).start()
    identity = identify(running.pid)
    assert identity is not None
    running.stop(grace_seconds=0.1)
    assert not is_alive(identity)


@pytest.mark.parametrize("tied", [True, False])
def test_a_paused_server_goes_on_and_stops_while_paused(tmp_path: Path, tied: bool) -> None:
    with recipe(tmp_path, fake_java.ANSWERS, tied=tied).start() as running:
        running.pause()
        assert not running.answers(timeout_seconds=0.1)
        running.resume()
        assert running.answers()
        running.pause()
    assert not running.is_running()


def test_a_port_that_was_snatched_is_chosen_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def start(self: EmbeddedCassandra, progress: object) -> RunningCassandra:
        tried.append(self.native_port)
        raise PortBusy(host=self.host, port=self.native_port, setting=self.native_port_setting)

    monkeypatch.setattr(EmbeddedCassandra, "start", start)
    with pytest.raises(PortBusy):
        start_cassandra(tmp_path)
    assert len(set(tried)) == 3
    with pytest.raises(PortBusy):
        start_cassandra(tmp_path, native_port=9999)
    assert tried[3:] == [9999]


@contextmanager
def program(directory: Path, behaviour: str, *, tied: bool) -> Iterator[subprocess.Popen[str]]:
    """A program that starts a server on `directory/data`; it prints `begun`, then the server's pid."""
    fake_java.home(directory / "java", behaviour)
    native_port, storage_port = free_ports(2)
    words = [directory / "data", directory / "java", native_port, storage_port, "tied" if tied else "detached"]
    command = [sys.executable, "-c", fake_java.starter, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "begun\n"
        try:
            yield started
        finally:
            started.kill()


def server_of(started: subprocess.Popen[str]) -> ProcessIdentity:
    assert started.stdout is not None
    identity = identify(int(started.stdout.readline()))
    assert identity is not None
    return identity


@pytest.mark.parametrize(
    ("behaviour", "number"),
    [
        (fake_java.ANSWERS, signal.SIGKILL),
        (fake_java.ANSWERS, signal.SIGTERM),
        (fake_java.ANSWERS, signal.SIGINT),
        (fake_java.DEAF, signal.SIGKILL),
    ],
)
def test_a_tied_server_dies_with_its_program(tmp_path: Path, behaviour: str, number: signal.Signals) -> None:
    with program(tmp_path, behaviour, tied=True) as started:
        server = server_of(started)
        os.kill(started.pid, number)
        assert gone(server)
    assert find_cassandra(tmp_path / "data") is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a parent-death signal")
def test_a_tied_server_dies_with_its_supervisor(tmp_path: Path) -> None:
    running = recipe(tmp_path, fake_java.DEAF).start()
    server = identify(running.pid)
    assert server is not None
    supervisor = int(Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert supervisor != os.getpid()
    os.kill(supervisor, signal.SIGKILL)
    assert gone(server)
    running.stop()


def test_a_tied_server_belongs_to_its_program(tmp_path: Path) -> None:
    with program(tmp_path, fake_java.ANSWERS, tied=True) as started:
        server = server_of(started)
        found = find_cassandra(tmp_path / "data")
        assert found is not None
        with pytest.raises(LocalError, match="belongs to a program that is running"):
            found.stop()
        assert is_alive(server)
    assert gone(server)


def test_a_program_interrupted_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    with program(tmp_path, fake_java.SILENT, tied=False) as started:
        assert eventually(lambda: read_state(tmp_path / "data") is not None)
        state = read_state(tmp_path / "data")
        assert state is not None
        os.kill(started.pid, signal.SIGINT)
        assert started.wait(PATIENCE_SECONDS) != 0
    assert not is_alive(state.identity)


def test_a_detached_server_outlives_its_program_and_is_found(tmp_path: Path) -> None:
    with program(tmp_path, fake_java.ANSWERS, tied=False) as started:
        server = server_of(started)
        assert started.wait(PATIENCE_SECONDS) == 0
    found = find_cassandra(tmp_path / "data")
    assert found is not None
    assert found.answers()
    assert found.pid == server.pid
    found.stop()
    assert not is_alive(server)
    assert find_cassandra(tmp_path / "data") is None
