"""Dialects: how other schedulers read the text of a rule, each translated into ours.

A dialect is one module with one function, from a text to the canonical rule. It raises InvalidRule for the field
`expression`, with all faults of the text, and says for each what to write instead. What is stored and fired is the
canonical rule, so two dialects never differ in how a rule runs; a cron keeps the original text only to show it.

Only the reading of a text is translated. Zone, changes of clocks, catch-up and overlap are a cron's own, in any
dialect.

    cronie        minute, hour, day of month, month, day of week; the default
    minutehand    cronie's fields and everything else that a canonical rule can say (`domain.crons.canonical`)
    goscheduler   five fields; both day fields must match; steps are multiples
    quartz        second, five fields and perhaps year; one day field is ?; weekdays 1-7 from Sunday
    aws           cron(...) with a year, and rate(...)
    spring        second and five fields; both day fields must match
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, get_args

from scheduler_service.domain.crons.canonical import parse_member, parse_recurrence
from scheduler_service.domain.crons.compound import Compound, Member
from scheduler_service.domain.crons.dialects.aws import read_aws
from scheduler_service.domain.crons.dialects.cronie import read_cronie
from scheduler_service.domain.crons.dialects.goscheduler import read_goscheduler
from scheduler_service.domain.crons.dialects.quartz import read_quartz
from scheduler_service.domain.crons.dialects.spring import read_spring
from scheduler_service.domain.errors import InvalidRule

Dialect = Literal["cronie", "minutehand", "goscheduler", "quartz", "aws", "spring"]
DEFAULT_DIALECT: Final[Dialect] = "cronie"
_READERS: Final[Mapping[Dialect, Callable[[str], Member]]] = {
    "cronie": read_cronie,
    "minutehand": parse_member,
    "goscheduler": read_goscheduler,
    "quartz": read_quartz,
    "aws": read_aws,
    "spring": read_spring,
}
assert set(_READERS) == set(get_args(Dialect))


def read_in_dialect(text: str, dialect: Dialect) -> Member:
    """The canonical rule of a text. Raises InvalidRule."""
    return _READERS[dialect](text)


class Written(NamedTuple):
    """A rule as it is shown: texts of one dialect."""

    dialect: str
    expression: str
    also: tuple[str, ...] = ()
    excluding: tuple[str, ...] = ()


def written_of_canonical(text: str) -> Written:
    """How a canonical text is shown: in cronie's dialect, if that can read it. One that this version can't read is
    shown as it is."""
    try:
        rule = parse_recurrence(text)
    except InvalidRule:
        return Written("minutehand", text)
    compound = rule if isinstance(rule, Compound) else Compound((rule,))
    first, *also = (member.text for member in compound.members)
    excluding = tuple(each.text for each in compound.excluding)
    dialect = "cronie" if all(map(_is_cronie, (first, *also, *excluding))) else "minutehand"
    return Written(dialect, first, tuple(also), excluding)


def _is_cronie(text: str) -> bool:
    try:
        read_cronie(text)
    except InvalidRule:
        return False
    return True
