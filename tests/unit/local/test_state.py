"""Which process holds a data directory; no other process is mistaken for it."""

import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from minutehand.local.file_lock import FileLock
from minutehand.local.state import ServerState, clear_state, read_state, write_state
from minutehand.processes.identity import identify, is_alive, send_signal


def own_state() -> ServerState:
    me = identify(os.getpid())
    assert me is not None
    return ServerState(
        pid=me.pid,
        started=me.started,
        tied=True,
        host="127.0.0.1",
        native_port=9042,
        storage_port=7000,
        cluster_name="minutehand",
    )


def test_a_state_is_read_while_its_process_lives(tmp_path: Path) -> None:
    write_state(tmp_path, own_state())
    assert read_state(tmp_path) == own_state()
    clear_state(tmp_path)
    assert read_state(tmp_path) is None
    clear_state(tmp_path)


def test_a_recycled_pid_is_another_process(tmp_path: Path) -> None:
    stale = replace(own_state(), started="an earlier life")
    write_state(tmp_path, stale)
    assert read_state(tmp_path) is None
    assert not is_alive(stale.identity)
    assert not send_signal(stale.identity, signal.SIGKILL)


def test_no_process_has_no_identity() -> None:
    assert identify(2**22 + 1) is None


def test_a_zombie_is_gone() -> None:
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identify(child.pid) is None
    child.wait()


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"pid": 1})])
def test_a_damaged_state_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "server.json").write_text(text)
    assert read_state(tmp_path) is None


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "deep" / "lock"), FileLock(tmp_path / "deep" / "lock")
    assert first.try_acquire()
    assert first.try_acquire()
    assert not second.try_acquire()
    first.release()
    first.release()
    with second:
        assert not first.try_acquire()
    assert first.try_acquire()
    first.release()


def test_a_lock_that_was_handed_on_outlives_its_giver(tmp_path: Path) -> None:
    giver, other = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert giver.try_acquire()
    inherited = os.dup(giver.fileno())
    giver.release()
    assert not other.try_acquire()
    os.close(inherited)
    assert other.try_acquire()
    other.release()
