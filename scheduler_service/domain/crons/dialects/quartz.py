"""Quartz: second, minute, hour, day of month, month, day of week and perhaps year, as its CronExpression reads them.

Weekdays are 1-7 or SUN-SAT from Sunday. One of the two day fields is `?`. Ranges may wrap (22-2, FRI-MON). Refused:
seconds other than 0, `L-3W`, and a step after names (Quartz ignores that of MAR-NOV/2). `/15` is to be written `0/15`.
"""

from typing import Final

from scheduler_service.domain.crons.dialects.quartz_fields import Grammar, read_fields, split_fields
from scheduler_service.domain.crons.expression import Expression

_GRAMMAR: Final = Grammar(
    sunday_is_one=True, wraps=True, lone_last_weekday=True, one_any=True, steps_after_names=False, years=(1970, 2099)
)
_NAMES: Final = "six or seven fields (second, minute, hour, day of month, month, day of week, perhaps year)"


def read_quartz(text: str) -> Expression:
    """Raises InvalidRule with all faults."""
    return read_fields(_GRAMMAR, split_fields(text, (6, 7), _NAMES), seconds=True)
