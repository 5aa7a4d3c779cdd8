"""The health of several processes on one port: the command is ready only if all of them are."""

import asyncio
import gc
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from minutehand.local.machine import free_ports
from minutehand.processes.health import (
    SILENT_SECONDS,
    HealthOfSeveral,
    HealthSettings,
    answering_for,
    health_socket,
    listen,
)
from minutehand.processes.workers import Work
from scheduler_service.runtime.health import Reason
from scheduler_service.runtime.listening import CannotListen
from tests.support.api import ManualClock

DRAINING = Reason("draining", "so it is")


class Process:
    """The answers of one process."""

    def __init__(self, path: Path) -> None:
        self.ready: list[Reason] = []
        self.live: list[Reason] = []
        self.stuck = False
        self.socket = health_socket(str(path), live=lambda: self.live, ready=self._ready)

    async def _ready(self) -> Sequence[Reason]:
        if self.stuck:
            await asyncio.get_running_loop().create_future()
        return self.ready


async def test_a_process_may_know_at_once_whether_it_is_ready(tmp_path: Path) -> None:
    socket = health_socket(str(tmp_path / "a-0"), live=lambda: (), ready=lambda: [DRAINING])
    await socket.start()
    health = HealthOfSeveral({"a-0": tmp_path / "a-0"}, ManualClock())
    await health.look()
    assert health.ready() == [Reason("draining", "a-0: so it is")]
    await socket.stop()


async def test_all_processes_have_to_be_ready(tmp_path: Path) -> None:
    health = HealthOfSeveral({name: tmp_path / name for name in ("a-0", "a-1")}, ManualClock())
    first, second = (Process(tmp_path / name) for name in ("a-0", "a-1"))
    await first.socket.start()
    await health.look()
    assert [one.reason for one in health.ready()] == ["process-down"]
    assert health.live() == [], "the parent starts it again"

    await second.socket.start()
    await health.look()
    assert (health.ready(), health.live()) == ([], [])
    second.ready = [DRAINING]
    await health.look()
    assert health.ready() == [Reason("draining", "a-1: so it is")]
    second.ready, second.live = [], [Reason("loop-stalled", "for long")]
    await health.look()
    assert [one.detail for one in health.live()] == ["a-1: for long"]

    await second.socket.stop()
    await health.look()
    assert [one.detail.split()[0] for one in health.ready()] == ["a-1"]
    assert health.live() == []
    await first.socket.stop()


async def test_a_process_that_is_silent_for_long_is_not_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minutehand.processes.health.ANSWER_SECONDS", 0.02)
    clock = ManualClock()
    health = HealthOfSeveral({"a-0": tmp_path / "a-0"}, clock)
    process = Process(tmp_path / "a-0")
    await process.socket.start()
    process.stuck = True
    await health.look()
    assert [one.reason for one in health.ready()] == ["process-silent"]
    assert health.live() == []
    clock.advance(SILENT_SECONDS)
    await health.look()
    assert [one.reason for one in health.live()] == ["process-silent"]
    gc.collect()  # requests that still wait are kept, or the collector complains of them
    process.stuck = False
    monkeypatch.undo()  # now it has all the time it may take
    await health.look()
    assert (health.ready(), health.live()) == ([], [])
    await process.socket.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_command_answers_for_its_processes_on_its_port() -> None:
    (port,) = free_ports(1)
    work = Work(name="a-0", arguments=["api"], variables={"A": "b"})
    with answering_for([work], HealthSettings(port=port), waiting=tuple) as told:
        (one,) = told
        assert one.variables.keys() == {"A", "MINUTEHAND_HEALTH_SOCKET"}
        assert get(port, "/livez") == (200, {"status": "ok", "reasons": []})
        status, said = get(port, "/readyz")
        assert (status, [reason["reason"] for reason in said["reasons"]]) == (503, ["process-down"])
    told_what = pytest.raises(CannotListen, match=r"choose another health\.host or")
    with listen(HealthSettings(port=port)), told_what, answering_for([work], HealthSettings(port=port), waiting=tuple):
        pass
    with answering_for([work], HealthSettings(), waiting=tuple) as told:
        assert told == [work]


def test_ports_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="port"):
        HealthSettings(port=70_000)


def get(port: int, path: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())
