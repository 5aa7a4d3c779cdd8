"""When attempts start, in which order, and how results are handled. The test moves the clock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from poller_cluster.clients import ServedClient
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.dispatcher import ENDS_AT_ONCE, HELD_BACK_SECONDS
from poller_cluster.dispatch.named_rows import LOCKED_SECONDS
from poller_cluster.dispatch.ready_rows import claim_rows
from poller_cluster.dispatch.receivers import Receiver
from poller_cluster.settings import MinuteSettings, ReceiverSettings
from scheduler_service.domain.clients import ClientState, HostLimit, LatePolicy
from scheduler_service.domain.ids import ClientId, Minute, PollerId
from scheduler_service.domain.schedules import State
from tests.unit.poller_cluster.claimed import EPOCH, NOW, SENDER, client, result
from tests.unit.poller_cluster.dispatch_bench import Bench

NOT_TRUSTED = result(None, error="not-trusted", nothing_sent=True)
STOPPED = result(None, error="stopped")
SHOP = ClientId("shop")
REMEMBERED = ReceiverSettings().breaker_longest_seconds


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    task = asyncio.get_running_loop().create_task(made.dispatcher.run())
    await made.settle()
    yield made
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_never_early_and_at_the_due(bench: Bench) -> None:
    bench.submit(after_ms=2_000)
    await bench.advance(1.999)
    assert bench.started == []
    await bench.advance(0.001)
    assert bench.started == [1]


async def test_an_earlier_row_that_comes_later_is_not_late(bench: Bench) -> None:
    bench.submit(after_ms=5_000)
    await bench.settle()
    bench.submit(after_ms=1_000)
    await bench.settle()
    await bench.advance(1)
    assert bench.started == [2]
    await bench.advance(4)
    assert bench.started == [2, 1]


async def test_the_clock_may_be_ahead(bench: Bench) -> None:
    """A node that may be ahead of the others by some time waits that much longer."""
    bench.ahead_ms = 1_000
    bench.submit()
    await bench.advance(0.5)
    assert bench.started == []
    await bench.advance(0.5)
    assert bench.started == [1]


@pytest.mark.parametrize(("known", "skipped_after_ms"), [(True, 1_500), (False, 2_500)])
async def test_lateness_is_judged_by_the_clock_that_starts_calls(
    bench: Bench, known: bool, skipped_after_ms: int
) -> None:
    """What this node is ahead is no lateness; while that is only bounded, neither is the permitted second."""
    bench.ahead_ms, bench.offset_known = 1_000, known
    bench.clients.known["shop"] = client(late_policy=LatePolicy(kind="skip", after_seconds=0.5))
    bench.submit(after_ms=-skipped_after_ms)
    await bench.settle()
    assert (bench.started, bench.done) == ([1], [])
    bench.submit(after_ms=-skipped_after_ms - 1)
    await bench.settle()
    assert [(number, outcome.state) for number, outcome in bench.done] == [(2, State.SKIPPED)]


async def test_a_clock_set_back_makes_ready_rows_wait_again(bench: Bench) -> None:
    bench.engine.capacity = 1
    bench.submit()
    bench.submit()
    await bench.settle()
    bench.clock.now -= 5_000
    bench.engine.finish(result())
    await bench.settle()
    assert bench.started == [1]
    await bench.advance(5)
    assert bench.started == [1, 2]


@pytest.mark.parametrize("capacity", [100, 1, 2])
async def test_turns_are_in_proportion_to_quotas(bench: Bench, capacity: int) -> None:
    """However little room the engine has at a time."""
    bench.clients.known |= {"big": client("big", quota=3), "small": client("small", quota=1)}
    bench.trusted = False
    for _ in range(6):
        bench.submit("small")
    for _ in range(12):
        bench.submit("big")
    await bench.settle()
    bench.engine.capacity, bench.trusted = capacity, True
    await bench.advance(2 * HELD_BACK_SECONDS)
    while len(bench.turns) < 18:
        bench.engine.finish(result())
        await bench.settle()
    assert bench.turns == "sbbb" * 4 + "ss"


async def test_a_client_that_has_nothing_saves_nothing(bench: Bench) -> None:
    bench.clients.known |= {"big": client("big", quota=3), "small": client("small", quota=1)}
    bench.submit("big")
    await bench.settle()
    bench.engine.capacity = 1
    for client_id in ["small"] * 2 + ["big"] * 6:
        bench.submit(client_id)
    await bench.settle()
    while len(bench.turns) < 9:
        bench.engine.finish(result())
        await bench.settle()
    assert bench.turns == "b" + "sbbb" + "sbbb"


async def test_a_client_has_its_own_limit(bench: Bench) -> None:
    bench.clients.known |= {"shop": client(max_in_flight=2), "other": client("other")}
    for _ in range(3):
        bench.submit()
    bench.submit("other")
    await bench.settle()
    assert sorted(bench.started) == [1, 2, 4]
    bench.engine.finish(result())
    await bench.settle()
    assert bench.started[-1] == 3


async def test_the_engine_has_a_limit(bench: Bench) -> None:
    bench.engine.capacity = 2
    for _ in range(4):
        bench.submit()
    await bench.settle()
    assert bench.started == [1, 2]
    bench.engine.finish(result())
    await bench.settle()
    assert bench.started == [1, 2, 3]


async def test_headroom_is_what_the_limit_leaves(bench: Bench) -> None:
    shop = ClientId("shop")
    bench.clients.known["shop"] = client(max_in_flight=3)
    assert bench.dispatcher.headroom(shop) == 3
    bench.submit()
    bench.submit(after_ms=60_000)
    assert bench.dispatcher.headroom(shop) == 1
    await bench.settle()
    assert bench.dispatcher.headroom(shop) == 1
    bench.engine.finish(result())
    assert bench.dispatcher.headroom(shop) == 2
    bench.clients.known["shop"] = client(state=ClientState.SUSPENDED)
    assert bench.dispatcher.headroom(shop) == 0
    assert bench.dispatcher.headroom(ClientId("nobody")) == 0


async def test_rows_being_claimed_take_room_too(bench: Bench) -> None:
    shop = ClientId("shop")
    bench.clients.known["shop"] = client(max_in_flight=3)
    bench.dispatcher.reserve(shop, 2)
    assert bench.dispatcher.headroom(shop) == 1
    bench.dispatcher.reserve(shop, -2)
    assert bench.dispatcher.headroom(shop) == 3


async def test_a_client_at_its_limit_claims_again_when_there_is_room_for_many(bench: Bench) -> None:
    shop = ClientId("shop")
    bench.clients.known["shop"] = client(max_in_flight=100)
    bench.dispatcher.reserve(shop, 89)
    bench.dispatcher.reserve(shop, 1)
    assert bench.dispatcher.headroom(shop) == 0
    bench.dispatcher.reserve(shop, -1)
    assert (bench.dispatcher.headroom(shop), bench.free) == (0, [])
    bench.dispatcher.reserve(shop, -1)
    assert (bench.dispatcher.headroom(shop), bench.free) == (12, [shop])
    bench.dispatcher.reserve(shop, -1)
    assert bench.free == [shop], "there was room before"
    bench.dispatcher.reserve(shop, 1)
    bench.clients.known["shop"] = client(max_in_flight=10_000)
    bench.dispatcher.reserve(shop, 9_750 - 88)
    assert bench.dispatcher.headroom(shop) == 250


@given(limit=st.integers(1, 20_000), share=st.floats(0.001, 1))
@example(limit=100, share=0.99)
@example(limit=5, share=0.8)
def test_a_slow_receiver_leaves_a_client_room_to_claim_for_others(limit: int, share: float) -> None:
    settings = ReceiverSettings(receiver_share=share)
    slow: Receiver[int] = Receiver("slow", settings, lambda: None)
    slow.set_limits(HostLimit(), max_in_flight=limit, share=1.0)
    left = limit - slow.headroom()
    assert 1 <= claim_rows(limit, receiver_share=share) <= max(left, 1)


async def test_claims_reach_less_far_ahead_when_headroom_is_scarce(bench: Bench) -> None:
    """Pollers that claim for later would delay other pollers' rows that are due now."""
    shop, settings = ClientId("shop"), MinuteSettings(claim_ahead_ms=5_000, claim_lead_ms=1_000)
    bench.clients.known["shop"] = client(max_in_flight=100)
    seen = []
    for taken in (0, 49, 1, 24, 1):
        bench.dispatcher.reserve(shop, taken)
        seen.append(bench.dispatcher.claim_ahead_ms(shop, settings))
    assert seen == [5_000, 5_000, 1_000, 1_000, 0]


async def test_a_limit_of_one_claims_nothing_ahead(bench: Bench) -> None:
    bench.clients.known["shop"] = client(max_in_flight=1)
    assert bench.dispatcher.claim_ahead_ms(ClientId("shop"), MinuteSettings()) == 0


@pytest.mark.parametrize("want", ["trust", "clock"])
async def test_ready_rows_are_held_back_and_go_on(bench: Bench, want: str) -> None:
    bench.trusted, bench.clock.trusted = want != "trust", want != "clock"
    bench.submit()
    await bench.advance(60)
    assert bench.started == []
    bench.trusted = bench.clock.trusted = True
    await bench.advance(2 * HELD_BACK_SECONDS)
    assert bench.started == [1]


async def test_rows_held_back_when_the_last_attempt_ended_without_trust_go_on(bench: Bench) -> None:
    """Nothing else is due and no call is under way, so only the ticker looks again."""
    bench.engine.capacity = 1
    bench.submit()
    bench.submit()
    await bench.settle()
    bench.trusted = False
    bench.engine.finish(result())
    await bench.advance(60)
    assert bench.started == [1]
    bench.trusted = True
    await bench.advance(2 * HELD_BACK_SECONDS)
    assert bench.started == [1, 2]


async def test_the_owner_may_take_back_what_was_not_started(bench: Bench) -> None:
    bench.engine.capacity = 1
    mine, others = bench.owner(), bench.owner()
    bench.submit(owner=mine)
    ready, waiting = bench.submit(owner=mine), bench.submit(owner=mine, after_ms=1_000)
    bench.submit(owner=others)
    bench.submit(owner=others, after_ms=1_000)
    await bench.settle()
    headroom = bench.dispatcher.headroom(ClientId("shop"))
    assert set(bench.dispatcher.withdraw(mine)) == {ready, waiting}
    assert bench.dispatcher.headroom(ClientId("shop")) == headroom + 2
    assert bench.dispatcher.withdraw(mine) == []
    bench.engine.capacity = 100
    await bench.advance(1)
    assert bench.started == [1, 4, 5]


async def test_the_engine_asks_the_owner(bench: Bench) -> None:
    bench.submit()
    bench.submit()
    await bench.settle()
    assert [may_start() for _, may_start in bench.engine.open] == [True, False]


async def test_a_result_becomes_an_outcome(bench: Bench) -> None:
    bench.submit()
    await bench.settle()
    bench.engine.finish(result(204))
    (number, outcome), *others = bench.done
    assert (number, outcome.state, outcome.attempts, others) == (1, State.DELIVERED, 1, [])
    assert (outcome.fired_by, outcome.fired_epoch) == (SENDER.incarnation, EPOCH)
    assert bench.results == [result(204)]


async def test_an_attempt_stopped_by_lost_trust_is_queued_again(bench: Bench) -> None:
    mine = bench.owner()
    job = bench.submit(owner=mine)
    await bench.settle()
    headroom = bench.dispatcher.headroom(ClientId("shop"))
    bench.trusted = False
    bench.engine.finish(NOT_TRUSTED)
    assert (bench.done, bench.results, bench.again) == ([], [], [1])
    assert bench.dispatcher.headroom(ClientId("shop")) == headroom
    await bench.advance(1)
    assert bench.started == [1]
    bench.trusted = True
    await bench.advance(1)
    assert bench.started == [1, 1]
    bench.trusted = False
    bench.engine.finish(NOT_TRUSTED)
    assert bench.dispatcher.withdraw(mine) == [job]


async def test_an_attempt_stopped_with_the_engine_stays_in_flight(bench: Bench) -> None:
    bench.submit()
    await bench.settle()
    headroom = bench.dispatcher.headroom(ClientId("shop"))
    bench.engine.finish(STOPPED)
    await bench.advance(60)
    assert (bench.done, bench.results, bench.again, bench.started) == ([], [], [], [1])
    assert bench.dispatcher.headroom(ClientId("shop")) == headroom


@pytest.mark.parametrize("gone", [None, client(state=ClientState.SUSPENDED)], ids=["unknown", "suspended"])
async def test_rows_of_a_suspended_client_wait(bench: Bench, gone: ServedClient | None) -> None:
    bench.clients.known = {"other": client("other")} | ({"shop": gone} if gone else {})
    bench.submit()
    bench.submit("other")
    await bench.settle()
    assert bench.started == [2]
    bench.clients.known["shop"] = client()
    bench.engine.finish(result())
    await bench.settle()
    assert bench.started == [2, 1]


async def test_a_row_that_is_not_sent_has_its_outcome_at_once(bench: Bench) -> None:
    bench.submit(nominal_due=10**18)
    bench.submit()
    await bench.settle()
    assert bench.started == [2]
    (number, outcome), *others = bench.done
    assert (number, outcome.state, outcome.reason, others) == (1, State.FAILED, "internal", [])
    assert len(bench.faults) == 1
    assert bench.dispatcher.headroom(ClientId("shop")) == 99


async def test_rows_of_a_resumed_client_start_when_the_dispatcher_is_notified(bench: Bench) -> None:
    bench.clients.known = {"shop": client(state=ClientState.SUSPENDED)}
    bench.submit()
    await bench.settle()
    bench.clients.known = {"shop": client()}
    bench.dispatcher.wake()
    await bench.settle()
    assert bench.started == [1]


@pytest.mark.parametrize("in_doubt", [False, True])
async def test_a_row_whose_headers_do_not_open_is_deferred_and_others_go(bench: Bench, in_doubt: bool) -> None:
    bench.clients.locked_headers.add("sealed:1:gone:AAAA")
    bench.submit(headers="sealed:1:gone:AAAA", options='{"in_doubt":true}' if in_doubt else "{}")
    bench.submit(headers="[]")
    await bench.settle()
    assert (bench.started, bench.faults) == ([2], [])
    ((number, outcome),) = bench.done
    assert (number, outcome.state, outcome.attempts) == (1, State.RETRYING, 0)
    assert outcome.reason == ("in-doubt" if in_doubt else "headers-locked")
    assert outcome.next_attempt_at is not None
    assert LOCKED_SECONDS * 1000 <= outcome.next_attempt_at - NOW <= 2 * LOCKED_SECONDS * 1000
    assert bench.dispatcher.headroom(ClientId("shop")) > 0


async def test_rows_that_wait_go_on_before_many_attempts_have_ended(bench: Bench) -> None:
    """Otherwise the connections of all attempts that end in one turn would be idle at once, and exceed the number that
    is kept.
    """
    bench.engine.capacity = 1_000
    for _ in range(200):
        bench.submit(host="one")
    await bench.settle()
    begun = len(bench.started)
    assert ENDS_AT_ONCE < begun < 200 - ENDS_AT_ONCE
    for _ in range(ENDS_AT_ONCE - 1):
        bench.engine.finish(result())
    assert len(bench.started) == begun
    bench.engine.finish(result())
    assert len(bench.started) == begun + ENDS_AT_ONCE


async def test_what_is_due_soon_is_not_late_by_the_time_that_starting_others_took(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = bench.engine.start_attempt

    def slow(request: CallbackRequest, on_done: Callable[[AttemptResult], None], **asked: Any) -> None:
        bench.clock.advance(0.01)
        start(request, on_done, **asked)

    monkeypatch.setattr(bench.engine, "start_attempt", slow)
    for _ in range(20):
        bench.submit()
    bench.submit(after_ms=300)
    await bench.settle()
    assert len(bench.started) == 20
    await bench.advance(0.1)
    assert len(bench.started) == 21


def knows(bench: Bench) -> tuple[bool, bool]:
    """Whether the dispatcher still has counts of the client's rows, and receivers."""
    return bool(bench.dispatcher._held), bool(list(bench.dispatcher._receivers.all()))


async def test_a_client_that_left_is_forgotten_when_no_breaker_can_be_open(bench: Bench) -> None:
    bench.submit()
    await bench.settle()
    bench.engine.finish(result())
    bench.dispatcher.left(SHOP)
    await bench.advance(REMEMBERED - 1)
    assert knows(bench) == (True, True)
    await bench.advance(1)
    assert knows(bench) == (False, False)
    bench.submit()
    await bench.settle()
    assert bench.started == [1, 2]


async def test_a_client_that_left_and_came_back_is_remembered(bench: Bench) -> None:
    receiver = bench.submit().receiver
    await bench.settle()
    bench.engine.finish(result())
    bench.dispatcher.left(SHOP)
    bench.pollers.held = {PollerId(0): Minute(1)}
    await bench.advance(REMEMBERED)
    assert bench.submit().receiver is receiver
    await bench.settle()
    bench.engine.finish(result())
    bench.pollers.held = {}
    await bench.advance(10 * REMEMBERED)
    assert knows(bench) == (True, True), "it is not said to have left again"
    bench.dispatcher.left(SHOP)
    await bench.advance(REMEMBERED)
    assert knows(bench) == (False, False)


async def test_the_time_begins_again_when_a_client_leaves_again(bench: Bench) -> None:
    bench.clients.known["other"] = client("other")
    for client_id in ("other", "shop"):
        bench.submit(client_id)
        await bench.settle()
        bench.engine.finish(result())
    bench.dispatcher.left(SHOP)
    bench.dispatcher.left(ClientId("other"))
    await bench.advance(REMEMBERED - 1)
    bench.dispatcher.left(SHOP)
    await bench.advance(REMEMBERED - 1)
    assert [client_id for client_id, _ in bench.dispatcher._receivers.all()] == ["shop"]
    await bench.advance(1)
    assert knows(bench) == (False, False)


async def test_a_client_is_not_forgotten_while_a_row_is_in_flight(bench: Bench) -> None:
    bench.submit()
    await bench.settle()
    bench.dispatcher.left(SHOP)
    await bench.advance(REMEMBERED)
    assert knows(bench) == (True, True)
    bench.engine.finish(result())
    assert [number for number, _ in bench.done] == [1]
    await bench.advance(REMEMBERED)
    assert knows(bench) == (False, False)


async def test_a_client_is_not_forgotten_while_rows_are_being_claimed(bench: Bench) -> None:
    bench.dispatcher.reserve(SHOP, 3)
    bench.dispatcher.left(SHOP)
    await bench.advance(REMEMBERED)
    assert knows(bench) == (True, False)
    bench.dispatcher.reserve(SHOP, -3)
    await bench.advance(REMEMBERED)
    assert knows(bench) == (False, False)


async def test_a_breaker_that_opened_after_its_client_left_is_remembered(bench: Bench) -> None:
    receiver = bench.submit().receiver
    assert receiver is not None
    await bench.settle()
    bench.dispatcher.left(SHOP)
    await bench.advance(REMEMBERED - 1)
    receiver.breaker._failures = 1_000
    bench.engine.finish(result(503))
    assert not receiver.breaker.closed
    await bench.advance(1)
    assert bench.dispatcher.receiver(client(), "https://shop/") is receiver
    await bench.advance(REMEMBERED)
    assert knows(bench) == (False, False)
