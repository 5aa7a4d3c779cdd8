"""Local times compared with `zoneinfo`: the same instants, and the documented ones where clocks change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.crons import load_zone
from scheduler_service.domain.crons.zones import stretches, zone_names
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.local_times import instant_of, parse_local

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BERLIN = load_zone("Europe/Berlin")
CLOCKS_CHANGE = sorted({zone for zone in zone_names() if len(list(stretches(load_zone(zone), 0, 10**9))) > 34})


def shown(instant_ms: int, zone: ZoneInfo) -> int:
    """The zone's clock reading, in the units of `parse_local`."""
    local = (EPOCH + timedelta(milliseconds=instant_ms)).astimezone(zone).replace(tzinfo=UTC)
    return (local - EPOCH) // timedelta(milliseconds=1)


def readings(local: int, zone: ZoneInfo) -> list[int]:
    """The instants at which the clock shows that reading, by `zoneinfo` alone."""
    naive = (EPOCH + timedelta(milliseconds=local)).replace(tzinfo=None)
    both = {
        round((naive.replace(tzinfo=zone, fold=fold).astimezone(UTC) - EPOCH) / timedelta(milliseconds=1))
        for fold in (0, 1)
    }
    return sorted(instant for instant in both if shown(instant, zone) == local)


@st.composite
def near_changes(draw: st.DrawFn) -> tuple[int, ZoneInfo]:
    zone = load_zone(draw(st.sampled_from(CLOCKS_CHANGE)))
    year = draw(st.integers(0, 120)) * 31_556_952
    start = draw(st.sampled_from([one.start for one in stretches(zone, year, year + 31_556_952)]))
    around = draw(st.integers(-4 * 3600, 4 * 3600) | st.sampled_from([-3600, -1, 0, 1, 1800, 3599, 3600]))
    return max(shown((start + around) * 1000, zone) + draw(st.sampled_from([0, 3_600_000, -3_600_000, 999])), 0), zone


@settings(max_examples=600, deadline=None)
@given(near_changes())
def test_near_changes_of_clocks_instants_are_those_of_zoneinfo(case: tuple[int, ZoneInfo]) -> None:
    local, zone = case
    wanted = readings(local, zone)
    first, second = instant_of(local, zone), instant_of(local, zone, fold="second")
    assert first is not None
    if wanted:
        assert (first, second) == (wanted[0], wanted[-1])
        assert instant_of(local, zone, gap="skip") == first
    else:
        assert instant_of(local, zone, gap="skip") is None
        assert first == second
        assert shown(first - 1, zone) < local < shown(first, zone), "the clock jumps over it right there"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 250_000_000_000_000), st.sampled_from(sorted(zone_names())))
def test_every_local_time_equals_zoneinfos(local: int, name: str) -> None:
    zone = load_zone(name)
    wanted = readings(local, zone)
    if wanted:
        assert instant_of(local, zone) == wanted[0]
        assert instant_of(local, zone, fold="second") == wanted[-1]


@pytest.mark.parametrize(
    ("local", "rule", "wanted"),
    [
        ("2027-03-28T01:59:59.999", {}, "2027-03-28T00:59:59.999Z"),
        ("2027-03-28T02:30", {}, "2027-03-28T01:00:00.000Z"),
        ("2027-03-28T03:00", {}, "2027-03-28T01:00:00.000Z"),
        ("2027-10-31T02:30", {}, "2027-10-31T00:30:00.000Z"),
        ("2027-10-31T02:30:15.5", {"fold": "second"}, "2027-10-31T01:30:15.500Z"),
        ("2027-10-31T03:00", {"fold": "second"}, "2027-10-31T02:00:00.000Z"),
    ],
)
def test_in_berlin(local: str, rule: dict[str, str], wanted: str) -> None:
    instant = instant_of(parse_local(local), BERLIN, **rule)  # type: ignore[arg-type]
    assert instant is not None
    assert format_instant(instant) == wanted


def test_a_skipped_time_can_be_refused() -> None:
    assert instant_of(parse_local("2027-03-28T02:00"), BERLIN, gap="skip") is None
    assert instant_of(parse_local("2027-03-28T01:59"), BERLIN, gap="skip") is not None


def test_a_skipped_day_ends_where_the_next_begins() -> None:
    apia = load_zone("Pacific/Apia")
    assert instant_of(parse_local("2011-12-30T12:00"), apia) == instant_of(parse_local("2011-12-31T00:00"), apia)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("2027-03-28T02:30Z", "without an offset"),
        ("2027-03-28T02:30+01:00", "without an offset"),
        ("2027-03-28", "such as"),
        ("2027-03-28 02:30", "such as"),
        ("2027-02-29T02:30", "calendar"),
        ("2027-03-28T24:00", "calendar"),
        ("1969-12-31T23:59", "1970"),
        ("9998-01-01T00:00", "9997"),
        ("2027-03-28T02:30:00.1234", "such as"),
        ("٢027-03-28T02:30", "such as"),
    ],
)
def test_what_is_no_local_time(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse_local(text)


def test_the_first_and_last_year_are_of_the_calendar() -> None:
    for text in ("1970-01-01T00:00", "9997-12-31T23:59:59.999"):
        for name in ("Pacific/Kiritimati", "Etc/GMT+12", "America/New_York"):
            zone = load_zone(name)
            instant = instant_of(parse_local(text), zone)
            assert instant is not None
            assert shown(instant, zone) == parse_local(text)
