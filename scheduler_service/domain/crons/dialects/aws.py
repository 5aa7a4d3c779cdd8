"""EventBridge: `cron(minute hour day-of-month month day-of-week year)` and `rate(5 minutes)`.

Weekdays are 1-7 or SUN-SAT from Sunday. One of the two day fields is `?`. A rate counts from the cron's `starts_at` or,
without one, its creation. `at(...)` is one instant, and no cron.
"""

import re
from typing import Final

from scheduler_service.domain.crons.dialects.quartz_fields import Grammar, read_fields, split_fields
from scheduler_service.domain.crons.expression import MAX_EXPRESSION, Expression
from scheduler_service.domain.crons.fields import quoted, refused
from scheduler_service.domain.crons.interval import Interval, interval_of

_GRAMMAR: Final = Grammar(
    sunday_is_one=True, wraps=False, lone_last_weekday=True, one_any=True, steps_after_names=False, years=(1970, 2199)
)
_NAMES: Final = "six fields in cron(...) (minute, hour, day of month, month, day of week, year)"
_FORM: Final = re.compile(r"(cron|rate|at)\((.*)\)", re.DOTALL)
_RATE: Final = re.compile(r"([0-9]{1,7})\s+(minute|hour|day)s?")
_MINUTES: Final = {"minute": 1, "hour": 60, "day": 1440}


def read_aws(text: str) -> Expression | Interval:
    """Raises InvalidRule with all faults."""
    if len(text) > MAX_EXPRESSION:
        raise refused(f"is longer than {MAX_EXPRESSION} characters")
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise refused(f"{quoted(text)} is neither cron(...) nor rate(...), such as cron(0 9 * * ? *)")
    kind, inner = form.groups()
    if kind == "at":
        raise refused(f"{quoted(text)} is one instant: create a schedule that is due then, not a cron")
    if kind == "cron":
        return read_fields(_GRAMMAR, split_fields(inner, (6,), _NAMES), seconds=False)
    rate = _RATE.fullmatch(inner.strip())
    if rate is None:
        raise refused(f"{quoted(text)}: a rate is a number of minutes, hours or days, such as rate(5 minutes)")
    return interval_of(int(rate[1]) * _MINUTES[rate[2]], text)
