"""Days that depend on a month's length and on the weekday of its first day. Pure.

    day of month    L the last day    L-3 three days before it    LW the last workday    15W the workday nearest to 15
    day of week     5#3 the third Friday    5L the last Friday

A workday is Monday to Friday. The nearest one never leaves the month: for 1W, if day 1 is a Saturday, it is day 3. A
month without such a day (31W in April, 5#5 in most) has none.
"""

import re
from typing import Final, Literal, NamedTuple

_OF_MONTH: Final = re.compile(r"L(?:-([0-9]{1,2}))?|(LW)|([0-9]{1,2})W")
_OF_WEEK: Final = re.compile(r"([0-7])(?:#([1-5])|L)")
_SATURDAY: Final = 6
MOST_BEFORE_THE_LAST: Final = 30

Kind = Literal["last", "last-workday", "workday", "nth", "last-weekday"]


class SpecialDay(NamedTuple):
    """One day of each month. `number`: how many days before the last one (`last`), a day of the month (`workday`), or a
    weekday with 0 for Sunday (`nth`, `last-weekday`)."""

    kind: Kind
    number: int = 0
    nth: int = 0

    @property
    def text(self) -> str:
        match self.kind:
            case "last":
                return f"L-{self.number}" if self.number else "L"
            case "last-workday":
                return "LW"
            case "workday":
                return f"{self.number}W"
            case "nth":
                return f"{self.number}#{self.nth}"
            case "last-weekday":
                return f"{self.number}L"

    def day_of(self, first_weekday: int, length: int) -> int | None:
        """The day of a month that has this length and begins on this weekday (0 is Sunday)."""
        day = self._day_of(first_weekday, length)
        return day if 1 <= day <= length else None

    def _day_of(self, first_weekday: int, length: int) -> int:
        match self.kind:
            case "last":
                return length - self.number
            case "last-workday":
                return _nearest_workday(length, first_weekday, length)
            case "workday":
                return _nearest_workday(self.number, first_weekday, length) if self.number <= length else 0
            case "nth":
                return 1 + (self.number - first_weekday) % 7 + 7 * (self.nth - 1)
            case "last-weekday":
                return length - (first_weekday + length - 1 - self.number) % 7


def _nearest_workday(day: int, first_weekday: int, length: int) -> int:
    weekday = (first_weekday + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def special_day_of_month(item: str) -> SpecialDay | None:
    """None for any text that is none of the forms, or out of range."""
    form = _OF_MONTH.fullmatch(item.upper())
    if form is None:
        return None
    before, last_workday, nearest = form.groups()
    if last_workday is not None:
        return SpecialDay("last-workday")
    if nearest is not None:
        return SpecialDay("workday", int(nearest)) if 1 <= int(nearest) <= 31 else None
    number = int(before or 0)
    return SpecialDay("last", number) if number <= MOST_BEFORE_THE_LAST else None


def special_day_of_week(item: str) -> SpecialDay | None:
    """The same for the day of week; 0 and 7 are Sunday."""
    form = _OF_WEEK.fullmatch(item.upper())
    if form is None:
        return None
    weekday, nth = int(form[1]) % 7, form[2]
    return SpecialDay("last-weekday", weekday) if nth is None else SpecialDay("nth", weekday, int(nth))
