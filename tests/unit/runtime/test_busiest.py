"""Labels for the few busiest of many names: bounded, stable, and every event counted exactly once."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.runtime.busiest import HYSTERESIS, OTHER, RANK_SECONDS, Busiest


class Fires:
    def __init__(self) -> None:
        self.fires = 0


class Bench:
    def __init__(self, most: int) -> None:
        self.busiest = Busiest(most=most, new=Fires)
        self.now = 0.0
        self.busiest.shown(self.now)

    def fire(self, name: str, times: int) -> None:
        for _ in range(times):
            self.busiest.account(name).fires += 1

    def period(self, **times: int) -> dict[str, int]:
        """So many events of each name, then a scrape after the ranking."""
        for name, count in times.items():
            self.fire(name, count)
        self.now += RANK_SECONDS
        return self.shown()

    def shown(self) -> dict[str, int]:
        return {label: one.fires for label, one in self.busiest.shown(self.now).items()}


def test_the_first_names_have_labels_and_the_others_share_one() -> None:
    bench = Bench(2)
    bench.fire("a", 1)
    bench.fire("b", 2)
    bench.fire("c", 3)
    bench.fire("d", 4)
    assert bench.shown() == {"a": 1, "b": 2, OTHER: 7}


def test_a_busier_name_takes_the_least_busys_label_and_what_was_counted_stays() -> None:
    bench = Bench(2)
    assert bench.period(a=10, b=50, c=100) == {"a": 10, "b": 50, "c": 0, OTHER: 100}
    assert bench.period(a=10, b=50, c=100) == {"a": 10, "b": 100, "c": 100, OTHER: 110}
    assert bench.busiest.label("a") == OTHER
    assert bench.busiest.label("c") == "c"


def test_a_little_busier_is_not_enough() -> None:
    bench = Bench(1)
    for _ in range(20):
        bench.period(a=100, b=round(100 * HYSTERESIS) - 1)
    assert bench.busiest.label("a") == "a"
    assert bench.period(a=100, b=1000)["b"] == 0
    assert bench.busiest.label("b") == "b"


def test_a_name_that_comes_back_goes_on_where_it_stopped() -> None:
    bench = Bench(1)
    bench.period(a=10, b=100)
    assert bench.period(a=1000, b=1) == {"b": 1, "a": 10, OTHER: 1100}
    assert bench.period(a=5, b=1) == {"b": 1, "a": 15, OTHER: 1101}


def test_a_client_named_other_is_one_of_the_others() -> None:
    bench = Bench(2)
    assert bench.period(other=5, a=1) == {"a": 1, OTHER: 5}


def test_without_places_all_events_count_as_other() -> None:
    assert Bench(0).period(a=5, b=1) == {OTHER: 6}


@given(st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 60)), max_size=12))
def test_increases_are_what_happened_and_labels_are_bounded(periods: list[dict[str, int]]) -> None:
    """As Prometheus sees it: a series grew by the difference of two scrapes; one that vanished grew by nothing."""
    bench, before = Bench(2), Counter[str]()
    for times in periods:
        for name, count in times.items():
            bench.fire(name, count)
        after = bench.shown()
        assert sum(after.get(label, 0) - before[label] for label in after) == sum(times.values())
        assert all(count >= before[label] for label, count in after.items())
        bench.now += RANK_SECONDS
        before = Counter(bench.shown())
        assert len(before | {OTHER: 0}) <= 2 * 2 + 1
