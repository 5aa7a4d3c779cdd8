"""A month of fires: its days are those of its zone, and its window is one that runs may be asked for."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from scheduler_service.console.calendar import Day, Fire, Month, first_of, month_of, window_of

BERLIN = ZoneInfo("Europe/Berlin")


def day(month: Month, wanted: date) -> Day:
    [found] = [one for week in month.weeks for one in week if one.date == wanted]
    return found


def test_a_fire_is_on_the_day_that_its_zone_shows() -> None:
    late = Fire(datetime(2026, 11, 30, 23, 30, tzinfo=UTC), "planned", None)
    early = Fire(datetime(2026, 11, 29, 23, 30, tzinfo=UTC), "failed", "/x")
    month = month_of(date(2026, 11, 1), [late, early], zone=BERLIN, today=date(2026, 11, 30))
    shown = day(month, date(2026, 11, 30))
    assert [(one.at.strftime("%H:%M"), one.state) for one in shown.fires] == [("00:30", "failed")]
    assert (shown.today, shown.within) == (True, True)
    assert day(month, date(2026, 12, 1)).within is False
    assert (month.title, month.before, month.after) == ("November 2026", "2026-10", "2026-12")
    assert [len(week) for week in month.weeks] == [7] * 6


@pytest.mark.parametrize("text", ["0001-01", "1969-12", "9999-12", "2026-13", "x", "", "2026-11-01"])
def test_a_month_without_neighbours_is_this_month(text: str) -> None:
    assert first_of(text, date(2026, 11, 21)) == date(2026, 11, 1)


def test_a_full_day_says_how_many_more() -> None:
    fires = [Fire(datetime(2026, 11, 3, hour, tzinfo=UTC), "planned", None) for hour in range(10)]
    shown = day(month_of(date(2026, 11, 1), fires, zone=UTC, today=date(2026, 1, 1)), date(2026, 11, 3))
    assert ([one.at.hour for one in shown.fires], shown.more) == ([0, 1, 2], 7)


@pytest.mark.parametrize("zone", [UTC, BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Pacific/Apia")])
def test_no_window_is_longer_than_runs_may_be_asked_for(zone: ZoneInfo) -> None:
    first = date(2026, 1, 1)
    for _ in range(12):
        start, end = window_of(first, zone)
        assert start.astimezone(zone).date() == first
        assert timedelta(days=27) < end - start <= timedelta(days=31)
        first = (first + timedelta(days=32)).replace(day=1)


@pytest.mark.parametrize("text", [None, "", "2026", "2026-13", "x", "2026-11-03"])
def test_what_is_no_month_is_this_one(text: str | None) -> None:
    assert first_of(text, date(2026, 11, 21)) == date(2026, 11, 1)
    assert first_of("2027-02", date(2026, 11, 21)) == date(2027, 2, 1)
