"""Evaluates the definition minute by minute over days with a change of clocks, and compares the result of the walk."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.crons import Dst, fires, load_zone, parse_expression
from tests.unit.crons.generated import CHANGES, Change, Meaning, near_midnight_or_early

HALF_A_SPAN = 40 * 3600
MARGIN = 30 * 3600
"""Longer than any gap or fold, so that the span and its margins determine all fires in the span."""

STEP = 30
"""Seconds. Every offset since 1970 is a multiple of it."""

MINUTE = timedelta(minutes=1)


@cache
def readings(change: Change) -> dict[datetime, list[int]]:
    """Every local reading in the span and its margins, half-minutes included, with the instants (seconds) that show
    it.
    """
    shown: dict[datetime, list[int]] = {}
    zone = load_zone(change.zone)
    for instant in range(change.noon - HALF_A_SPAN - MARGIN, change.noon + HALF_A_SPAN + MARGIN, STEP):
        shown.setdefault(datetime.fromtimestamp(instant, zone).replace(tzinfo=None), []).append(instant)
    return shown


@cache
def arrivals(change: Change) -> dict[datetime, tuple[list[int], int]]:
    """For every minute that a clock without changes would show: the instants at which it is shown, and the first
    instant at which the clock is past it.

    A minute within a gap is never shown.
    """
    shown = readings(change)
    ordered = sorted((min(instants), local) for local, instants in shown.items())
    minute, last = ordered[0][1].replace(second=0) + MINUTE, ordered[-1][1]
    found: dict[datetime, tuple[list[int], int]] = {}
    place = 0
    while minute <= last:
        while ordered[place][1] < minute:
            place += 1
        found[minute] = (shown.get(minute, []), ordered[place][0])
        minute += MINUTE
    return found


def by_definition(meaning: Meaning, dst: Dst, change: Change) -> list[int]:
    due: set[int] = set()
    for minute, (shown, passed) in arrivals(change).items():
        if not meaning.at(minute):
            continue
        if meaning.real_time:
            due.update(shown)
        elif not shown:
            due.update([passed] if dst.gap == "shift" else [])
        else:
            due.update(shown if dst.fold == "both" else shown[:1])
    return sorted(due)


@pytest.mark.parametrize("gap", ["shift", "skip"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.zone}, {change.what}")
def test_fires_equal_the_definition_minute_by_minute(change: Change, gap: Literal["shift", "skip"]) -> None:
    zone = load_zone(change.zone)

    @settings(max_examples=15)
    @given(
        near_midnight_or_early,
        st.sampled_from(["first", "both"]),
        st.integers(-HALF_A_SPAN * 1000, HALF_A_SPAN * 1000),
        st.integers(0, HALF_A_SPAN * 1000),
    )
    def agree(meaning: Meaning, fold: Literal["first", "both"], offset_ms: int, length_ms: int) -> None:
        after = max(change.noon * 1000 + offset_ms, -1)
        until = min(after + length_ms, (change.noon + HALF_A_SPAN) * 1000)
        dst = Dst(gap, fold)
        expected = [second * 1000 for second in by_definition(meaning, dst, change) if after < second * 1000 <= until]
        assert list(fires(parse_expression(meaning.text), zone, dst, after=after, until=until)) == expected

    agree()


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.zone}, {change.what}")
def test_the_span_shows_what_it_is_for(change: Change) -> None:
    shown = [instants for minute, (instants, _) in arrivals(change).items()]
    skips, repeats = any(not instants for instants in shown), any(len(instants) > 1 for instants in shown)
    forward = "forward" in change.what or "not exist" in change.what
    assert (skips, repeats) == (forward, "back" in change.what)


def test_instants_are_read_as_the_zone_shows_them() -> None:
    berlin = readings(CHANGES[1])
    assert [datetime.fromtimestamp(instant, UTC).hour for instant in berlin[datetime(2026, 10, 25, 2, 30)]] == [0, 1]
