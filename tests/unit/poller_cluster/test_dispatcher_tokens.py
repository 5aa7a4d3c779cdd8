"""Rows whose destination has a token source: they wait for the token, carry it, or are deferred."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest

from poller_cluster.destinations import served
from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.tokens import FIRST_REFETCH_SECONDS
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.destinations import Destination, TokenSource, named_url
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.domain.schedules import State
from tests.support.token_fetches import DOWN
from tests.unit.poller_cluster.claimed import NOW, RowOwner, claim, client, result
from tests.unit.poller_cluster.dispatch_bench import Bench

SHOP = ClientId("shop")
SOURCE = TokenSource(client_id="shop", client_secret="secret", token_url="https://tokens.test/token")
OWN = '[["authorization","Basic own"]]'


class TokenBench(Bench):
    def __init__(self, *, max_in_flight: int | None = None) -> None:
        super().__init__()
        called = Destination(url="https://orders.test", token=SOURCE, max_in_flight=max_in_flight)
        plain = client()
        orders = served("orders", called, plain.settings, channel=None)
        self.clients.known["shop"] = dataclasses.replace(plain, destinations={"orders": orders})

    def call(self, *, headers: str = "[]", owner: RowOwner | None = None, redelivery: bool = False) -> None:
        """Submit a row of the destination that is due now."""
        owner = owner or self.owner()
        self.tail += 1
        url = named_url("orders", f"/{self.tail}")
        one = claim(due=NOW, tail=self.tail, url=url, headers=headers, redelivery=redelivery)
        self.dispatcher.submit([Job(owner, one, one.row.due)])

    @property
    def authorizations(self) -> list[str | None]:
        return [dict(request.headers).get("Authorization") for request in self.engine.started]


async def running(made: TokenBench) -> AsyncIterator[TokenBench]:
    task = asyncio.get_running_loop().create_task(made.dispatcher.run())
    await made.settle()
    yield made
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def bench() -> AsyncIterator[TokenBench]:
    async for made in running(TokenBench()):
        yield made


@pytest.fixture
async def narrow() -> AsyncIterator[TokenBench]:
    """One call of the destination at a time."""
    async for made in running(TokenBench(max_in_flight=1)):
        yield made


async def test_they_wait_for_one_fetch_and_pass_no_others(bench: TokenBench) -> None:
    bench.call()
    bench.call()
    bench.submit()
    await bench.settle()
    assert (bench.started, len(bench.fetcher.asked)) == ([3], 1)
    bench.fetcher.grant("abc")
    await bench.settle()
    bench.call()
    await bench.settle()
    assert bench.started == [3, 1, 2, 4]
    assert bench.authorizations == [None, "Bearer abc", "Bearer abc", "Bearer abc"]
    assert len(bench.fetcher.asked) == 1


async def test_without_a_token_they_are_deferred_without_an_attempt(bench: TokenBench) -> None:
    bench.call()
    bench.call(redelivery=True)
    await bench.settle()
    bench.fetcher.fail(DOWN)
    await bench.settle()
    bench.call()  # within the pause
    await bench.settle()
    assert (bench.started, bench.results, len(bench.fetcher.asked)) == ([], [], 1)
    assert [(number, outcome.reason) for number, outcome in bench.done] == [
        (1, "token-unavailable"),
        (2, "in-doubt"),
        (3, "token-unavailable"),
    ]
    for _, outcome in bench.done:
        assert (outcome.state, outcome.attempts, outcome.first_attempt_at) == (State.RETRYING, 0, None)
        assert outcome.next_attempt_at is not None
        assert FIRST_REFETCH_SECONDS * 500 <= outcome.next_attempt_at - NOW <= 2 * FIRST_REFETCH_SECONDS * 1000
    assert bench.dispatcher.held_back().total() == 0
    assert bench.dispatcher.headroom(SHOP) > 0


async def test_a_callbacks_own_authorization_wins_and_waits_for_nothing(bench: TokenBench) -> None:
    bench.call(headers=OWN)
    await bench.settle()
    assert (bench.started, bench.fetcher.asked) == ([1], [])
    assert dict(bench.engine.started[0].headers)["authorization"] == "Basic own"
    bench.engine.finish(result(401))
    await bench.settle()
    assert bench.fetcher.asked == []


@pytest.mark.parametrize(("status", "fetches"), [(401, 2), (403, 1), (500, 1), (200, 1)])
async def test_a_rejected_token_is_replaced(bench: TokenBench, status: int, fetches: int) -> None:
    bench.call()
    await bench.settle()
    bench.fetcher.grant("first")
    await bench.settle()
    bench.engine.finish(result(status))
    await bench.settle()
    (_, outcome) = bench.done[0]
    assert outcome.attempts == 1, "the answer counts like any other"
    bench.call()
    await bench.settle()
    assert len(bench.fetcher.asked) == fetches
    if fetches == 2:
        bench.fetcher.grant("second")
        await bench.settle()
    assert bench.authorizations[1] == ("Bearer second" if fetches == 2 else "Bearer first")


async def test_rows_that_wait_may_be_taken_back(bench: TokenBench) -> None:
    mine, others = bench.owner(), bench.owner()
    for owner in (mine, others, mine):
        bench.call(owner=owner)
    await bench.settle()
    assert [job.claim.row.schedule_id.int & 0xFF for job in bench.dispatcher.withdraw(mine)] == [1, 3]
    bench.fetcher.grant()
    await bench.settle()
    assert bench.started == [2]


async def test_a_row_that_waits_does_not_hold_its_receivers_turn(narrow: TokenBench) -> None:
    narrow.call(headers=OWN)
    await narrow.settle()
    narrow.call()
    narrow.call(headers=OWN)
    await narrow.settle()
    assert narrow.started == [1]
    narrow.engine.finish(result())
    await narrow.settle()
    assert narrow.started == [1, 3]
    narrow.fetcher.grant()
    await narrow.settle()
    assert narrow.started == [1, 3], "its receiver has no room"
    narrow.engine.finish(result())
    await narrow.settle()
    assert narrow.started == [1, 3, 2]


async def test_the_tokens_of_a_client_that_has_left_are_forgotten(bench: TokenBench) -> None:
    bench.call()
    await bench.settle()
    bench.fetcher.grant()
    await bench.settle()
    bench.engine.finish(result())
    await bench.settle()
    bench.dispatcher.left(SHOP)
    await bench.advance(ReceiverSettings().breaker_longest_seconds + 1)
    bench.call()
    await bench.settle()
    assert len(bench.fetcher.asked) == 2


async def test_a_late_row_is_skipped_and_asks_for_no_token(bench: TokenBench) -> None:
    bench.tail += 1
    options = encode_options(ScheduleOptions(skip_after_seconds=1))
    one = claim(due=NOW - 5_000, tail=1, url=named_url("orders", ""), headers="[]", options=options)
    bench.dispatcher.submit([Job(bench.owner(), one, one.row.due)])
    await bench.settle()
    assert [outcome.state for _, outcome in bench.done] == [State.SKIPPED]
    assert bench.fetcher.asked == []
