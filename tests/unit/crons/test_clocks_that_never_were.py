"""Changes of clocks that no zone has had yet, and spans that are cut in the midst of a change."""

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from scheduler_service.domain.crons import Dst, fires, load_zone, parse_expression
from tests.unit.crons.generated import CHANGES, Change


class Clock(tzinfo):
    """Offsets (minutes) from given UTC times on; before the first one, UTC."""

    def __init__(self, **changes: int) -> None:
        self.changes = [(datetime.strptime(at, "_%Y%m%d_%H%M"), offset) for at, offset in changes.items()]

    def fromutc(self, moment: datetime) -> datetime:
        offset = [0, *(offset for at, offset in self.changes if at <= moment.replace(tzinfo=None))][-1]
        return (moment + timedelta(minutes=offset)).replace(tzinfo=Shown(offset))


class Shown(tzinfo):
    def __init__(self, minutes: int) -> None:
        self.minutes = minutes

    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(minutes=self.minutes)


def found(text: str, clock: Clock, dst: Dst, after: str, until: str) -> list[str]:
    begin, end = (int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()) * 1000 for at in (after, until))
    instants = fires(parse_expression(text), cast(ZoneInfo, clock), dst, after=begin, until=end)
    return [f"{datetime.fromtimestamp(instant / 1000, UTC):%d %H:%M}" for instant in instants]


NEW_YEAR_IN_A_FOLD = Clock(_20250601_0000=60, _20251231_2330=0)
"""An hour back half an hour before the UTC year ends: 00:30 becomes 23:30."""

FOLD_IN_A_FOLD = Clock(_20250301_0000=120, _20250601_1200=60, _20250601_1230=0)
"""At 14:00 back to 13:00; at 13:30, before 14:00 is reached again, back to 12:30."""


@pytest.mark.parametrize(
    ("text", "clock", "fold", "expected"),
    [
        ("15 0 1 1 *", NEW_YEAR_IN_A_FOLD, "first", ["31 23:15"]),
        ("15 0 1 1 *", NEW_YEAR_IN_A_FOLD, "both", ["31 23:15", "01 00:15"]),
        ("45 13 1 6 *", FOLD_IN_A_FOLD, "first", ["01 11:45"]),
        ("45 13 1 6 *", FOLD_IN_A_FOLD, "both", ["01 11:45", "01 13:45"]),
        ("15,45 13 1 6 *", FOLD_IN_A_FOLD, "both", ["01 11:15", "01 11:45", "01 12:15", "01 13:15", "01 13:45"]),
        ("0 14 1 6 *", FOLD_IN_A_FOLD, "first", ["01 14:00"]),
    ],
)  # fmt: skip
def test_once_at_the_first_reading(text: str, clock: Clock, fold: str, expected: list[str]) -> None:
    dst = Dst(fold="first") if fold == "first" else Dst(fold="both")
    assert found(text, clock, dst, "2025-05-01", "2026-03-01") == expected


@pytest.mark.parametrize("dst", [Dst(), Dst("skip", "both")])
@pytest.mark.parametrize("change", CHANGES[:-1], ids=lambda change: f"{change.zone}, {change.what}")
def test_a_cut_in_the_midst_of_a_change(change: Change, dst: Dst) -> None:
    expression, zone = parse_expression("0-59/13 0-23 * * *"), load_zone(change.zone)
    offsets = range((change.noon - 30 * 3600) * 1000, (change.noon + 30 * 3600) * 1000, 29 * 60_000)
    whole = list(fires(expression, zone, dst, after=offsets[0], until=offsets[-1]))
    parts = [at for one, two in pairwise(offsets) for at in fires(expression, zone, dst, after=one, until=two)]
    assert whole == parts
    assert len(whole) > 50
