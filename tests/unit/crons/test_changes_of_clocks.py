"""The effects of a change of clocks, case by case as the package documents them."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.crons import Dst, fires, first_fire, load_zone, next_fires, parse_expression
from tests.unit.crons.generated import CHANGES, Change, Meaning, near_midnight_or_early


def ms(text: str) -> int:
    """Unix milliseconds of a UTC time such as `2026-03-29T01:00`."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def on_clock(zone: str, instants: list[int]) -> list[str]:
    """`day hour:minute` of the local clock, each with its offset in minutes."""
    local = [datetime.fromtimestamp(instant / 1000, load_zone(zone)) for instant in instants]
    return [f"{at:%d %H:%M} {int((at.utcoffset() or timedelta()).total_seconds() // 60):+d}" for at in local]


FIXED = [
    ("30 2 28-30 3 *", "shift", "first", ["28 02:30 +60", "29 03:00 +120", "30 02:30 +120"]),
    ("30 2 28-30 3 *", "skip", "first", ["28 02:30 +60", "30 02:30 +120"]),
    ("0,30 2 29 3 *", "shift", "first", ["29 03:00 +120"]),
    ("0,15 2,3 29 3 *", "shift", "first", ["29 03:00 +120", "29 03:15 +120"]),
    ("0,15 2,3 29 3 *", "skip", "first", ["29 03:00 +120", "29 03:15 +120"]),
    ("59 1 29 3 *", "shift", "first", ["29 01:59 +60"]),
    ("30 2 25 10 *", "shift", "first", ["25 02:30 +120"]),
    ("30 2 25 10 *", "shift", "both", ["25 02:30 +120", "25 02:30 +60"]),
    ("0,30 2,3 25 10 *", "shift", "first", ["25 02:00 +120", "25 02:30 +120", "25 03:00 +60", "25 03:30 +60"]),
]
REAL = [
    ("*/30 1-3 29 3 *", ["29 01:00 +60", "29 01:30 +60", "29 03:00 +120", "29 03:30 +120"]),
    ("30 */2 29 3 *", ["29 00:30 +60", "29 04:30 +120", "29 06:30 +120"]),
    ("*/30 2 25 10 *", ["25 02:00 +120", "25 02:30 +120", "25 02:00 +60", "25 02:30 +60"]),
]


@pytest.mark.parametrize(("text", "gap", "fold", "expected"), FIXED)
def test_fixed_times_in_berlin(
    text: str, gap: Literal["shift", "skip"], fold: Literal["first", "both"], expected: list[str]
) -> None:
    found = next_fires(
        parse_expression(text), load_zone("Europe/Berlin"), Dst(gap, fold), after=ms("2026-03-01"), count=len(expected)
    )
    assert on_clock("Europe/Berlin", list(found)) == expected


@pytest.mark.parametrize("dst", [Dst(), Dst("skip", "both")])
@pytest.mark.parametrize(("text", "expected"), REAL)
def test_real_time_in_berlin_whatever_is_asked_of_fixed_times(text: str, expected: list[str], dst: Dst) -> None:
    found = next_fires(
        parse_expression(text), load_zone("Europe/Berlin"), dst, after=ms("2026-03-01"), count=len(expected)
    )
    assert on_clock("Europe/Berlin", list(found)) == expected


@pytest.mark.parametrize(
    ("zone", "after", "text", "expected"),
    [
        ("Australia/Lord_Howe", "2026-04-04T14:00", "*/30 * * * *", ["05 01:30 +660", "05 01:30 +630"]),
        ("Australia/Lord_Howe", "2026-10-03T14:59", "*/30 * * * *", ["04 01:30 +630", "04 02:30 +660"]),
        ("Australia/Lord_Howe", "2026-10-03T14:59", "15 2 * * *", ["04 02:30 +660", "05 02:15 +660"]),
        ("Pacific/Apia", "2011-12-29T00:00", "0 9 * * *", ["29 09:00 -600", "31 00:00 +840", "31 09:00 +840"]),
        ("Pacific/Apia", "2011-12-29T00:00", "0 9 30 12 *", ["31 00:00 +840"]),
        ("America/Sao_Paulo", "2018-11-03T12:00", "@daily", ["04 01:00 -120", "05 00:00 -120"]),
        ("America/Sao_Paulo", "2018-02-17T12:00", "30 23 * * *", ["17 23:30 -120", "18 23:30 -180"]),
        ("America/St_Johns", "2010-11-07T02:00", "0 0 * * *", ["07 00:00 -150", "08 00:00 -210"]),
        ("Asia/Kathmandu", "1985-12-31T12:00", "10 0 * * *", ["01 00:15 +345", "02 00:10 +345"]),
        ("Africa/Monrovia", "1972-01-05T12:00", "0 0 * * *", ["06 00:00 -45", "07 00:44 +0", "08 00:00 +0"]),
        ("Africa/Casablanca", "2026-02-14T12:00", "30 2 * * *", ["15 02:30 +60", "16 02:30 +0"]),
    ],
)  # fmt: skip
def test_fires_at_changes_of_clocks_in_unusual_zones(zone: str, after: str, text: str, expected: list[str]) -> None:
    found = next_fires(parse_expression(text), load_zone(zone), after=ms(after), count=len(expected))
    assert on_clock(zone, list(found)) == expected


def test_offsets_of_seconds_are_kept() -> None:
    zone = load_zone("Africa/Monrovia")
    found = list(fires(parse_expression("0 12 * * *"), zone, after=-1, until=ms("1970-01-02")))
    assert found == [ms("1970-01-01T12:44:30")]


def test_what_is_only_due_in_the_gap_is_never_found_if_gaps_are_skipped() -> None:
    last_sundays = parse_expression("30 2 25-31 3 */7")
    zone = load_zone("Europe/Berlin")
    assert first_fire(last_sundays, zone, Dst(gap="skip"), after=ms("2026-01-01")) is None
    assert first_fire(last_sundays, zone, after=ms("2026-01-01")) == ms("2026-03-29T01:00")


@pytest.mark.parametrize("gap", ["shift", "skip"])
@pytest.mark.parametrize("change", CHANGES[:-1], ids=lambda change: f"{change.zone}, {change.what}")
def test_spans_can_be_cut_anywhere(change: Change, gap: Literal["shift", "skip"]) -> None:
    """Fires ascend, lie within the span, and are the same for one span or for two, wherever it is cut."""
    zone = load_zone(change.zone)
    span = st.integers((change.noon - 86_400) * 1000, (change.noon + 86_400) * 1000)

    @settings(max_examples=20)
    @given(near_midnight_or_early, st.sampled_from(["first", "both"]), st.tuples(span, span, span).map(sorted))
    def same(meaning: Meaning, fold: Literal["first", "both"], cuts: list[int]) -> None:
        begin, middle, end = cuts
        expression, dst = parse_expression(meaning.text), Dst(gap, fold)
        whole = list(fires(expression, zone, dst, after=begin, until=end))
        parts = [*fires(expression, zone, dst, after=begin, until=middle)]
        parts += fires(expression, zone, dst, after=middle, until=end)
        assert whole == parts
        assert all(one < two for one, two in itertools.pairwise(whole))
        assert all(begin < each <= end for each in whole)
        if whole:
            assert first_fire(expression, zone, dst, after=begin) == whole[0]
            assert list(fires(expression, zone, dst, after=whole[-1] - 1, until=whole[-1])) == [whole[-1]]

    same()


def test_nothing_before_1970_nor_beyond_the_calendar() -> None:
    every_minute, zone = parse_expression("* * * * *"), load_zone("Pacific/Kiritimati")
    assert list(fires(every_minute, zone, after=-(10**15), until=60_000)) == [0, 60_000]
    assert list(fires(every_minute, zone, after=(1 << 48) - 1, until=1 << 50)) == []
    last = list(fires(parse_expression("@yearly"), zone, after=ms("9996-01-01"), until=1 << 50))
    assert [datetime.fromtimestamp(each / 1000, zone).year for each in last] == [9997, 9998, 9999]
    assert list(fires(every_minute, zone, after=120_000, until=120_000)) == []
    assert list(fires(every_minute, zone, after=120_000, until=0)) == []


def test_fires_are_worked_out_as_they_are_asked_for() -> None:
    endless = fires(parse_expression("* * * * *"), load_zone("UTC"), after=0, until=1 << 50)
    assert [next(endless), next(endless)] == [60_000, 120_000]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu", "America/Sao_Paulo"])
def test_a_rare_date_takes_no_longer_to_find(zone: str) -> None:
    """A 29 February that is a Sunday: 2004, 2032, 2060."""
    sundays = parse_expression("0 0 29 2 */7")
    assert first_fire(sundays, load_zone(zone), after=ms("2026-01-01")) is None
    found = first_fire(sundays, load_zone(zone), after=ms("2030-01-01"))
    assert found is not None
    assert on_clock(zone, [found])[0].startswith("29 00:00")
