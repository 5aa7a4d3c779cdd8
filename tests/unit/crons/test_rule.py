"""A rule keeps its bounds, is refused if it never fires, and spreads its fires evenly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.crons import InvalidRule, Rule, parse_expression, spread_offset_ms
from scheduler_service.domain.ids import ClientId, CronId, UnixMillis

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 20_000 * DAY
"""2024-10-04, midnight UTC."""
TOO_EARLY = "there is no fire before it: choose a later one"


def rule(text: str = "@hourly", *, starts_at: int | None = None, ends_at: int | None = None, spread: int = 0) -> Rule:
    return Rule(
        expression=parse_expression(text),
        timezone="UTC",
        starts_at=None if starts_at is None else UnixMillis(starts_at),
        ends_at=None if ends_at is None else UnixMillis(ends_at),
        spread_seconds=spread,
    )


def test_the_first_instant_may_fire_and_the_last_may_not() -> None:
    bounded = rule(starts_at=NOW, ends_at=NOW + 3 * HOUR)
    assert list(bounded.fires(0, NOW + DAY)) == [NOW, NOW + HOUR, NOW + 2 * HOUR]
    assert list(bounded.fires(NOW, NOW + 2 * HOUR)) == [NOW + HOUR, NOW + 2 * HOUR]
    assert bounded.next_fires(0, 9) == [NOW, NOW + HOUR, NOW + 2 * HOUR]
    assert bounded.next_fires(0, 2) == [NOW, NOW + HOUR]
    assert (bounded.first_fire(0), bounded.first_fire(NOW + 2 * HOUR)) == (NOW, None)


def test_bounds_between_two_fires() -> None:
    bounded = rule(starts_at=NOW + 1, ends_at=NOW + 2 * HOUR + 1)
    assert list(bounded.fires(0, NOW + DAY)) == [NOW + HOUR, NOW + 2 * HOUR]


def test_without_bounds_a_rule_goes_on() -> None:
    assert rule("0 0 29 2 *").next_fires(NOW, 3) == [21_243 * DAY, 22_704 * DAY, 24_165 * DAY]


@given(st.integers(0, DAY), st.integers(1, DAY), st.integers(-DAY, DAY), st.integers(0, 2 * DAY))
def test_bounds_of_a_rule_only_remove_fires(start: int, length: int, after: int, span: int) -> None:
    bounded = rule("*/20 * * * *", starts_at=NOW + start, ends_at=NOW + start + length)
    after += NOW
    expected = [
        at for at in rule("*/20 * * * *").fires(after, after + span) if NOW + start <= at < NOW + start + length
    ]
    assert list(bounded.fires(after, after + span)) == expected


def test_a_rule_that_fires_passes_the_check() -> None:
    rule("0 0 29 2 *").check(NOW)
    rule(starts_at=NOW + 9_999 * DAY).check(NOW)


@pytest.mark.parametrize(
    ("never", "field", "reason"),
    [
        (rule("0 0 29 2 */7"), "expression", "does not fire within five years from now"),
        (rule("0 0 29 2 */7", starts_at=NOW + DAY), "expression", "does not fire within five years of starts_at"),
        (rule("@daily", starts_at=NOW + 1, ends_at=NOW + DAY), "ends_at", TOO_EARLY),
        (rule("@daily", ends_at=NOW), "ends_at", TOO_EARLY),
    ],
)  # fmt: skip
def test_a_rule_that_does_not_fire_is_refused(never: Rule, field: str, reason: str) -> None:
    with pytest.raises(InvalidRule) as refused:
        never.check(NOW)
    assert (refused.value.field, refused.value.reason) == (field, reason)


def test_bounds_and_zones_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidRule, match="ends_at: must be later than starts_at"):
        rule(starts_at=NOW, ends_at=NOW)
    with pytest.raises(InvalidRule, match="spread_seconds: must be 0 to 3600"):
        rule(spread=3601)
    with pytest.raises(InvalidRule, match="spread_seconds: must be 0 to 3600"):
        rule(spread=-1)
    with pytest.raises(InvalidRule, match=r"timezone: .*did you mean Europe/Berlin"):
        Rule(expression=parse_expression("@daily"), timezone="europe/berlin")


@given(st.text(max_size=20), st.text(max_size=20), st.integers(0, 3600))
def test_a_spread_is_within_its_bound_and_always_the_same(client: str, cron: str, seconds: int) -> None:
    offset = spread_offset_ms(ClientId(client), CronId(cron), seconds)
    assert 0 <= offset < max(seconds * 1000, 1)
    assert offset == spread_offset_ms(ClientId(client), CronId(cron), seconds)


def test_a_spread_is_even() -> None:
    offsets = [spread_offset_ms(ClientId("shop"), CronId(f"cron-{number}"), 60) for number in range(6000)]
    per_second = [sum(offset // 10_000 == tenth for offset in offsets) for tenth in range(6)]
    assert min(per_second) > 850
    assert max(per_second) < 1150
    assert len(set(offsets)) > 5000


def test_a_spread_does_not_change_from_release_to_release() -> None:
    assert spread_offset_ms(ClientId("shop"), CronId("nightly"), 3600) == 794_039
