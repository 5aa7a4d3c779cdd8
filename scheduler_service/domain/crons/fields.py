"""The fields of an expression, five and the year: ranges, and one canonical text for all that mean the same. Pure."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Final, NamedTuple

from scheduler_service.domain.errors import InvalidRule

SUNDAY_AT_THE_END: Final = 7
_QUOTED: Final = 40


class Field(NamedTuple):
    name: str
    low: int
    high: int
    span: int
    """How many values there are; the two Sundays are one."""
    names: tuple[str, ...] = ()


MINUTE: Final = Field("minute", 0, 59, 60)
HOUR: Final = Field("hour", 0, 23, 24)
DAY: Final = Field("day of month", 1, 31, 31)
MONTH: Final = Field("month", 1, 12, 12, tuple("jan feb mar apr may jun jul aug sep oct nov dec".split()))
WEEKDAY: Final = Field("day of week", 0, SUNDAY_AT_THE_END, 7, tuple("sun mon tue wed thu fri sat".split()))
YEAR: Final = Field("year", 1970, 2199, 230)
"""As far as other schedulers have years. With all 9,029 that instants may have, a rule of 500 bytes took 7 MB, and each
look at one of its months 0.1 ms."""
FIELDS: Final = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class Values(NamedTuple):
    values: frozenset[int]
    star: int = 0
    """The step of the star that the text begins with, at most the field's span; 0 if it begins with none."""


def every_value(field: Field) -> Values:
    """A star alone."""
    return Values(frozenset(range(field.low, field.low + field.span)), 1)


def refused(reason: str, field: Field | None = None) -> InvalidRule:
    """What to raise for an expression, or for one field of it."""
    return InvalidRule("expression", reason if field is None else f"{field.name}: {reason}")


def quoted(text: str) -> str:
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…")


def canonical_text(field: Field, parsed: Values) -> str:
    """One text for all fields that mean the same. In the month, unlike elsewhere, a star has no effect beside its
    values, so it replaces any values that it can express."""
    values = parsed.values
    star = parsed.star
    if field is MONTH:
        steps = (step for step in range(1, field.span) if values == frozenset(range(field.low, field.high + 1, step)))
        star = next(steps, 0)
    if not star:
        return compact(values)
    text = "*" if star == 1 else f"*/{star}"
    rest = values - {value % 7 if field is WEEKDAY else value for value in range(field.low, field.high + 1, star)}
    return f"{text},{compact(rest)}" if rest else text


def compact(values: Iterable[int]) -> str:
    """The values as ranges, or as one range with a step."""
    ordered = sorted(values)
    step = progression(ordered)
    if step is not None and step > 1:
        return f"{ordered[0]}-{ordered[-1]}/{step}"
    return ",".join(
        f"{first}-{last}" if last > first + 1 else ",".join(str(value) for value in range(first, last + 1))
        for first, last in runs(ordered)
    )


def progression(ordered: list[int]) -> int | None:
    """The step between the values if it is the same everywhere. None for fewer than three values."""
    steps = {later - earlier for earlier, later in pairwise(ordered)}
    return steps.pop() if len(ordered) > 2 and len(steps) == 1 else None


def runs(ordered: list[int]) -> list[tuple[int, int]]:
    """The values as maximal ranges without holes, each as (first, last)."""
    found: list[tuple[int, int]] = []
    for value in ordered:
        if found and found[-1][1] == value - 1:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    return found
