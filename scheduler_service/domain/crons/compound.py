"""Rules that are made of others: fires of any member, without those that are excluded or fall on days off. Pure.

    members      fires of each, those at one instant once
    calendar     skips the days off of each member, or moves their fires to a working day at the same time
    excluding    expressions; local minutes that one of them matches don't fire, after a move

Both act on the local calendar, before changes of clocks: an excluded time that a change skips is not made up for.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Final

import msgspec

from scheduler_service.domain.crons.calendars import Calendar
from scheduler_service.domain.crons.expression import Expression
from scheduler_service.domain.crons.interval import Interval
from scheduler_service.domain.errors import InvalidRule

MAX_MEMBERS: Final = 10
MAX_EXCLUDED: Final = 10
SHORTEST_MINUTES: Final = 60
"""Of an interval that has a calendar or exclusions: each of its fires is looked at by itself. There is one at most."""


class Document(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The canonical text of a compound, as JSON. Its members are canonical texts."""

    any: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    excluding: tuple[str, ...] = ()
    calendar: Calendar | None = None


_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Compound:
    """Made by `compose`. `members` is not empty."""

    members: tuple[Expression | Interval, ...]
    excluding: tuple[Expression, ...] = ()
    calendar: Calendar | None = None

    @property
    def text(self) -> str:
        """Canonical. It begins with a brace, as no expression does."""
        members = tuple(member.text for member in self.members)
        return _encode(Document(members, tuple(each.text for each in self.excluding), self.calendar)).decode()


Member = Expression | Interval
Recurrence = Expression | Interval | Compound


def compose(
    members: tuple[Member, ...], excluding: tuple[Member, ...] = (), calendar: Calendar | None = None
) -> Recurrence:
    """One rule of checked parts; a member alone stays itself. Raises InvalidRule."""
    members, excluding = tuple(dict.fromkeys(members)), tuple(dict.fromkeys(excluding))
    if len(members) > MAX_MEMBERS:
        raise InvalidRule("also", f"has more than {MAX_MEMBERS - 1} expressions")
    if len(excluding) > MAX_EXCLUDED:
        raise InvalidRule("excluding", f"has more than {MAX_EXCLUDED} expressions")
    fields = tuple(each for each in excluding if isinstance(each, Expression))
    if len(fields) < len(excluding):
        raise InvalidRule("excluding", "an interval can't be excluded: write expressions with fields")
    if len(members) == 1 and not fields and calendar is None:
        return members[0]
    intervals = [each for each in members if isinstance(each, Interval)]
    if intervals and calendar is not None and calendar.on != "skip":
        raise InvalidRule("calendar/on", "fires of an interval have no time of day to be moved with: choose skip")
    if not fields and calendar is None:
        return Compound(members)
    if len(intervals) > 1:
        raise InvalidRule("also", "one interval at most may have a calendar or exclusions")
    if any(each.minutes < SHORTEST_MINUTES for each in intervals):
        raise InvalidRule(
            "expression",
            f"an interval with a calendar or exclusions is {SHORTEST_MINUTES} minutes long or more: write */5 and the "
            "like for shorter ones",
        )
    return Compound(members, fields, calendar)


def takes_long(text: str) -> bool:
    """Whether the search for the fires of a canonical rule may take several milliseconds of CPU: then let others have
    their turn before it."""
    return text.startswith("{")


def anchor_second(starts_at: int | None, created_at: int) -> int:
    """From which second of Unix time the intervals of a cron count that have no anchor of their own: the start of the
    cron (milliseconds) or, without one, its creation. At its start it fires, at its creation it doesn't."""
    return created_at // 1000 if starts_at is None else -(-starts_at // 1000)


def anchored(rule: Recurrence, at: int) -> Recurrence:
    """The rule with this anchor (Unix seconds) for its intervals that have none."""
    match rule:
        case Expression():
            return rule
        case Interval():
            return rule.anchored(at)
        case Compound(members):
            own = tuple(each.anchored(at) if isinstance(each, Interval) else each for each in members)
            return replace(rule, members=own)
