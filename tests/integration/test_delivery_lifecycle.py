"""Starts and stops of the engine, and many attempts at once."""

import asyncio
import os
from collections.abc import Callable

import pytest
import uvloop

from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.settings import DeliverySettings
from tests.support.delivery import CLOCK, LOOPBACK, EngineMaker, attempt, begin, post, trusted
from tests.support.raw_receiver import RawReceiver, hanging

SHORT_SECONDS = 0.25


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_many_at_once_on_either_loop(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def load() -> None:
        engine = DeliveryEngine(clock=CLOCK, policy=LOOPBACK, settings=DeliverySettings(max_in_flight=100))
        await engine.start()
        async with RawReceiver() as receiver:
            receiver.script["/hang"] = hanging
            hung = [begin(engine, post(receiver.url("/hang"), timeout_seconds=SHORT_SECONDS)) for _ in range(5)]
            for _ in range(10):
                results = await asyncio.gather(*(attempt(engine, post(receiver.url())) for _ in range(50)))
                assert all(result.succeeded for result in results)
            assert {(await each).error for each in hung} == {"timeout"}
            assert len(receiver.requests) == 505
            await engine.stop()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(load())


class TestLifecycle:
    async def test_the_bound_on_attempts(self, make_engine: EngineMaker, receiver: RawReceiver) -> None:
        engine = await make_engine(max_in_flight=2)
        receiver.script["/x"] = hanging
        waiting = [begin(engine, post(receiver.url("/x"), timeout_seconds=SHORT_SECONDS)) for _ in range(2)]
        assert (engine.in_flight, engine.capacity) == (2, 2)
        with pytest.raises(RuntimeError, match="capacity"):
            begin(engine, post(receiver.url()))
        assert [result.error for result in await asyncio.gather(*waiting)] == ["timeout", "timeout"]
        assert (await attempt(engine, post(receiver.url()))).succeeded

    async def test_an_attempt_may_be_started_from_the_end_of_another(
        self, engine: DeliveryEngine, receiver: RawReceiver
    ) -> None:
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def again(left: int) -> None:
            def on_done(result: AttemptResult) -> None:
                if left and result.succeeded:
                    again(left - 1)
                else:
                    ended.set_result(left)

            engine.start_attempt(post(receiver.url()), on_done, may_start=trusted)

        again(10)
        assert await asyncio.wait_for(ended, 5) == 0
        assert len(receiver.requests) == 11

    async def test_stop_lets_attempts_end(self, make_engine: EngineMaker, receiver: RawReceiver) -> None:
        engine = await make_engine()
        go_on = asyncio.Event()

        async def slow(request: object, writer: asyncio.StreamWriter) -> None:
            await go_on.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        receiver.script["/slow"] = slow
        under_way = begin(engine, post(receiver.url("/slow")))
        stopping = [asyncio.ensure_future(engine.stop()) for _ in range(2)]
        await asyncio.sleep(0)
        late = await attempt(engine, post(receiver.url()))
        assert (late.error, late.nothing_sent, late.final) == ("stopped", True, False)
        assert not any(each.done() for each in stopping)
        go_on.set()
        await asyncio.gather(*stopping)
        assert under_way.done()
        assert under_way.result().succeeded

    async def test_stop_ends_what_lasts_longer_than_its_grace(
        self, make_engine: EngineMaker, receiver: RawReceiver
    ) -> None:
        engine = await make_engine()
        arrived = asyncio.Event()

        async def silent(request: object, writer: asyncio.StreamWriter) -> None:
            arrived.set()
            await asyncio.Event().wait()

        receiver.script["/x"] = silent
        sent = begin(engine, post(receiver.url("/x")))
        await asyncio.wait_for(arrived.wait(), 5)
        fresh = begin(engine, post(receiver.url("/x")))
        await engine.stop(0)
        assert (sent.result().error, sent.result().nothing_sent) == ("stopped", False)
        assert (fresh.result().error, fresh.result().nothing_sent) == ("stopped", True)
        assert engine.in_flight == 0

    async def test_stop_leaves_nothing_behind(self, receiver: RawReceiver) -> None:
        def descriptors() -> int:
            return len(os.listdir("/dev/fd"))

        receiver.script["/x"] = hanging
        before, tasks = descriptors(), len(asyncio.all_tasks())
        for _ in range(3):
            engine = DeliveryEngine(clock=CLOCK, policy=LOOPBACK, settings=DeliverySettings())
            await engine.start()
            assert (await attempt(engine, post(receiver.url()))).succeeded
            await attempt(engine, post("http://nowhere.invalid/"))
            left = begin(engine, post(receiver.url("/x", host="localhost")))
            await engine.stop(0)
            await engine.stop()
            assert left.result().error == "stopped"
        await receiver.idle()
        assert descriptors() == before
        assert len(asyncio.all_tasks()) == tasks

    async def test_before_start_and_after_stop(self) -> None:
        engine = DeliveryEngine(clock=CLOCK, policy=LOOPBACK, settings=DeliverySettings())
        with pytest.raises(RuntimeError, match="not running"):
            begin(engine, post("http://127.0.0.1/"))
        await engine.stop()
        await engine.stop()
        with pytest.raises(RuntimeError, match="once"):
            await engine.start()
