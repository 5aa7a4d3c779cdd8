"""Calls to targets: routed by kind, and held to the promises of an engine whatever a target does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from threading import get_ident
from typing import Any, Final

import pytest

from poller_cluster.delivery.request import CallbackRequest, TargetCall
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.targets.deliveries import Deliveries
from poller_cluster.delivery.targets.ends import DONE, End, TargetEnd
from poller_cluster.delivery.targets.port import MayStart, OnEnd
from scheduler_service.domain.targets import JudgedTarget
from tests.support.delivery import CLOCK

CAPACITY: Final = 3


class Http:
    """The HTTP engine: it takes calls, and ends none."""

    capacity = CAPACITY

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.in_flight = self.stopped = 0

    async def start(self) -> None: ...

    async def stop(self, grace_seconds: float | None = None) -> None:
        self.stopped += 1

    def start_attempt(self, request: CallbackRequest, on_done: Any, *, may_start: MayStart) -> None:
        self.taken.append(request.url)
        self.in_flight += 1


class Box:
    """A kind, and its target: calls stay in it until a test ends them, unless `at_once` does."""

    def __init__(self) -> None:
        self.held: list[tuple[CallbackRequest, OnEnd, MayStart]] = []
        self.at_once: Callable[[OnEnd], None] | None = None
        self.stopped = 0
        self.broken = False

    def judge(self, document: Any, *, client_id: str) -> JudgedTarget:
        return JudgedTarget("box://")

    def open(self, *, clock: Any, capacity: int) -> "Box":
        assert capacity == CAPACITY
        return self

    async def start(self) -> None:
        if self.broken:
            raise OSError("broken")

    async def stop(self) -> None:
        self.stopped += 1
        if self.broken:
            raise OSError("broken")

    def send(self, request: CallbackRequest, on_end: OnEnd, *, may_start: MayStart) -> None:
        self.held.append((request, on_end, may_start))
        if self.at_once is not None:
            self.at_once(on_end)


def request(kind: str = "box", *, timeout_seconds: float = 30.0) -> CallbackRequest:
    target = TargetCall(kind=kind, means=None, schedule_id="s")
    return CallbackRequest(
        method="POST", url="box://", headers=(), body=b"", timeout_seconds=timeout_seconds, target=target
    )


class Bench:
    def __init__(self) -> None:
        self.http, self.box = Http(), Box()
        self.deliveries = Deliveries(calls=self.http, kinds={"box": self.box}, clock=CLOCK, grace_seconds=0.0)
        self.results: list[AttemptResult] = []
        self.threads: set[int] = set()
        self.errors: list[str] = []
        self.all_ended = asyncio.Event()

    def start(self, asked: CallbackRequest, may_start: MayStart = lambda: True) -> None:
        before = len(self.results)
        self.deliveries.start_attempt(asked, self._done, may_start=may_start)
        assert len(self.results) == before, "an end came from within start_attempt"

    def _done(self, result: AttemptResult) -> None:
        self.results.append(result)
        self.threads.add(get_ident())
        if not self.deliveries.in_flight:
            self.all_ended.set()

    def only(self) -> tuple[str | None, bool, bool, bool]:
        (result,) = self.results
        return result.error, result.nothing_sent, result.final, result.succeeded


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: made.errors.append(type(context["exception"]).__name__)
    )
    await made.deliveries.start()
    yield made
    await made.deliveries.stop()
    assert made.deliveries.in_flight == made.http.in_flight


async def test_calls_without_a_target_are_http() -> None:
    async with bench() as made:
        plain = CallbackRequest(method="POST", url="https://a.test", headers=(), body=b"", timeout_seconds=1)
        made.start(plain)
        assert (made.http.taken, made.box.held) == (["https://a.test"], [])
        assert (made.deliveries.in_flight, made.deliveries.capacity) == (1, CAPACITY)


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (DONE, (None, False, False, True)),
        (TargetEnd(End.REFUSED, "too large", nothing_sent=True), ("rejected", True, True, False)),
        (TargetEnd(End.UNAVAILABLE), ("unavailable", False, False, False)),
        (TargetEnd(End.UNAVAILABLE, nothing_sent=True), ("unavailable", True, False, False)),
        (TargetEnd(End.TIMED_OUT), ("timeout", False, False, False)),
        (TargetEnd(End.NOT_SENT), ("internal", True, False, False)),
        (TargetEnd(End.WITHDRAWN), ("not-trusted", True, False, False)),
        (TargetEnd(End.STOPPED), ("stopped", False, False, False)),
    ],
)
async def test_each_class_of_ends_is_a_result(ended: TargetEnd, expected: tuple[Any, ...]) -> None:
    async with bench() as made:
        made.start(request())
        made.box.held[0][1](ended)
        assert made.only() == expected
        assert made.results[0].status is None


async def test_an_end_from_within_send_comes_in_the_next_turn() -> None:
    async with bench() as made:
        made.box.at_once = lambda end: end(DONE)
        made.start(request())
        await asyncio.sleep(0)
        assert made.only()[3]


async def test_a_call_ends_once() -> None:
    async with bench() as made:
        made.start(request())
        for _ in range(3):
            made.box.held[0][1](DONE)
        assert made.only()[3]


async def test_an_end_from_another_thread_counts_on_the_loop() -> None:
    async with bench() as made:
        made.start(request())
        await asyncio.to_thread(made.box.held[0][1], DONE)
        await asyncio.sleep(0)
        assert made.only()[3]
        assert made.threads == {get_ident()}


async def test_nothing_is_sent_without_trust() -> None:
    async with bench() as made:
        made.start(request(), lambda: False)
        await asyncio.sleep(0)
        assert made.only() == ("not-trusted", True, False, False)
        assert made.box.held == []


async def test_a_target_can_ask_again() -> None:
    async with bench() as made:
        answers = [True, False]
        made.start(request(), lambda: answers.pop(0))
        assert made.box.held[0][2]() is False


async def test_a_call_without_an_end_times_out_and_holds_its_place_at_the_target() -> None:
    async with bench() as made:
        for _ in range(CAPACITY):
            made.start(request(timeout_seconds=0.01))
        await made.all_ended.wait()
        assert {(one.error, one.nothing_sent) for one in made.results} == {("timeout", False)}
        made.results.clear()
        made.start(request())
        await asyncio.sleep(0)
        assert made.only()[:2] == ("unavailable", True)
        made.box.held[0][1](DONE)
        made.start(request())
        assert len(made.box.held) == CAPACITY + 1


async def test_no_more_than_the_capacity_of_all_kinds_is_under_way() -> None:
    async with bench() as made:
        for _ in range(CAPACITY - 1):
            made.start(request())
        made.http.in_flight = 1
        with pytest.raises(RuntimeError, match="as many attempts"):
            made.start(request())
        made.http.in_flight = 0


async def test_a_target_that_raises_costs_the_call_alone() -> None:
    async with bench() as made:

        def fail(end: OnEnd) -> None:
            raise KeyError

        made.box.at_once = fail
        made.start(request())
        await asyncio.sleep(0)
        assert made.only()[:2] == ("unavailable", False)
        assert made.errors == ["KeyError"]


async def test_a_kind_that_is_not_open_sends_nothing() -> None:
    async with bench() as made:
        made.start(request("bus"))
        await asyncio.sleep(0)
        assert made.only()[:2] == ("unavailable", True)


async def test_stop_ends_what_is_under_way_in_doubt() -> None:
    async with bench() as made:
        made.start(request())
        await made.deliveries.stop()
        assert made.only()[:2] == ("stopped", False)
        assert made.box.stopped == 1
        made.results.clear()
        made.start(request())
        await asyncio.sleep(0)
        assert made.only()[:2] == ("stopped", True)


async def test_a_target_that_can_not_stop_is_left() -> None:
    async with bench() as made:
        made.start(request())
        made.box.broken = True
        await made.deliveries.stop()
        assert made.only()[:2] == ("stopped", False)
        assert made.errors == ["OSError"]


async def test_stop_waits_for_the_grace() -> None:
    async with bench() as made:
        made.start(request())
        asyncio.get_running_loop().call_soon(made.box.held[0][1], DONE)
        await made.deliveries.stop(5.0)
        assert made.only()[3]


async def test_a_target_that_can_not_start_leaves_nothing() -> None:
    made = Bench()
    made.box.broken = True
    with pytest.raises(OSError, match="broken"):
        await made.deliveries.start()
    assert (made.box.stopped, made.http.stopped) == (1, 1)


async def test_what_a_target_says_is_text_that_can_be_stored() -> None:
    async with bench() as made:
        made.box.at_once = lambda on_end: on_end(
            TargetEnd(End.UNAVAILABLE, "\udcff.jsonl can't be written " + "x" * 500)
        )
        made.start(request())
        await made.all_ended.wait()
        detail = made.results[0].detail
        assert detail.encode().startswith(b"?.jsonl can't be written")
        assert len(detail) == 200


async def test_a_result_says_which_kind_was_called() -> None:
    async with bench() as made:
        made.start(request())
        made.start(request("crate"))
        made.box.held[0][1](DONE)
        await made.all_ended.wait()
        assert [one.kind for one in made.results] == ["box", "unknown"], "only kinds that are on are labels of metrics"
