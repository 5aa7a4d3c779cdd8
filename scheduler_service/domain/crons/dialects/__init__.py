"""Dialects: how other schedulers read the text of a rule, each translated into ours.

A dialect is one module with one function, from a text to the canonical rule. It raises InvalidRule for the field
`expression`, with all faults of the text, and says for each what to write instead. What is stored and fired is the
canonical rule, so two dialects never differ in how a rule runs; a cron keeps the original text only to show it.

Only the reading of a text is translated. Zone, changes of clocks, catch-up and overlap are a cron's own, in any
dialect.

    cronie        minute, hour, day of month, month, day of week; the default
    minutehand    cronie's fields and everything that a canonical rule can say (`domain.crons.canonical`)
    goscheduler   five fields; both day fields must match; steps are multiples
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

from scheduler_service.domain.crons.canonical import parse_recurrence
from scheduler_service.domain.crons.dialects.cronie import read_cronie
from scheduler_service.domain.crons.dialects.goscheduler import read_goscheduler
from scheduler_service.domain.crons.expression import Expression
from scheduler_service.domain.errors import InvalidRule

Dialect = Literal["cronie", "minutehand", "goscheduler"]
DEFAULT_DIALECT: Final[Dialect] = "cronie"
_READERS: Final[Mapping[Dialect, Callable[[str], Expression]]] = {
    "cronie": read_cronie,
    "minutehand": parse_recurrence,
    "goscheduler": read_goscheduler,
}
assert set(_READERS) == set(get_args(Dialect))


def read_in_dialect(text: str, dialect: Dialect) -> Expression:
    """The canonical rule of a text. Raises InvalidRule."""
    return _READERS[dialect](text)


def dialect_of_canonical(text: str) -> Dialect:
    """In which of our own dialects a canonical text is shown: cronie, if that can read it."""
    try:
        parse_recurrence(text)
        read_cronie(text)
    except InvalidRule:
        return "minutehand"
    return "cronie"
