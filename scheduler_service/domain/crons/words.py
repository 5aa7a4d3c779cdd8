"""A rule as an English sentence. Two expressions that fire on different days or at different times never read alike.

The sentence does not describe changes of clocks, except that "every hour" is used only for expressions that follow real
time.
"""

from collections.abc import Callable

from scheduler_service.domain.crons.calendars import Calendar
from scheduler_service.domain.crons.compound import Compound, Recurrence
from scheduler_service.domain.crons.expression import Expression
from scheduler_service.domain.crons.fields import progression, runs
from scheduler_service.domain.crons.interval import Interval, interval_in_words
from scheduler_service.domain.crons.special_days import SpecialDay

_TIMES_SPELT_OUT = 4
_DATES_SPELT_OUT = 3
_FEWEST_OF_A_SERIES = 4
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def in_words(rule: Recurrence) -> str:
    """Such as "at 02:30 every day", "every 90 minutes", "at 09:00 on Monday; not on public holidays of DE"."""
    match rule:
        case Expression():
            return _expression_in_words(rule)
        case Interval():
            return interval_in_words(rule)
        case Compound(members, excluding, calendar):
            parts = ["; and ".join(in_words(member) for member in members)]
            if calendar is not None:
                parts.append(_calendar_in_words(calendar))
            parts += (f"except {_excluded_in_words(each)}" for each in excluding)
            return "; ".join(parts)


def _excluded_in_words(expression: Expression) -> str:
    """Whole days need no time."""
    words = _expression_in_words(expression)
    whole = len(expression.minutes) == 60 and len(expression.hours) == 24 and words != "every minute"
    return words.removeprefix("every minute ") if whole else words


def _calendar_in_words(calendar: Calendar) -> str:
    off = ["weekends"] if calendar.weekends else []
    if calendar.country is not None:
        place = calendar.country if calendar.subdivision is None else f"{calendar.country}-{calendar.subdivision}"
        off.append(f"public holidays of {place}")
    if calendar.dates:
        shown = _joined(list(calendar.dates[:_DATES_SPELT_OUT]))
        off.append(shown if len(calendar.dates) <= _DATES_SPELT_OUT else f"{len(calendar.dates)} dates")
    if calendar.on == "skip":
        return f"not on {_joined(off)}"
    return f"moved from {_joined(off)} to the {'next' if calendar.on == 'move-next' else 'previous'} working day"


def _expression_in_words(expression: Expression) -> str:
    """Such as "at 02:30 every day", "every 5 minutes", "at 09:00 on day 1 of the month or on Monday"."""
    time, every_hour = _time(expression)
    day = _day(expression)
    if day is None and not every_hour:
        day = "every day"
    sentence = time if day is None else f"{time} {day}"
    if len(expression.months) < len(_MONTHS):
        sentence += f", only in {_listed(expression.months, lambda month: _MONTHS[month - 1])}"
    if expression.years:
        sentence += f", only in {'the year' if len(expression.years) == 1 else 'the years'} "
        sentence += _listed(expression.years, str)
    return sentence


def _time(expression: Expression) -> tuple[str, bool]:
    """The time of day, and whether it says by itself that it applies to every hour."""
    minutes, hours = list(expression.minutes), list(expression.hours)
    every_hour = len(hours) == 24 and expression.follows_real_time
    step = _regular(minutes)
    if step is not None:
        often = "every minute" if step == 1 else f"every {step} minutes"
        if every_hour:
            return often, True
        if len(runs(hours)) == 1 and len(minutes) * len(hours) > _TIMES_SPELT_OUT:
            return f"{often} from {hours[0]:02d}:00 to {hours[-1]:02d}:{minutes[-1]:02d}", False
    if len(minutes) * len(hours) <= _TIMES_SPELT_OUT:
        return f"at {_joined([f'{hour:02d}:{minute:02d}' for hour in hours for minute in minutes])}", False
    past = "every minute" if len(minutes) == 60 else _counted("minute", minutes)
    return f"at {past} past {'every hour' if every_hour else _counted('hour', hours)}", every_hour


def _regular(minutes: list[int]) -> int | None:
    """The step of minutes that are evenly spaced over hours, from the full hour on."""
    step = 60 // len(minutes)
    return step if step < 60 and minutes == list(range(0, 60, step)) else None


def _day(expression: Expression) -> str | None:
    """None for every day."""
    any_day, any_weekday = len(expression.days) == 31, len(expression.weekdays) == 7
    on_days = _on_days(expression)
    on_weekdays = _on_weekdays(expression)
    if expression.either_day:
        return None if any_day or any_weekday else f"{on_days} or {on_weekdays}"
    if any_day:
        return None if any_weekday else on_weekdays
    return on_days if any_weekday else f"{on_weekdays}, but only {on_days}"


def _on_days(expression: Expression) -> str:
    plain = [_days_counted(list(expression.days))] if expression.days else []
    special = [f"on {_special(day)} of the month" for day in expression.special_days]
    return _joined([*plain, *special])


def _on_weekdays(expression: Expression) -> str:
    weekdays = sorted((weekday - 1) % 7 for weekday in expression.weekdays)
    plain = [f"on {_listed(weekdays, lambda weekday: _WEEKDAYS[weekday])}"] if weekdays else []
    special = [f"on {_special(day)} of the month" for day in expression.special_weekdays]
    return _joined([*plain, *special])


def _special(day: SpecialDay) -> str:
    weekday = _WEEKDAYS[(day.number - 1) % 7]
    match day.kind:
        case "last":
            if not day.number:
                return "the last day"
            return f"the {'day' if day.number == 1 else f'{_ordinal(day.number)} day'} before the last day"
        case "last-workday":
            return "the last workday"
        case "workday":
            return f"the workday nearest to day {day.number}"
        case "nth":
            return f"the {_ordinal(day.nth)} {weekday}"
        case "last-weekday":
            return f"the last {weekday}"


def _days_counted(days: list[int]) -> str:
    if (series := _series(days)) is not None:
        return f"on every {series} day of the month from {days[0]} to {days[-1]}"
    return f"on {'day' if len(days) == 1 else 'days'} {_listed(days, str)} of the month"


def _counted(noun: str, values: list[int]) -> str:
    if (series := _series(values)) is not None:
        return f"every {series} {noun} from {values[0]} to {values[-1]}"
    return f"{noun if len(values) == 1 else f'{noun}s'} {_listed(values, str)}"


def _series(values: list[int]) -> str | None:
    step = progression(values)
    return _ordinal(step) if step is not None and step > 1 and len(values) >= _FEWEST_OF_A_SERIES else None


def _ordinal(number: int) -> str:
    ending = "th" if number in range(11, 14) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _listed(values: tuple[int, ...] | list[int], name: Callable[[int], str]) -> str:
    parts: list[str] = []
    for first, last in runs(list(values)):
        if last > first + 1:
            parts.append(f"{name(first)} to {name(last)}")
        else:
            parts += [name(value) for value in range(first, last + 1)]
    return _joined(parts)


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
