"""What became of a destination's calls: counted by nodes, added up by the API."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.destination_figures import (
    BUCKETS,
    NO_FIGURES,
    SLOT_MS,
    SLOTS,
    AttemptCounts,
    BreakerState,
    NodeFigures,
    bucket_of,
    merged,
    percentile,
    upper_bound,
)

NOW = 1_800_000_000_000


@given(st.floats(min_value=0.0, max_value=100.0))
def test_a_duration_is_in_the_bucket_that_ends_above_it_and_begins_a_fifth_below(seconds: float) -> None:
    bucket = bucket_of(seconds)
    assert seconds <= upper_bound(bucket) * (1 + 1e-12)
    assert bucket == 0 or seconds >= upper_bound(bucket) / 1.19


def test_durations_beyond_all_bounds_are_in_the_last_bucket() -> None:
    assert bucket_of(1e9) == BUCKETS - 1


def test_without_answers_there_is_no_percentile() -> None:
    assert percentile((), 0.5) is None
    assert percentile((0, 0), 0.5) is None


@given(st.lists(st.floats(min_value=0.001, max_value=60.0), min_size=1, max_size=50), st.sampled_from([0.5, 0.99, 1.0]))
def test_a_percentile_is_that_of_the_sorted_durations_at_most_a_fifth_higher(seconds: list[float], part: float) -> None:
    counts = AttemptCounts()
    for each in seconds:
        counts.ended(answered_after=each, succeeded=True, now=NOW)
    exact = sorted(seconds)[max(-(-len(seconds) * round(part * 100) // 100), 1) - 1]
    found = percentile(counts.figures(now=NOW).answers, part)
    assert found is not None
    assert exact * (1 - 1e-9) <= found <= exact * 1.19


def test_calls_failures_and_answers_are_counted_apart() -> None:
    counts = AttemptCounts()
    counts.ended(answered_after=0.01, succeeded=True, now=NOW)
    counts.ended(answered_after=0.01, succeeded=False, now=NOW)
    counts.ended(answered_after=None, succeeded=False, now=NOW)
    figures = counts.figures(now=NOW)
    assert (figures.calls, figures.failures, sum(figures.answers)) == (3, 2, 2)


def test_what_is_older_than_an_hour_is_not_counted() -> None:
    counts = AttemptCounts()
    for slot in range(3 * SLOTS):
        counts.ended(answered_after=0.01, succeeded=True, now=NOW + slot * SLOT_MS)
    last = NOW + (3 * SLOTS - 1) * SLOT_MS
    assert counts.figures(now=last).calls == SLOTS
    assert counts.figures(now=last + SLOT_MS).calls == SLOTS - 1
    assert counts.figures(now=last + (SLOTS + 1) * SLOT_MS) == NO_FIGURES


def test_a_clock_that_is_set_back_loses_nothing() -> None:
    counts = AttemptCounts()
    counts.ended(answered_after=0.01, succeeded=True, now=NOW)
    counts.ended(answered_after=0.01, succeeded=True, now=NOW - 10 * SLOT_MS)
    assert counts.figures(now=NOW).calls == 2


def test_figures_of_nodes_add_up_and_the_worst_breaker_is_shown() -> None:
    one = NodeFigures(calls=3, failures=1, answers=(1, 2), in_flight=1, waiting=4, breaker=BreakerState.HALF_OPEN)
    other = NodeFigures(calls=2, answers=(0, 0, 5), deferred=7)
    assert merged([one, other]) == NodeFigures(
        calls=5,
        failures=1,
        answers=(1, 2, 5),
        in_flight=1,
        waiting=4,
        deferred=7,
        breaker=BreakerState.HALF_OPEN,
    )
    assert merged([one, NodeFigures(breaker=BreakerState.OPEN)]).breaker is BreakerState.OPEN
    assert merged([]) == NO_FIGURES


@pytest.mark.parametrize("part", [0.5, 0.99])
def test_percentiles_of_merged_figures_are_those_of_all_answers(part: float) -> None:
    both, apart = AttemptCounts(), [AttemptCounts(), AttemptCounts()]
    for number in range(200):
        seconds = 0.002 * (number + 1)
        both.ended(answered_after=seconds, succeeded=True, now=NOW)
        apart[number % 2].ended(answered_after=seconds, succeeded=True, now=NOW)
    together = merged(each.figures(now=NOW) for each in apart)
    assert percentile(together.answers, part) == percentile(both.figures(now=NOW).answers, part)
