"""Spring: second, minute, hour, day of month, month, day of week, as its CronExpression reads them, and macros.

Weekdays are 0-7 where 0 and 7 are Sunday, or MON-SUN; `*/2` counts them from Monday. Both day fields must match; `?` is
the same as `*` there. Refused: seconds other than 0. Where the n of `nW` is a Sunday and the last day of its month,
Spring has no fire in that month; this has one on the Friday before.
"""

from typing import Final

from scheduler_service.domain.crons.dialects.quartz_fields import Grammar, read_fields, split_fields
from scheduler_service.domain.crons.expression import Expression
from scheduler_service.domain.crons.fields import quoted, refused

_GRAMMAR: Final = Grammar(
    sunday_is_one=False, wraps=False, lone_last_weekday=False, one_any=False, steps_after_names=True, years=None
)
_NAMES: Final = "six fields (second, minute, hour, day of month, month, day of week)"
_MACROS: Final = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}


def read_spring(text: str) -> Expression:
    """Raises InvalidRule with all faults."""
    if text.startswith("@") and text not in _MACROS:
        raise refused(f"{quoted(text)} is none of {', '.join(_MACROS)}")
    return read_fields(_GRAMMAR, split_fields(_MACROS.get(text, text), (6,), _NAMES), seconds=True)
