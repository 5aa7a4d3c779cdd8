"""How many unanswered requests a session may have, and which ones wait."""

import asyncio

import pytest

from cql.concurrency_limiter import ENOUGH, LEAST, WINDOW_SECONDS, ConcurrencyLimiter, QueueFull

PLACES = 1024


class Windows:
    def __init__(self, places: int = PLACES) -> None:
        self.limiter = ConcurrencyLimiter(places=places, waiting=10)
        self.now = 5.0
        self.limiter.answered(True, now=self.now)

    def window(self, *, answered: int = 100, unanswered: int = 0) -> int:
        ends = [True] * answered + [False] * unanswered
        for end in ends[:-1]:
            self.limiter.answered(end, now=self.now)
        self.now += WINDOW_SECONDS
        self.limiter.answered(ends[-1], now=self.now)
        return self.limiter.places


def test_it_halves_while_most_are_unanswered_and_grows_back() -> None:
    windows = Windows()
    assert [windows.window(answered=10, unanswered=90) for _ in range(7)] == [512, 256, 128, 64, LEAST, LEAST, LEAST]
    grown = [windows.window() for _ in range(20)]
    assert grown[0] == LEAST + LEAST // 4
    assert grown[-1] == PLACES


def test_one_frozen_server_of_three_changes_nothing() -> None:
    windows = Windows()
    assert {windows.window(answered=67, unanswered=33) for _ in range(5)} == {PLACES}


def test_a_few_requests_say_nothing() -> None:
    windows = Windows()
    assert windows.window(answered=0, unanswered=ENOUGH // 2) == PLACES


def test_a_small_setting_stays_as_it_is() -> None:
    assert Windows(places=4).window(answered=0, unanswered=50) == 4


async def test_waiting_requests_are_sent_in_order_as_places_become_free() -> None:
    limiter = ConcurrencyLimiter(places=1, waiting=2)
    assert limiter.enter() is None
    first, second = limiter.enter(), limiter.enter()
    assert first is not None
    assert second is not None
    with pytest.raises(QueueFull):
        limiter.enter()
    limiter.leave()
    assert (first.done(), second.done(), limiter.taken) == (True, False, 1)
    limiter.leave()
    assert second.done()
    limiter.leave()
    assert limiter.taken == 0


async def test_with_fewer_places_no_request_is_sent_until_enough_have_ended() -> None:
    windows = Windows(places=64)
    limiter = windows.limiter
    for _ in range(64):
        assert limiter.enter() is None
    turn = limiter.enter()
    assert turn is not None
    windows.window(answered=0, unanswered=50)
    for _ in range(64 - LEAST):
        limiter.leave()
    assert not turn.done()
    limiter.leave()
    assert turn.done()


async def test_a_cancelled_waiter_takes_no_place() -> None:
    limiter = ConcurrencyLimiter(places=1, waiting=5)
    limiter.enter()
    in_queue, granted = limiter.enter(), limiter.enter()
    assert in_queue is not None
    assert granted is not None
    in_queue.cancel()
    limiter.left_queue(in_queue)
    limiter.leave()
    assert granted.done()
    limiter.left_queue(granted)
    assert limiter.taken == 0
    await asyncio.sleep(0)
