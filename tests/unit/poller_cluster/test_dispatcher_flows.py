"""Rows with flow keys in the dispatcher: who starts, who waits, and that nobody else does."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from poller_cluster.dispatch.job import Job
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.clients import HostLimit
from scheduler_service.domain.flows import Flow
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.options import ScheduleOptions, encode_options
from tests.unit.poller_cluster.claimed import client, result
from tests.unit.poller_cluster.dispatch_bench import Bench

SHOP = ClientId("shop")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench(ReceiverSettings(breaker_failures=2, breaker_open_seconds=10, breaker_probes=1))
    task = asyncio.get_running_loop().create_task(made.dispatcher.run())
    await made.settle()
    yield made
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def submit(bench: Bench, key: str = "paced", *, rate: float | None = 4.0, **row: Any) -> Job:
    return bench.submit(options=encode_options(ScheduleOptions(flow=Flow(key, rate))), **row)


async def test_a_rate_is_kept_and_others_pass(bench: Bench) -> None:
    for _ in range(3):
        submit(bench)
    submit(bench, "other")
    bench.submit()
    await bench.settle()
    assert bench.started == [1, 4, 5]
    for number in (2, 3):
        await bench.advance(0.249)
        assert number not in bench.started
        await bench.advance(0.001)
        assert number in bench.started
    assert bench.started == [1, 4, 5, 2, 3]


async def test_thousands_of_keys_wait_on_one_timer(bench: Bench) -> None:
    bench.engine.capacity = 10_000
    bench.clients.known["shop"] = client(max_in_flight=10_000)
    for number in range(1000):
        for _ in range(2):
            submit(bench, f"key-{number}", host=f"host-{number}")
    await bench.settle()
    assert len(bench.started) == 1000
    await bench.advance(0.25)
    assert len(bench.started) == 2000


async def test_a_key_without_calls_and_debt_is_forgotten(bench: Bench) -> None:
    submit(bench, rate=1000.0)
    await bench.settle()
    assert bench.dispatcher.flows.count() == 1
    await bench.advance(1)
    bench.engine.finish(result())
    assert bench.dispatcher.flows.count() == 0


async def test_what_waits_for_its_rate_may_be_taken_back(bench: Bench) -> None:
    mine, others = bench.owner(), bench.owner()
    submit(bench, owner=others)
    second = submit(bench, owner=mine)
    submit(bench, owner=others)
    await bench.settle()
    assert bench.dispatcher.withdraw(mine) == [second]
    await bench.advance(0.25)
    assert bench.started == [1, 3]


async def test_taking_back_the_row_whose_turn_it_was_calls_the_next(bench: Bench) -> None:
    mine, others = bench.owner(), bench.owner()
    submit(bench, owner=others)
    second = submit(bench, owner=mine)
    submit(bench, owner=others)
    await bench.settle()
    bench.trusted = False
    await bench.advance(0.25)
    assert bench.dispatcher.withdraw(mine) == [second]
    bench.trusted = True
    await bench.advance(0.1)
    assert bench.started == [1, 3]


async def test_a_row_that_waits_for_its_flow_leaves_its_place_at_the_host_to_others(bench: Bench) -> None:
    bench.clients.known["shop"] = client(hosts={"slow": HostLimit(max_in_flight=1)})
    submit(bench, host="slow")
    submit(bench, host="slow")
    bench.submit(host="slow")
    await bench.settle()
    assert bench.started == [1]
    bench.engine.finish(result())
    await bench.settle()
    assert bench.started == [1, 3]
    await bench.advance(0.3)
    bench.engine.finish(result())
    await bench.settle()
    assert bench.started == [1, 3, 2]


async def test_a_row_whose_host_is_held_back_calls_the_next_of_its_flow(bench: Bench) -> None:
    for _ in range(2):
        bench.submit(host="failing")
    await bench.settle()
    for _ in range(2):
        bench.engine.finish(result(503))
    submit(bench, host="well")
    submit(bench, host="well")
    await bench.settle()
    job = submit(bench, host="failing")
    await bench.settle()
    assert job.flow is None
    await bench.advance(0.25)
    assert bench.started == [1, 2, 3, 4]


async def test_the_flows_of_a_client_that_left_are_forgotten(bench: Bench) -> None:
    submit(bench)
    await bench.settle()
    bench.engine.finish(result())
    bench.pollers.held = {}
    bench.dispatcher.left(SHOP)
    await bench.advance(301)
    assert bench.dispatcher.flows.forget(SHOP, now=0)
    assert bench.dispatcher.flows.count() == 0
