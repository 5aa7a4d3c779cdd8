"""Rows whose callback names a destination: everything is taken from it when the attempt starts."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from poller_cluster.delivery.channel import Channel
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.destination_access import ClientCertificate
from scheduler_service.domain.options import RetryOverride
from scheduler_service.domain.schedules import State
from tests.unit.poller_cluster.claimed import NOW, client, destination, result
from tests.unit.poller_cluster.dispatch_bench import Bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    offer(made)
    task = asyncio.get_running_loop().create_task(made.dispatcher.run())
    await made.settle()
    yield made
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def offer(bench: Bench, *, gone: bool = False, client_settings: dict[str, Any] | None = None, **given: Any) -> None:
    """Let the client have the destination `crm`, as given."""
    found = () if gone else (destination(**given),)
    bench.clients.known["shop"] = client(destinations=found, max_in_flight=100, **(client_settings or {}))
    bench.dispatcher.wake()


async def test_the_attempt_is_made_as_the_destination_says_when_it_starts(bench: Bench) -> None:
    bench.submit(after_ms=1_000, destination="crm", method="", headers='[["X-Own","1"]]')
    await bench.settle()
    chain = ClientCertificate(chain="chain", key="key")
    offer(
        bench,
        url="https://other.example/base?a=1",
        method="PATCH",
        headers=(("x-own", "2"), ("x-shared", "3")),
        timeout_seconds=7.0,
        certificate=chain,
    )
    await bench.advance(1)
    (request,) = bench.engine.started
    assert (request.method, request.url) == ("PATCH", "https://other.example/base/1?a=1")
    assert request.headers[:2] == (("x-shared", "3"), ("X-Own", "1"))
    assert request.timeout_seconds == 7.0
    assert request.channel == Channel(certificate=chain)


async def test_what_the_callback_says_itself_counts(bench: Bench) -> None:
    bench.submit(destination="crm", method="PUT", options='{"timeout_seconds":2}')
    await bench.settle()
    (request,) = bench.engine.started
    assert (request.method, request.timeout_seconds, request.channel) == ("PUT", 2.0, None)


async def test_a_method_without_a_body_sends_none(bench: Bench) -> None:
    offer(bench, method="GET")
    bench.submit(destination="crm", method="")
    await bench.settle()
    assert bench.engine.started[0].body == b""


@pytest.mark.parametrize(("options", "attempts"), [("{}", 2), ('{"retry":{"max_attempts":1}}', 1)])
async def test_a_result_is_judged_by_the_destinations_retries(bench: Bench, options: str, attempts: int) -> None:
    offer(bench, retry=RetryOverride(max_attempts=2))
    bench.submit(destination="crm", attempt_base=attempts - 1, options=options)
    await bench.settle()
    bench.engine.finish(result(500))
    assert [(outcome.state, outcome.reason) for _, outcome in bench.done] == [(State.FAILED, "exhausted")]


async def test_a_claimed_row_of_a_destination_that_is_paused_is_not_called(bench: Bench) -> None:
    bench.submit(after_ms=1_000, destination="crm")
    bench.submit(after_ms=1_000, host="elsewhere")
    offer(bench, paused_at=NOW)
    await bench.advance(1)
    assert bench.started == [2]
    ((number, outcome),) = bench.done
    assert (number, outcome.state, outcome.reason, outcome.attempts) == (1, State.RETRYING, "destination-paused", 0)
    assert outcome.next_attempt_at == NOW + 30_000


async def test_rows_parked_for_their_destinations_limits_are_given_up_by_a_pause(bench: Bench) -> None:
    """The attempt under way hangs: nothing else would wake them."""
    offer(bench, max_in_flight=1)
    for _ in range(4):
        bench.submit(destination="crm")
    await bench.settle()
    assert bench.started == [1]
    offer(bench, max_in_flight=1, paused_at=NOW)
    await bench.settle()
    assert [(number, outcome.reason) for number, outcome in bench.done] == [
        (number, "destination-paused") for number in (2, 3, 4)
    ]
    assert bench.started == [1]


async def test_parked_rows_of_a_suspended_client_stay_parked(bench: Bench) -> None:
    offer(bench, max_in_flight=1)
    for _ in range(2):
        bench.submit(destination="crm")
    await bench.settle()
    known = client(destinations=[destination(paused_at=NOW)], state=ClientState.SUSPENDED)
    bench.clients.known["shop"] = known
    bench.dispatcher.wake()
    await bench.settle()
    assert (bench.started, bench.done) == ([1], [])


async def test_a_claimed_row_of_a_deleted_destination_fails(bench: Bench) -> None:
    bench.submit(after_ms=1_000, destination="crm")
    offer(bench, gone=True)
    await bench.advance(1)
    assert [(outcome.state, outcome.reason) for _, outcome in bench.done] == [(State.FAILED, "destination-deleted")]


async def test_a_locked_destination_defers_its_rows_alone(bench: Bench) -> None:
    offer(bench, locked="no key")
    bench.submit(destination="crm")
    bench.submit(host="elsewhere")
    await bench.settle()
    assert bench.started == [2]
    assert [(number, outcome.reason) for number, outcome in bench.done] == [(1, "destination-locked")]


async def test_a_destination_has_limits_and_a_breaker_of_its_own(bench: Bench) -> None:
    """Whatever host it is at, and whatever host has its name."""
    offer(bench, url="https://shop/", max_in_flight=2)
    shop = bench.clients.known["shop"]
    named = bench.dispatcher.receiver(shop, "destination://crm/a")
    assert bench.dispatcher.receiver(shop, "destination://crm") is named
    assert (named.name, named.headroom()) == ("destination://crm", 2)
    for host in ("https://shop/", "https://crm/"):
        assert bench.dispatcher.receiver(shop, host) is not named


async def test_the_breaker_begins_again_with_another_url(bench: Bench) -> None:
    failures = ReceiverSettings().breaker_failures
    for _ in range(failures + 1):
        bench.submit(destination="crm")
    await bench.settle()
    for _ in range(failures):
        bench.engine.finish(result(503))
    shop = bench.clients.known["shop"]
    receiver = bench.dispatcher.receiver(shop, "destination://crm")
    assert not receiver.breaker.closed
    offer(bench, headers=(("x", "1"),))
    assert not bench.dispatcher.receiver(bench.clients.known["shop"], "destination://crm").breaker.closed
    offer(bench, url="https://other.example/")
    assert bench.dispatcher.receiver(bench.clients.known["shop"], "destination://crm") is receiver
    assert receiver.breaker.closed
    bench.engine.finish(result(503))
    assert receiver.breaker.spotless, "that attempt was made to the old URL"


async def test_a_breaker_stays_open_while_the_destination_is_locked(bench: Bench) -> None:
    """What it says is not known, so that it says nothing else is not known either."""
    shop = bench.clients.known["shop"]
    receiver = bench.dispatcher.receiver(shop, "destination://crm")
    for _ in range(20):
        receiver.in_flight += 1
        receiver.ended(result(503), generation=receiver.breaker.generation, now=0.0)
    unreadable = replace(destination(), url="", locked="no key")
    bench.clients.known["shop"] = client(destinations=[unreadable])
    bench.dispatcher.receiver(bench.clients.known["shop"], "destination://crm")
    assert not receiver.breaker.closed
