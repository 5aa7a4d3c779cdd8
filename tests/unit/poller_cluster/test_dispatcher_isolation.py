"""Which rows wait for which: hosts of one client, clients of one engine, rows within the guarantee and beyond."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from poller_cluster.dispatch.ready_rows import ENGINE_PART, RESERVE, SMALL_PART
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.clients import HostLimit, RetrySettings
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.schedules import State
from tests.support.api import NOW
from tests.unit.poller_cluster.claimed import client, result
from tests.unit.poller_cluster.dispatch_bench import Bench

SHOP = ClientId("shop")
FAILED = result(503)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench(ReceiverSettings(breaker_failures=2, breaker_open_seconds=10, breaker_probes=1))
    task = asyncio.get_running_loop().create_task(made.dispatcher.run())
    await made.settle()
    yield made
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def limited(bench: Bench, **limit: float) -> None:
    hosts = {"slow": HostLimit(**limit)}  # type: ignore[arg-type]
    bench.clients.known["shop"] = client(hosts=hosts)


async def open_breaker(bench: Bench, host: str = "slow") -> None:
    for _ in range(2):
        bench.submit(host=host)
    await bench.settle()
    for _ in range(2):
        bench.engine.finish(FAILED)
    bench.done.clear()


# Receivers.


async def test_a_full_host_lets_rows_for_other_hosts_pass(bench: Bench) -> None:
    limited(bench, max_in_flight=1)
    for _ in range(3):
        bench.submit(host="slow")
    bench.submit(host="quick")
    await bench.settle()
    assert bench.started == [1, 4]
    bench.engine.finish(result())
    await bench.settle()
    assert bench.started == [1, 4, 2]
    bench.submit(host="slow")
    bench.engine.finish(result(), 1)
    await bench.settle()
    assert bench.started == [1, 4, 2, 3]
    bench.engine.finish(result(), 1)
    await bench.settle()
    assert bench.started == [1, 4, 2, 3, 5]


async def test_a_rate_is_kept_by_the_one_timer(bench: Bench) -> None:
    limited(bench, max_per_second=4)
    for _ in range(4):
        bench.submit(host="slow")
    await bench.settle()
    assert bench.started == [1]
    for number in (2, 3, 4):
        await bench.advance(0.249)
        assert len(bench.started) == number - 1
        await bench.advance(0.001)
        assert len(bench.started) == number
    assert bench.started == [1, 2, 3, 4]


async def test_a_row_whose_rate_lets_it_start_waits_for_trust(bench: Bench) -> None:
    limited(bench, max_per_second=4)
    for _ in range(2):
        bench.submit(host="slow")
    await bench.settle()
    bench.trusted = False
    await bench.advance(1)
    assert bench.started == [1]
    bench.trusted = True
    await bench.advance(0.1)
    assert bench.started == [1, 2]


async def test_a_row_waiting_for_its_host_may_be_taken_back_and_blocks_no_other(bench: Bench) -> None:
    limited(bench, max_in_flight=1)
    mine, others = bench.owner(), bench.owner()
    bench.submit(host="slow", owner=others)
    second = bench.submit(host="slow", owner=mine)
    bench.submit(host="slow", owner=others)
    await bench.settle()
    headroom = bench.dispatcher.headroom(SHOP)
    assert bench.dispatcher.withdraw(mine) == [second]
    assert bench.dispatcher.headroom(SHOP) == headroom + 1
    bench.engine.finish(result())
    await bench.settle()
    assert bench.started == [1, 3]


async def test_taking_back_the_row_whose_turn_it_was_calls_the_next(bench: Bench) -> None:
    limited(bench, max_in_flight=1)
    mine, others = bench.owner(), bench.owner()
    bench.submit(host="slow", owner=others)
    second = bench.submit(host="slow", owner=mine)
    bench.submit(host="slow", owner=others)
    await bench.settle()
    bench.trusted = False
    bench.engine.finish(result())
    assert bench.dispatcher.withdraw(mine) == [second]
    bench.trusted = True
    await bench.advance(1)
    assert bench.started == [1, 3]


async def test_rows_of_a_failing_host_are_deferred_without_an_attempt(bench: Bench) -> None:
    await open_breaker(bench)
    bench.submit(host="slow", attempt_base=3)
    bench.submit(host="quick")
    await bench.settle()
    assert bench.started == [1, 2, 4]
    (number, outcome), *others = bench.done
    assert (number, outcome.state, outcome.attempts, others) == (3, State.RETRYING, 3, [])
    assert outcome.reason == "receiver-open"
    assert outcome.next_attempt_at is not None
    assert NOW + 10_000 <= outcome.next_attempt_at <= NOW + 20_000
    assert bench.dispatcher.headroom(SHOP) == 99


async def test_deferred_rows_are_spread(bench: Bench) -> None:
    await open_breaker(bench)
    for _ in range(50):
        bench.submit(host="slow")
    await bench.settle()
    instants = {outcome.next_attempt_at for _, outcome in bench.done}
    assert len(instants) > 40


async def test_rows_that_wait_when_their_host_opens_are_deferred_too(bench: Bench) -> None:
    limited(bench, max_in_flight=2)
    for _ in range(5):
        bench.submit(host="slow")
    await bench.settle()
    bench.engine.finish(FAILED)
    await bench.settle()
    bench.engine.finish(FAILED)
    await bench.settle()
    assert bench.started == [1, 2, 3]
    assert [number for number, _ in bench.done] == [1, 2, 4, 5]


async def test_one_row_tries_a_host_that_was_open_and_the_others_wait_for_it(bench: Bench) -> None:
    await open_breaker(bench)
    await bench.advance(10)
    for _ in range(3):
        bench.submit(host="slow", after_ms=10_000)
    await bench.settle()
    assert bench.started == [1, 2, 3]
    bench.engine.finish(result())
    await bench.settle()
    assert bench.started == [1, 2, 3, 4, 5]


async def test_a_row_in_doubt_is_deferred_in_doubt(bench: Bench) -> None:
    await open_breaker(bench)
    bench.submit(host="slow", options='{"in_doubt":true}')
    await bench.settle()
    assert [outcome.reason for _, outcome in bench.done] == ["in-doubt"]


async def test_a_row_at_its_deadline_fails_but_never_untried(bench: Bench) -> None:
    bench.clients.known["shop"] = client(retry=RetrySettings(deadline_seconds=5))
    await open_breaker(bench)
    retry_row = {"kind": "copy", "host": "slow"}
    bench.submit(**retry_row, attempt_base=2)
    bench.submit(**retry_row, attempt_base=0)
    bench.submit(host="slow")
    await bench.settle()
    assert bench.started == [1, 2, 4]
    (tried, failed), (fresh, defer) = bench.done
    assert (tried, failed.state, failed.reason, failed.attempts) == (3, State.FAILED, "deadline", 2)
    assert failed.finished_at == UnixMillis(NOW)
    assert (fresh, defer.state) == (5, State.RETRYING)


# Clients.


async def test_a_client_whose_receivers_hang_does_not_fill_the_engine(bench: Bench) -> None:
    bench.clients.known |= {"hog": client("hog", quota=50), "other": client("other")}
    bench.engine.capacity = 30
    for number in range(100):
        bench.submit("hog", host=f"hanging{number}")
    await bench.settle()
    hogged = len(bench.started)
    assert hogged == 30 * ENGINE_PART // (1 + ENGINE_PART)
    for _ in range(4):
        bench.submit("other")
    await bench.settle()
    assert bench.started[hogged:] == [101, 102, 103, 104]


async def test_hanging_hosts_leave_capacity_to_other_clients(bench: Bench) -> None:
    names = [f"hog{number}" for number in range(5)]
    bench.clients.known |= {name: client(name, quota=50) for name in names} | {"other": client("other")}
    bench.engine.capacity = 110
    for name in names:
        for number in range(100):
            bench.submit(name, host=f"hanging{number}")
    await bench.settle()
    assert bench.engine.capacity - bench.engine.in_flight > 110 * (RESERVE - 5 * SMALL_PART)
    bench.submit("other")
    await bench.settle()
    assert bench.started[-1] == 501


async def test_capacity_freed_by_a_greedy_client_goes_to_the_waiting_ones(bench: Bench) -> None:
    bench.clients.known["hog"] = client("hog", quota=50)
    bench.engine.capacity = 3
    for number in range(4):
        bench.submit("hog", host=f"hanging{number}")
    await bench.settle()
    assert bench.started == [1, 2]
    bench.engine.finish(result())
    await bench.settle()
    assert bench.started == [1, 2, 3]


# Beyond the guarantee.


async def test_rows_beyond_the_guarantee_wait_for_everybody_elses_guaranteed_ones(bench: Bench) -> None:
    bench.clients.known |= {"big": client("big", quota=9), "small": client("small")}
    bench.trusted = False
    for _ in range(3):
        bench.submit("big", over_quota=True)
    for _ in range(3):
        bench.submit("small")
    bench.submit("big")
    await bench.settle()
    bench.engine.capacity, bench.trusted = 1, True
    await bench.advance(1)
    while len(bench.turns) < 7:
        bench.engine.finish(result())
        await bench.settle()
    assert sorted(bench.turns[:4]) == ["b", "s", "s", "s"]
    assert bench.turns[4:] == "bbb"
    assert bench.dispatcher.over_quota == 3


async def test_rows_beyond_the_guarantee_are_not_held_up_by_a_client_at_its_limit(bench: Bench) -> None:
    bench.clients.known |= {"small": client("small", max_in_flight=1)}
    bench.submit("small")
    bench.submit("small")
    bench.submit("shop", over_quota=True)
    await bench.settle()
    assert sorted(bench.started) == [1, 3]


async def test_a_node_takes_its_part_of_a_clients_limit(bench: Bench) -> None:
    bench.clients.known["shop"] = client(max_in_flight=10)
    bench.dispatcher._share = lambda client_id: 0.35
    assert bench.dispatcher.headroom(SHOP) == 3
    for number in range(5):
        bench.submit(host=f"h{number}")
    await bench.settle()
    assert len(bench.started) == 3
