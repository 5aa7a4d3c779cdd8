"""`schedules.bulk()`: how batches are filled, how many are under way, and each item's result."""

import asyncio
import itertools
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from minutehand.client import (
    AsyncMinutehand,
    Callback,
    Forbidden,
    Minutehand,
    MinutehandUnreachable,
    NewSchedule,
)
from tests.support.scripted_api import PROBLEM, SCHEDULE, ScriptedRuntime, problem
from tests.support.turns import until

CALL = Callback(url="https://a.example/")
FAR = 3_600.0
"""So many seconds that no test reaches them."""


def item(number: int) -> NewSchedule:
    return NewSchedule(callback=CALL, delay_seconds=1, label=str(number))


def labels(request: httpx.Request) -> list[str]:
    return [one["label"] for one in json.loads(request.content)["items"]]


def answered(request: httpx.Request) -> httpx.Response:
    """An answer to a batch, in which items whose label begins with 9 are refused."""
    items = [
        {"status": 422, "problem": PROBLEM}
        if label.startswith("9")
        else {"status": 201, "schedule": {**SCHEDULE, "label": label}}
        for label in labels(request)
    ]
    return httpx.Response(200, json={"items": items})


async def some_turns() -> None:
    """Let the loop turn often enough for everything that needs no answer."""
    turns = itertools.count()
    await until(lambda: next(turns) > 100)


class Api:
    """Records batches and answers them by `answer`."""

    def __init__(self, answer: Callable[[httpx.Request], Any] = answered) -> None:
        self.batches: list[list[str]] = []
        self.requests: list[httpx.Request] = []
        self.answer = answer

    def __call__(self, request: httpx.Request) -> Any:
        self.requests.append(request)
        self.batches.append(labels(request))
        return self.answer(request)

    def plain(self) -> Minutehand:
        return Minutehand("http://api.test", "k", transport=httpx.MockTransport(self), runtime=ScriptedRuntime())

    def waiting(self) -> AsyncMinutehand:
        async def answer(request: httpx.Request) -> httpx.Response:
            found = self(request)
            return await found if isinstance(found, Awaitable) else found

        return AsyncMinutehand("http://api.test", "k", transport=httpx.MockTransport(answer), runtime=ScriptedRuntime())


async def added(api: Api, kind: str, numbers: list[int], **bounds: Any) -> tuple[list[Any], Any]:
    """Add the items one after the other; returns their results, and the bulk."""
    bounds = {"wait_seconds": FAR, **bounds}
    if kind == "plain":
        with api.plain() as one, one.client("shop").schedules.bulk(**bounds) as bulk:
            threads = [bulk.add(item(number)) for number in numbers]
        return [future.result(0) for future in threads], bulk
    async with api.waiting() as other, other.client("shop").schedules.bulk(**bounds) as waiting:
        futures = [await waiting.add(item(number)) for number in numbers]
    return [future.result() for future in futures], waiting


both = pytest.mark.parametrize("kind", ["plain", "asynchronous"])


@both
async def test_every_item_has_its_own_answer(kind: str) -> None:
    api = Api()
    results, bulk = await added(api, kind, [1, 9, 3, 4, 91], batch_items=2)
    assert sorted(map(tuple, api.batches)) == [("1", "9"), ("3", "4"), ("91",)]
    assert [result.created for result in results] == [True, False, True, True, False]
    assert [result.schedule.label for result in results if result.schedule is not None] == ["1", "3", "4"]
    assert [result.problem.kind for result in results if result.problem is not None] == ["invalid"] * 2
    assert (bulk.created, bulk.failed) == (3, 2)


@both
async def test_bytes_are_bounded_and_a_large_item_goes_alone(kind: str) -> None:
    api = Api()
    await added(api, kind, [1, 2, 10**300, 3], batch_bytes=200, in_flight=1)
    assert [[label[:3] for label in batch] for batch in api.batches] == [["1", "2"], ["100"], ["3"]]


@both
async def test_what_is_refused_or_lost_as_a_whole_is_an_answer_too(kind: str) -> None:
    def lost(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("nothing came")

    suspended = {**PROBLEM, "status": 403, "type": "/problems/client-suspended"}
    short = httpx.Response(200, json={"items": []})
    answers: list[tuple[Callable[[httpx.Request], Any], type[Exception], int]] = [
        (lambda request: problem(403, suspended), Forbidden, 1),
        (lost, MinutehandUnreachable, 5),
        (lambda request: short, MinutehandUnreachable, 1),
    ]
    for answer, error, requests in answers:
        api = Api(answer)
        results, bulk = await added(api, kind, [1, 2, 3])
        assert [type(result.error) for result in results] == [error] * 3
        assert not any(result.created for result in results)
        assert (len(api.requests), bulk.failed) == (requests, 3)
        assert len({request.headers["Idempotency-Key"] for request in api.requests}) == 1


@both
async def test_a_lone_item_does_not_wait_for_company(kind: str) -> None:
    api = Api()
    if kind == "plain":
        with api.plain() as one, one.client("shop").schedules.bulk(wait_seconds=0.01) as bulk:
            assert bulk.add(item(1)).result(10).created
            assert bulk.add(item(2)).result(10).created
    else:
        async with api.waiting() as other, other.client("shop").schedules.bulk(wait_seconds=0.01) as waiting:
            assert (await (await waiting.add(item(1)))).created
            assert (await (await waiting.add(item(2)))).created
    assert api.batches == [["1"], ["2"]]


@both
async def test_flush_waits_for_all_answers_and_goes_on(kind: str) -> None:
    api = Api()
    if kind == "plain":
        with api.plain() as one, one.client("shop").schedules.bulk(wait_seconds=FAR) as bulk:
            bulk.flush()
            first = bulk.add(item(1))
            bulk.flush()
            assert first.done()
            bulk.add(item(2))
    else:
        async with api.waiting() as other, other.client("shop").schedules.bulk(wait_seconds=FAR) as waiting:
            await waiting.flush()
            future = await waiting.add(item(1))
            await waiting.flush()
            assert future.done()
            await waiting.add(item(2))
    assert api.batches == [["1"], ["2"]]


async def test_adding_waits_while_as_much_is_under_way_as_may_be() -> None:
    held: list[asyncio.Future[None]] = []

    async def hold(request: httpx.Request) -> httpx.Response:
        held.append(asyncio.get_running_loop().create_future())
        await held[-1]
        return answered(request)

    api = Api(hold)
    bounds = {"batch_items": 2, "in_flight": 2, "wait_seconds": FAR}
    async with api.waiting() as other, other.client("shop").schedules.bulk(**bounds) as bulk:
        count = 0

        async def add() -> None:
            nonlocal count
            for number in range(20):
                await bulk.add(item(number))
                count += 1

        async with asyncio.TaskGroup() as group:
            group.create_task(add())
            for batches in range(2, 11):
                await some_turns()
                # Two are under way and one more is full: the next one waits.
                assert (len(held), count) == (batches, min(2 * batches + 2, 20))
                held[batches - 2].set_result(None)
        held[-1].set_result(None)
    assert (bulk.created, bulk.failed) == (19, 1)


def test_adding_waits_on_threads_as_well() -> None:
    free, begun = threading.Semaphore(0), threading.Semaphore(0)

    def hold(request: httpx.Request) -> httpx.Response:
        begun.release()
        assert free.acquire(timeout=10)
        return answered(request)

    api, count, full = Api(hold), 0, threading.Event()
    bounds = {"batch_items": 2, "in_flight": 1, "wait_seconds": FAR}

    def add(bulk: Any) -> None:
        nonlocal count
        for number in range(8):
            if number == 4:
                full.set()
            bulk.add(item(number))
            count += 1

    with api.plain() as one, one.client("shop").schedules.bulk(**bounds) as bulk:  # type: ignore[arg-type]
        thread = threading.Thread(target=add, args=(bulk,))
        thread.start()
        assert begun.acquire(timeout=10)
        assert full.wait(10)
        assert (count, len(api.batches), thread.is_alive()) == (4, 1, True)
        for _ in range(4):
            free.release()
        thread.join(10)
    assert (count, bulk.created, len(api.batches)) == (8, 8, 4)


async def test_left_by_an_exception_nothing_more_is_sent() -> None:
    api, futures = Api(), list[Any]()

    def leave() -> None:
        with api.plain() as one, one.client("shop").schedules.bulk(wait_seconds=FAR) as bulk:
            futures.append(bulk.add(item(1)))
            raise KeyError

    with pytest.raises(KeyError):
        leave()
    assert futures[0].cancelled()
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def hold(request: httpx.Request) -> httpx.Response:
        await never
        return answered(request)

    hanging = Api(hold)

    async def leave_waiting() -> None:
        bounds = {"batch_items": 2, "wait_seconds": FAR}
        async with hanging.waiting() as other, other.client("shop").schedules.bulk(**bounds) as waiting:
            futures.extend([await waiting.add(item(number)) for number in range(3)])
            await some_turns()
            raise KeyError

    with pytest.raises(KeyError):
        await leave_waiting()
    assert [one.cancelled() for one in futures] == [True] * 4
    assert (api.batches, hanging.batches) == ([], [["0", "1"]])


async def test_a_bulk_is_open_within_its_block_only() -> None:
    api = Api()
    with api.plain() as one:
        bulk = one.client("shop").schedules.bulk()
        with pytest.raises(RuntimeError, match="between"):
            bulk.add(item(1))
        with bulk:
            pass
        with pytest.raises(RuntimeError, match="between"):
            bulk.add(item(1))
        for wrong in ({"batch_items": 0}, {"batch_items": 1001}, {"batch_bytes": 0}, {"in_flight": 0}):
            with pytest.raises(ValueError, match="batch_items"):
                one.client("shop").schedules.bulk(**wrong)
    async with api.waiting() as other:
        waiting = other.client("shop").schedules.bulk()
        with pytest.raises(RuntimeError, match="between"):
            await waiting.add(item(1))
        with pytest.raises(ValueError, match="wait_seconds"):
            other.client("shop").schedules.bulk(wait_seconds=-1.0)


async def test_abandoned_futures_are_skipped() -> None:
    api = Api()
    with api.plain() as one, one.client("shop").schedules.bulk(wait_seconds=FAR) as bulk:
        assert bulk.add(item(1)).cancel()
        future = bulk.add(item(2))
    assert future.result(0).created
    async with api.waiting() as other, other.client("shop").schedules.bulk(wait_seconds=FAR) as waiting:
        (await waiting.add(item(1))).cancel()
        kept = await waiting.add(item(2))
    assert kept.result().created
    assert api.batches == [["1", "2"]] * 2


class Odd(Exception):
    """An exception that a caller's own transport may raise."""


def undecodable(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(b"no gzip"))


def odd(request: httpx.Request) -> httpx.Response:
    raise Odd("of its own")


@both
@pytest.mark.parametrize("answer", [undecodable, odd])
async def test_a_failed_batch_does_not_affect_the_others(kind: str, answer: Callable[[httpx.Request], Any]) -> None:
    """More batches than may be under way end this way, and none affects another."""
    api = Api(lambda request: answer(request) if labels(request) < ["6"] else answered(request))
    results, bulk = await added(api, kind, [1, 2, 3, 4, 5, 6], batch_items=1, in_flight=2)
    assert [type(result.error) for result in results] == [MinutehandUnreachable] * 5 + [type(None)]
    assert (bulk.created, bulk.failed) == (1, 5)


def ends(function: Callable[[], None]) -> None:
    """Run in a separate thread, so that a test that waits for ever fails."""
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    thread.join(1.5)
    assert not thread.is_alive()


def test_a_callback_may_add_and_may_not_wait() -> None:
    api, refused, left = Api(), list[str](), itertools.count()

    def run() -> None:
        with api.plain() as one, one.client("shop").schedules.bulk(batch_items=2, in_flight=1, wait_seconds=0) as bulk:

            def again(future: Any) -> None:
                try:
                    bulk.flush()
                except RuntimeError as error:
                    refused.append(str(error))
                for _ in range(3):
                    if next(left) < 20:
                        bulk.add(item(1)).add_done_callback(again)

            for _ in range(6):
                bulk.add(item(1)).add_done_callback(again)

    ends(run)
    assert len(refused) == sum(map(len, api.batches)) == 26
    assert max(map(len, api.batches)) == 2


def test_callbacks_that_raise_end_no_thread() -> None:
    def leave(future: Any) -> None:
        raise SystemExit

    api, futures = Api(), list[Any]()

    def run() -> None:
        with api.plain() as one, one.client("shop").schedules.bulk(batch_items=2, in_flight=1, wait_seconds=0) as bulk:
            for number in range(6):
                futures.append(bulk.add(item(number)))
                futures[-1].add_done_callback(leave)

    ends(run)
    assert all(future.result(0).created for future in futures)


async def test_items_of_a_group_that_ends_are_cancelled() -> None:
    """One task raises something that is no Exception: waiting items are not sent, and each gets a result."""

    def stop(request: httpx.Request) -> httpx.Response:
        raise GeneratorExit

    api, futures = Api(stop), list[Any]()

    async def run() -> None:
        async with api.waiting() as one, one.client("shop").schedules.bulk(batch_items=1, in_flight=1) as bulk:
            for number in range(3):
                futures.append(await bulk.add(item(number)))

    unhandled = list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    with pytest.raises(BaseExceptionGroup, match="unhandled"):
        await run()
    assert not unhandled
    assert [future.cancelled() for future in futures] == [True, True]
