"""Fires of crons that have no row yet, and minutes as runs."""

from typing import Any

import pytest

from scheduler_service.domain.crons.expansion import rule_of
from scheduler_service.domain.crons.row import CronOptions, CronRule, CronState
from scheduler_service.domain.crons.rule import spread_offset_ms
from scheduler_service.domain.forecast import (
    FIRES_OF_PART,
    FIRES_WALKED,
    Forecast,
    MinuteForecast,
    TooManyFires,
    cron_groups,
    forecast_minutes,
)
from scheduler_service.domain.ids import HOUR_MS, MINUTE_MS, ClientId, CronId, Minute, UnixMillis, minute_of

SHOP = ClientId("shop")
NOW = 1_795_253_400_000
"""2026-11-21T09:30:00Z"""
FIRST = minute_of(NOW)


def rule(cron_id: str, expression: str = "* * * * *", **other: Any) -> CronRule:
    options = CronOptions(**{name: other.pop(name) for name in list(other) if name in CronOptions.__struct_fields__})
    values: dict[str, Any] = {
        "cron_id": CronId(cron_id),
        "expression": expression,
        "timezone": "UTC",
        "options": options,
        "state": CronState.ACTIVE,
        "created_at": UnixMillis(NOW - HOUR_MS),
        "expanded_through": UnixMillis(NOW),
        "fires": 0,
    }
    return CronRule(**{**values, **other})


def fires(*rules: CronRule, first: int = FIRST, minutes: int = 10) -> dict[int, int]:
    found: dict[int, int] = {}
    for group in cron_groups(((SHOP, one) for one in rules), now=NOW):
        for part in group.fires(Minute(first), Minute(first + minutes - 1)):
            for minute, count in part.items():
                found[minute - FIRST] = found.get(minute - FIRST, 0) + count
    return found


def test_fires_begin_where_the_rows_end() -> None:
    ahead = UnixMillis(NOW + 4 * MINUTE_MS)
    assert fires(rule("a", expanded_through=ahead)) == dict.fromkeys(range(5, 10), 1)
    behind = UnixMillis(NOW - 30 * MINUTE_MS)
    assert fires(rule("a", expanded_through=behind)) == dict.fromkeys(range(1, 10), 1), "missed fires are left out"
    assert fires(rule("a", expanded_through=ahead), first=FIRST + 6, minutes=2) == {6: 1, 7: 1}


def test_crons_that_share_a_rule_are_walked_once() -> None:
    rules = [rule(f"c{number}", expanded_through=UnixMillis(NOW + number * MINUTE_MS)) for number in range(4)]
    assert len(cron_groups(((SHOP, one) for one in rules), now=NOW)) == 1
    assert fires(*rules) == {at: min(at, 4) for at in range(1, 10)}
    others = [rule("x", "*/5 * * * *"), rule("y", timezone="Asia/Tokyo"), rule("z", spread_seconds=600)]
    assert len(cron_groups(((SHOP, one) for one in (*rules, *others)), now=NOW)) == 4


@pytest.mark.parametrize("state", [state for state in CronState if state is not CronState.ACTIVE])
def test_only_active_crons_fire(state: CronState) -> None:
    assert fires(rule("a", state=state), rule("b", "this is no rule")) == {}


def test_fires_are_due_later_by_their_spread_in_and_before_the_window() -> None:
    spread = rule("a", "0 * * * *", spread_seconds=3600, expanded_through=UnixMillis(NOW - 2 * HOUR_MS))
    offset = spread_offset_ms(SHOP, spread.cron_id, 3600)
    due = [nominal + offset for nominal in rule_of(spread).fires(NOW - offset, NOW + 5 * HOUR_MS - offset - 1)]
    assert len(due) == 5
    assert fires(spread, minutes=300) == {minute_of(at) - FIRST: 1 for at in due}
    last = minute_of(due[-1])
    assert fires(spread, first=last, minutes=1) == {last - FIRST: 1}
    assert fires(spread, first=last + 1, minutes=1) == {}


def test_a_bounded_number_of_fires_is_counted_from_where_the_rows_end() -> None:
    bounded = rule("a", max_fires=10, fires=4, expanded_through=UnixMillis(NOW + 2 * MINUTE_MS))
    assert fires(bounded, minutes=30) == dict.fromkeys(range(3, 9), 1)
    assert fires(bounded, first=FIRST + 7, minutes=30) == {7: 1, 8: 1}
    assert fires(rule("a", ends_at=UnixMillis(NOW + 3 * MINUTE_MS)), minutes=30) == {1: 1, 2: 1}


def test_a_walk_is_bounded_and_has_parts() -> None:
    month = 31 * 24 * 60
    assert sum(fires(rule("a"), minutes=month).values()) == month - 1
    ((_, group),) = enumerate(cron_groups([(SHOP, rule("a"))], now=NOW))
    parts = [sum(part.values()) for part in group.fires(Minute(FIRST), Minute(FIRST + month - 1))]
    assert max(parts) <= FIRES_OF_PART
    assert len(parts) == month // FIRES_OF_PART + 1
    bounded, far = rule("a", max_fires=1_000_000), FIRST + 2 * FIRES_WALKED
    with pytest.raises(TooManyFires):
        fires(bounded, first=far)
    assert fires(bounded, first=FIRST + FIRES_WALKED - 20) == dict.fromkeys(
        range(FIRES_WALKED - 20, FIRES_WALKED - 10), 1
    )


def test_minutes_with_calls_as_runs() -> None:
    minutes = forecast_minutes({Minute(5): 3, Minute(6): 1, Minute(9): 2}, {Minute(6): 4, Minute(7): 1, Minute(10): 0})
    minutes = [minute for minute in minutes if minute.calls]
    assert minutes[1] == MinuteForecast(Minute(6), 1, 4)
    forecast = Forecast(minutes=minutes, guaranteed=2, capacity=4)
    assert [tuple(run) for run in forecast.runs()] == [(5, [3, 1, 0], [0, 4, 1]), (9, [2], [0])]
    assert (forecast.calls, forecast.peak) == (11, minutes[1])
    assert (forecast.beyond(2), forecast.beyond(4), forecast.beyond(5)) == (2, 1, 0)
    assert Forecast(minutes=[], guaranteed=2, capacity=4).peak is None
