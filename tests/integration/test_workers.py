"""Processes under a supervising parent: signals, their exits, and the parent's exit."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minutehand.processes.identity import ProcessIdentity, identify, is_alive

PARENT = """
import sys
from minutehand.processes.workers import Work, WorkersFailed, run_workers
directory, *works = sys.argv[1:]
try:
    run_workers(
        [Work(name=w, module="tests.support.worker", arguments=[directory, *w.split()]) for w in works],
        grace_seconds=20.0,
    )
except WorkersFailed as error:
    sys.exit(str(error))
"""


class Parent:
    """`run_workers` in a process of its own, whose workers write files into a directory."""

    def __init__(self, directory: Path, *works: str) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(directory), *works], stderr=subprocess.PIPE, text=True
        )

    def marks(self, name: str) -> list[Path]:
        return sorted(self.directory.glob(f"{name}-*"), key=lambda mark: mark.stat().st_mtime_ns)

    def running(self, name: str) -> ProcessIdentity | None:
        """The last process of that name, if it runs."""
        marks = self.marks(name)
        return identify(int(marks[-1].name.rpartition("-")[2])) if marks else None

    def await_running(self, *names: str) -> list[ProcessIdentity]:
        await_until(lambda: all(self.running(name) for name in names))
        return [found for name in names if (found := self.running(name)) is not None]

    def end(self) -> tuple[int, str]:
        """The parent's exit code and output."""
        _, said = self.process.communicate(timeout=40)
        return self.process.returncode, said


def await_until(reached: Callable[[], bool], *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Parent]]:
    parents: list[Parent] = []

    def begin(*works: str) -> Parent:
        parents.append(Parent(tmp_path, *works))
        return parents[-1]

    yield begin
    for parent in parents:
        parent.process.kill()
        parent.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_goes_to_all_and_all_end_in_good_order(start: Callable[..., Parent], number: signal.Signals) -> None:
    parent = start("a", "b", "c")
    children = parent.await_running("a", "b", "c")
    parent.process.send_signal(number)
    assert parent.end()[0] == 0
    assert [parent.marks(name)[0].read_text() for name in "abc"] == [number.name] * 3
    assert not any(map(is_alive, children))


def test_an_ended_process_is_started_again(start: Callable[..., Parent]) -> None:
    parent = start("a", "b")
    killed, stays = parent.await_running("a", "b")
    os.kill(killed.pid, signal.SIGKILL)
    await_until(lambda: len(parent.marks("a")) == 2)
    (renewed,) = parent.await_running("a")
    assert renewed != killed
    assert parent.running("b") == stays
    parent.process.terminate()
    assert parent.end()[0] == 0


def test_a_killed_parent_leaves_no_process(start: Callable[..., Parent]) -> None:
    parent = start("a", "b")
    children = parent.await_running("a", "b")
    parent.process.kill()
    await_until(lambda: not any(map(is_alive, children)), seconds=10)


def test_the_parent_gives_up_when_no_process_can_start(start: Callable[..., Parent]) -> None:
    parent = start("a --fail", "b --fail")
    code, said = parent.end()
    assert code == 1
    assert said.endswith("None of 2 processes could start. Their output above says why.\n")
    assert len(parent.marks("a")) + len(parent.marks("b")) <= 4


def test_one_that_cannot_start_does_not_end_the_others(start: Callable[..., Parent]) -> None:
    parent = start("a --fail", "b")
    (stays,) = parent.await_running("b")
    await_until(lambda: len(parent.marks("a")) >= 3)
    assert is_alive(stays)
    parent.process.terminate()
    parent.end()
    assert parent.marks("b")[0].read_text() == "SIGTERM"
