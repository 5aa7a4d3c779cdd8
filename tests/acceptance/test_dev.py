"""`minutehand dev` as a process: months pass in moments, and a reset leaves nothing."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.raw_receiver import RawReceiver, RawRequest, answering

DAY = 86_400
BERLIN = "Europe/Berlin"
KEPT = "nothing is kept"
BEGINNING = "2027-02-10T12:00:00Z"


class Refused(Exception):
    """An answer other than a success; `args`: its status, and what its header says."""


@dataclass
class Server:
    """A server that runs, and what it said first."""

    process: "subprocess.Popen[str]"
    told: dict[str, str]

    def ask(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Any:
        """The answer's document. Raises Refused."""
        request = Request(
            self.told["url"] + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {key or self.told['client_key']}", "Content-Type": "application/json"},
        )
        try:
            with urlopen(request, timeout=60) as answer:
                assert answer.headers["Minutehand-Dev"] == KEPT
                text = answer.read()
        except HTTPError as error:
            error.close()
            raise Refused(error.code, error.headers["Minutehand-Dev"]) from None
        return json.loads(text) if text else None

    def receiver(self, name: str) -> str:
        return f"{self.told['url']}/dev/receiver/{name}"

    def create(self, name: str, delay_seconds: float, **more: Any) -> str:
        body = {"delay_seconds": delay_seconds, "callback": {"url": self.receiver(name), "json": {"order": 17}}, **more}
        created: str = self.ask("POST", "/v1/clients/dev/schedules", body)["schedule_id"]
        return created

    def state_of(self, schedule_id: str) -> str:
        state: str = self.ask("GET", f"/v1/clients/dev/schedules/{schedule_id}")["state"]
        return state

    def advance(self, seconds: float) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = self.ask("POST", "/dev/clock:advance", {"seconds": seconds})["calls"]
        return calls


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    command = [sys.executable, "-m", "minutehand", "dev", "--port", "0", "--at", BEGINNING, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            assert process.stdout is not None
            yield Server(process, json.loads(process.stdout.readline()))
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()


@pytest.fixture
def dev(running: Server) -> Server:
    running.ask("DELETE", "/dev/state")
    return running


def test_a_call_in_thirty_days_with_its_retries(dev: Server) -> None:
    dev.ask("PUT", "/dev/receiver/orders", {"status": 503, "times": 2})
    schedule_id = dev.create("orders", 30 * DAY)
    assert dev.advance(29 * DAY) == []
    assert dev.state_of(schedule_id) == "scheduled"
    calls = dev.advance(DAY + 3600)
    assert [(call["schedule_id"], call["attempt"], call["status"]) for call in calls] == [
        (schedule_id, 1, 503),
        (schedule_id, 2, 503),
        (schedule_id, 3, 204),
    ]
    assert calls[0]["at"] == calls[0]["due"]
    assert [call["at"] for call in calls] == sorted(call["at"] for call in calls)
    assert dev.state_of(schedule_id) == "delivered"


def test_a_cron_keeps_to_local_time_over_a_change_of_clocks(dev: Server) -> None:
    dev.ask("POST", "/dev/clock:advance-to", {"instant": "2027-03-26T12:00:00Z"})
    cron = {"expression": "30 8 * * *", "timezone": BERLIN, "callback": {"url": dev.receiver("cron")}}
    dev.ask("PUT", "/v1/clients/dev/crons/morning", cron)
    calls = dev.advance(4 * DAY)
    assert [call["at"] for call in calls] == [
        "2027-03-27T07:30:00.000Z",
        "2027-03-28T06:30:00.000Z",
        "2027-03-29T06:30:00.000Z",
        "2027-03-30T06:30:00.000Z",
    ]
    assert {call["cron_id"] for call in calls} == {"morning"}


async def test_a_real_receiver_is_awaited_before_time_goes_on(dev: Server) -> None:
    async with RawReceiver() as receiver:
        failing = iter((500, 204))

        async def answer(request: RawRequest, writer: asyncio.StreamWriter) -> None:
            await answering(next(failing))(request, writer)

        receiver.script["/hook"] = answer
        body = {"delay_seconds": 10 * DAY, "callback": {"url": receiver.url("/hook")}}
        created = await asyncio.to_thread(dev.ask, "POST", "/v1/clients/dev/schedules", body)
        calls = await asyncio.to_thread(dev.advance, 11 * DAY)
    assert [call["status"] for call in calls] == [500, 204]
    assert dev.state_of(created["schedule_id"]) == "delivered"


def test_run_until_idle_ends_when_nothing_is_left(dev: Server) -> None:
    schedule_id = dev.create("later", 3 * DAY)
    told = dev.ask("POST", "/dev/clock:run-until-idle", {})
    assert told["idle"]
    assert [call["schedule_id"] for call in told["calls"]] == [schedule_id]
    dev.create("later", 3 * DAY)
    assert not dev.ask("POST", "/dev/clock:run-until-idle", {"within_seconds": DAY})["idle"]


def test_many_calls_of_one_instant_and_others_in_order(dev: Server) -> None:
    due = [500 * DAY] * 50 + [DAY, 40 * DAY, 7 * DAY]
    items = [{"delay_seconds": at, "callback": {"url": dev.receiver("x")}} for at in due]
    dev.ask("POST", "/v1/clients/dev/schedules:batch", {"items": items})
    calls = dev.advance(501 * DAY)
    assert len(calls) == len(due)
    assert [call["due"] for call in calls] == sorted(call["due"] for call in calls)


def test_recorded_calls_have_what_was_sent(dev: Server) -> None:
    schedule_id = dev.create("orders", 60)
    dev.create("others", 60)
    dev.advance(61)
    (call,) = dev.ask("GET", "/dev/calls?receiver=orders")["calls"]
    assert (call["schedule_id"], json.loads(call["body"])) == (schedule_id, {"order": 17})
    assert call["headers"]["webhook-id"] == schedule_id


def test_what_is_dumped_can_be_loaded(dev: Server) -> None:
    schedule_id = dev.create("orders", 5 * DAY)
    dev.advance(DAY)
    kept = dev.ask("GET", "/dev/state")
    assert len(dev.advance(5 * DAY)) == 1
    for _ in range(2):
        now = dev.ask("PUT", "/dev/state", kept)["now"]
        assert now[:16] == kept["now"][:16]
        assert dev.state_of(schedule_id) == "scheduled"
        assert [call["schedule_id"] for call in dev.advance(5 * DAY)] == [schedule_id]


def test_a_reset_leaves_the_first_client_and_nothing_else(dev: Server) -> None:
    schedule_id = dev.create("orders", DAY)
    dev.ask("DELETE", "/dev/state")
    with pytest.raises(Refused) as refused:
        dev.state_of(schedule_id)
    assert refused.value.args == (404, KEPT)
    assert dev.advance(2 * DAY) == []


def test_the_clock_follows_real_time_and_stands(dev: Server) -> None:
    assert dev.ask("GET", "/dev/clock")["mode"] == "frozen"
    assert dev.ask("POST", "/dev/clock:follow")["mode"] == "following"
    frozen = dev.ask("POST", "/dev/clock:freeze")
    assert dev.ask("GET", "/dev/clock") == frozen


def test_its_console_says_that_nothing_is_kept(dev: Server) -> None:
    with urlopen(dev.told["url"] + "/console/login", timeout=60) as page:
        assert b"nothing is kept" in page.read()


def test_the_clock_goes_no_further_than_instants_do(dev: Server) -> None:
    with pytest.raises(Refused, match="422"):
        dev.ask("PUT", "/dev/state", {"now": "9999-12-31T00:00:00Z", "tables": {}})
    dev.ask("PUT", "/dev/state", {"now": "9988-01-01T00:00:00Z", "tables": {}})
    dev.advance(10 * 365 * DAY)
    with pytest.raises(Refused, match="422"):
        dev.advance(2 * 365 * DAY)
    assert dev.ask("GET", "/dev/clock")["now"].startswith("9997-")


def test_a_receiver_takes_a_call_of_anybody(dev: Server) -> None:
    for attempt in ("x", "²", "-1", "9" * 5000):
        headers = {"Minutehand-Attempt": attempt.encode().decode("latin-1")}
        with urlopen(Request(dev.receiver("hook"), method="POST", data=b"", headers=headers), timeout=60) as answer:
            assert answer.status == 204
    assert [call["attempt"] for call in dev.ask("GET", "/dev/calls")["calls"]] == [1] * 4


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("advance", {"seconds": -1}),
        ("advance", {"minutes": 1}),
        ("advance-to", {"instant": "2001-01-01T00:00:00Z"}),
        ("advance-to", {"instant": "tomorrow"}),
    ],
)
def test_what_can_not_be_done_is_refused(dev: Server, path: str, body: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        dev.ask("POST", f"/dev/clock:{path}", body)
    assert refused.value.args == (422, KEPT)
