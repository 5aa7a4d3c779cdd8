"""Token buckets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.rates import BURST_SECONDS, Rates

SHOP, OTHER = ClientId("shop"), ClientId("other")


def test_a_burst_then_the_rate() -> None:
    rates = Rates()
    assert all(rates.take(SHOP, 1, rate=100, now=5.0).wait_seconds is None for _ in range(1_000))
    refused = rates.take(SHOP, 1, rate=100, now=5.0)
    assert refused.left == 0
    assert refused.wait_seconds == pytest.approx(0.01)
    assert refused.full_after == pytest.approx(10)
    assert rates.take(SHOP, 1, rate=100, now=5.011).wait_seconds is None
    assert rates.take(SHOP, 2, rate=100, now=5.011).wait_seconds is not None
    assert rates.take(OTHER, 1_000, rate=100, now=5.011).wait_seconds is None, "nobody else is held up"


def test_the_remaining_tokens_are_reported() -> None:
    rates = Rates()
    assert rates.take(SHOP, 1, rate=10, now=0).left == 99
    assert rates.take(SHOP, 49, rate=10, now=0) == (50, pytest.approx(5), None)
    assert rates.take(SHOP, 1, rate=10, now=3).left == 79
    assert rates.take(SHOP, 1, rate=10, now=1_000).left == 99


def test_a_batch_is_taken_whole_or_not_at_all() -> None:
    rates = Rates()
    rates.take(SHOP, 950, rate=100, now=0)
    refused = rates.take(SHOP, 100, rate=100, now=0)
    assert refused.wait_seconds == pytest.approx(0.5)
    assert refused.left == 50
    assert rates.take(SHOP, 50, rate=100, now=0).wait_seconds is None, "a refusal takes nothing"


def test_what_is_more_than_a_full_bucket_waits_for_one_and_leaves_a_debt() -> None:
    rates = Rates()
    assert rates.take(SHOP, 1_000, rate=10, now=0).wait_seconds is None
    refused = rates.take(SHOP, 1, rate=10, now=0)
    assert refused.wait_seconds == pytest.approx(90.1)
    assert refused.left == 0
    assert rates.take(SHOP, 1_000, rate=10, now=50).wait_seconds == pytest.approx(50)
    assert rates.take(SHOP, 1_000, rate=10, now=100).wait_seconds is None


@given(
    st.floats(0.1, 1_000_000),
    st.lists(st.tuples(st.floats(0, 30), st.integers(1, 1_000)), min_size=1, max_size=60),
)
def test_no_span_gives_more_than_its_rate_and_one_burst(rate: float, asked: list[tuple[float, int]]) -> None:
    rates, now = Rates(), 1_000_000.0
    granted: list[tuple[float, int]] = []
    for pause, count in asked:
        now += pause
        allowance = rates.take(SHOP, count, rate=rate, now=now)
        if allowance.wait_seconds is None:
            granted.append((now, count))
        else:
            assert allowance.wait_seconds > 0
            again = Rates()
            for at, before in granted:
                again.take(SHOP, before, rate=rate, now=at)
            later = now + allowance.wait_seconds + 1e-5
            assert again.take(SHOP, count, rate=rate, now=later).wait_seconds is None, "it fits when it was told to"
    for first, (start, _) in enumerate(granted):
        total = 0
        for last, (at, count) in enumerate(granted[first:], start=first):
            total += count
            largest = max(BURST_SECONDS * rate, max(one for _, one in granted[first : last + 1]))
            before = max((one for _, one in granted[first:last]), default=0)
            assert total <= largest + rate * (at - start) + before + 1e-3 * rate + 1


def test_the_clients_remembered_are_those_of_the_last_seconds() -> None:
    rates = Rates()
    for number in range(5_000):
        rates.take(ClientId(f"c{number}"), 1, rate=1, now=number * 0.1)
    assert len(rates) <= 12
    for number in range(500):
        rates.take(ClientId(f"d{number}"), 1_000, rate=10, now=500.0)
    assert len(rates) >= 500
    for number in range(600):
        rates.take(ClientId(f"e{number}"), 1, rate=100, now=5_000.0 + number)
    assert len(rates) <= 2


def test_there_are_never_more_than_are_remembered() -> None:
    rates = Rates(remembered=10)
    for number in range(100):
        rates.take(ClientId(f"c{number}"), 1, rate=1, now=0)
    assert len(rates) == 10
    assert rates.take(ClientId("c99"), 10, rate=1, now=0).wait_seconds is not None
    assert rates.take(ClientId("c0"), 10, rate=1, now=0).wait_seconds is None
