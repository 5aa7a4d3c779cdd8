import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.ids import ClientId, Minute
from scheduler_service.domain.quotas import RUN_LENGTH, PollerChooser, pinned_poller
from tests.support.api import SeededRandomness

SHOP = ClientId("shop")


@given(st.integers(1, 64), st.integers(0, 2_000), st.integers(0, 1_000))
def test_no_poller_gets_more_than_a_run_above_another(quota: int, rows: int, seed: int) -> None:
    chooser = PollerChooser(SeededRandomness(seed))
    pollers = Counter(chooser.choose(SHOP, Minute(7), quota=quota) for _ in range(rows))
    counts = [pollers.get(poller, 0) for poller in range(quota)]
    assert set(pollers) <= set(range(quota))
    assert max(counts) - min(counts) <= RUN_LENGTH


def test_a_full_quota_fills_every_poller_to_what_it_is_guaranteed() -> None:
    chooser = PollerChooser(SeededRandomness())
    pollers = Counter(chooser.choose(SHOP, Minute(7), quota=3) for _ in range(3_000))
    assert pollers == {0: 1_000, 1: 1_000, 2: 1_000}


def test_stays_in_the_poller_it_is_filling() -> None:
    chooser = PollerChooser(SeededRandomness())
    pollers = [chooser.choose(SHOP, Minute(7), quota=8) for _ in range(RUN_LENGTH * 8)]
    changes = sum(before != after for before, after in itertools.pairwise(pollers))
    assert changes == 7


def test_single_rows_of_many_minutes_spread_over_all_pollers() -> None:
    chooser = PollerChooser(SeededRandomness())
    pollers = Counter(chooser.choose(SHOP, Minute(minute), quota=4) for minute in range(4_000))
    assert all(850 < pollers[poller] < 1_150 for poller in range(4))


def test_what_is_remembered_is_bounded() -> None:
    chooser = PollerChooser(SeededRandomness(), remembered=10)
    for minute in range(1_000):
        chooser.choose(SHOP, Minute(minute), quota=4)
    assert len(chooser._placed) == 10


def test_a_shrunk_quota_is_obeyed_at_once() -> None:
    chooser = PollerChooser(SeededRandomness())
    for _ in range(500):
        chooser.choose(SHOP, Minute(7), quota=16)
    assert all(chooser.choose(SHOP, Minute(7), quota=2) < 2 for _ in range(500))


@given(st.text(min_size=1, max_size=40), st.integers(1, 100))
def test_a_grown_quota_moves_a_key_only_to_the_new_poller(ordering_key: str, quota: int) -> None:
    before = pinned_poller(SHOP, ordering_key, quota=quota)
    after = pinned_poller(SHOP, ordering_key, quota=quota + 1)
    assert before < quota
    assert after in (before, quota)


def test_keys_spread_evenly_over_pollers() -> None:
    pollers = Counter(pinned_poller(SHOP, f"order-{number}", quota=7) for number in range(7_000))
    assert all(850 < pollers[poller] < 1_150 for poller in range(7))


def test_a_pinned_poller_never_changes_between_releases() -> None:
    pollers = [pinned_poller(SHOP, f"order-{number}", quota=100) for number in range(8)]
    assert pollers == [10, 11, 34, 46, 5, 27, 14, 18]
