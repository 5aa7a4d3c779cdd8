"""Generates expressions with their meaning, so that an oracle needs no parser, and real changes of clocks."""

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from hypothesis import strategies as st

NAMES_OF_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
NAMES_OF_WEEKDAYS = "sun mon tue wed thu fri sat".split()


@dataclass(frozen=True)
class Meaning:
    """An expression's text, and the values that it selects."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    @property
    def real_time(self) -> bool:
        minute, hour, *_ = self.text.split()
        return minute.startswith("*") or hour.startswith("*")

    @property
    def possible(self) -> bool:
        """Whether a leap year has a matching day; every date falls on every weekday in some leap year."""
        return min(self.days) <= max(monthrange(2028, month)[1] for month in self.months) or self.either_day

    @property
    def either_day(self) -> bool:
        _, _, day, _, weekday = self.text.split()
        return not (day.startswith("*") or weekday.startswith("*"))

    def on_day(self, day: datetime) -> bool:
        """Whether the date of `day` matches."""
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (of_month or of_week if self.either_day else of_month and of_week)

    def at(self, local: datetime) -> bool:
        """Whether the minute that begins at `local` matches."""
        return local.second == 0 and local.minute in self.minutes and local.hour in self.hours and self.on_day(local)


def items(low: int, high: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """One item of a list that does not begin with a star, with its values."""
    value = st.integers(low, high)

    def spelt(number: int, by_name: bool) -> str:
        return names[number - low] if by_name and number - low < len(names) else str(number)

    single = st.builds(lambda number, by_name: (spelt(number, by_name), frozenset({number})), value, st.booleans())
    ranges = st.builds(
        lambda one, two, by_name, step: (
            f"{spelt(min(one, two), by_name)}-{spelt(max(one, two), by_name)}" + (f"/{step}" if step > 1 else ""),
            frozenset(range(min(one, two), max(one, two) + 1, step)),
        ),
        value, value, st.booleans(), st.sampled_from([1, 1, 2, 3, 7]),
    )  # fmt: skip
    return st.one_of(single, single, ranges)


def stars(low: int, high: int) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    whole = frozenset(range(low, high + 1))
    stepped = st.integers(1, high + 9).map(lambda step: (f"*/{step}", frozenset(range(low, high + 1, step))))
    return st.one_of(st.just(("*", whole)), stepped)


def fields(
    low: int, high: int, names: tuple[str, ...] = (), *, plain: int = 0, listed_to: int | None = None
) -> st.SearchStrategy[tuple[str, frozenset[int]]]:
    """A whole field and its values; just `*` with weight `plain`; lists contain values up to `listed_to`."""
    whole = st.just(("*", frozenset(range(low, high + 1))))

    def joined(parts: list[tuple[str, frozenset[int]]]) -> tuple[str, frozenset[int]]:
        return ",".join(text for text, _ in parts), frozenset().union(*(values for _, values in parts))

    some = items(low, high if listed_to is None else listed_to, names)
    lists = st.lists(some, min_size=1, max_size=4).map(joined)
    starred = st.tuples(stars(low, high), st.lists(some, max_size=1)).map(lambda pair: joined([pair[0], *pair[1]]))
    return st.one_of(lists, starred, *[whole] * plain)


def _meaning(*parts: tuple[str, frozenset[int]]) -> Meaning:
    texts, values = zip(*parts, strict=True)
    return Meaning(" ".join(texts), *values[:4], frozenset(value % 7 for value in values[4]))


meanings = st.builds(
    _meaning,
    fields(0, 59),
    fields(0, 23),
    fields(1, 31, plain=2),
    fields(1, 12, tuple(NAMES_OF_MONTHS), plain=4),
    fields(0, 7, tuple(NAMES_OF_WEEKDAYS), plain=2),
).filter(lambda meaning: meaning.possible)
"""Any expression whose dates occur in some year."""

near_midnight_or_early = st.builds(
    _meaning,
    fields(0, 59, plain=1),
    st.one_of(items(0, 4), items(22, 23), fields(0, 23, plain=1)),
    st.one_of(fields(1, 31, listed_to=28), *[st.just(("*", frozenset(range(1, 32))))] * 4),
    st.just(("*", frozenset(range(1, 13)))),
    st.one_of(fields(0, 7), *[st.just(("*", frozenset(range(8))))] * 4),
)
"""Expressions that often fire when clocks are changed."""


class Change(NamedTuple):
    """A change of clocks, in days that contain it."""

    zone: str
    day: str
    what: str

    @property
    def noon(self) -> int:
        """Noon in seconds since 1970."""
        return int(datetime.fromisoformat(f"{self.day}T12:00:00").replace(tzinfo=UTC).timestamp())


CHANGES = (
    Change("Europe/Berlin", "2026-03-29", "an hour forward at 02:00"),
    Change("Europe/Berlin", "2026-10-25", "an hour back at 03:00"),
    Change("America/New_York", "2026-03-08", "an hour forward at 02:00"),
    Change("America/New_York", "2026-11-01", "an hour back at 02:00"),
    Change("Australia/Lord_Howe", "2026-10-03", "half an hour forward at 02:00"),
    Change("Australia/Lord_Howe", "2026-04-04", "half an hour back at 02:00"),
    Change("Africa/Casablanca", "2026-02-15", "an hour back for Ramadan"),
    Change("Africa/Casablanca", "2026-03-22", "an hour forward after Ramadan"),
    Change("America/Sao_Paulo", "2018-11-04", "midnight does not exist"),
    Change("America/Sao_Paulo", "2018-02-18", "midnight goes back to the day before"),
    Change("America/St_Johns", "2010-11-07", "00:01 goes back to the day before"),
    Change("Asia/Kathmandu", "1985-12-31", "15 minutes forward at New Year"),
    Change("Asia/Singapore", "1981-12-31", "half an hour forward at New Year"),
    Change("Asia/Dhaka", "2009-12-31", "an hour back at New Year"),
    Change("Antarctica/Troll", "2026-03-29", "two hours forward"),
    Change("Asia/Pyongyang", "2015-08-14", "half an hour back at midnight"),
    Change("Pacific/Apia", "2011-12-30", "a day that does not exist"),
    Change("Pacific/Kwajalein", "1993-08-21", "a day that does not exist"),
    Change("Africa/Monrovia", "1972-01-07", "44 minutes and a half forward"),
    Change("Europe/London", "1970-01-02", "the beginning"),
)  # fmt: skip
