"""Compares the calendar walk with croniter, in UTC. croniter gets lists of values, because it parses texts
differently.
"""

from datetime import UTC, datetime

from croniter import croniter
from hypothesis import assume, given, settings

from scheduler_service.domain.crons import Rule, parse_expression
from tests.unit.crons.generated import Meaning, meanings

BEGIN = datetime(2026, 2, 27, 13, 7, 30, tzinfo=UTC)


def listed(values: tuple[int, ...], field: int) -> str:
    """All values of a field written out; a star where it has them all, which croniter does not recognise in a list."""
    return "*" if len(values) == field else ",".join(map(str, values))


@given(meanings)
@settings(max_examples=60)
def test_the_next_fires_are_croniters(meant: Meaning) -> None:
    assume(meant.possible)
    expression = parse_expression(meant.text)
    days, weekdays = listed(expression.days, 31), listed(expression.weekdays, 7)
    if expression.either_day and "*" in (days, weekdays):
        days = weekdays = "*"
    fields = (
        listed(expression.minutes, 60),
        listed(expression.hours, 24),
        days,
        listed(expression.months, 12),
        weekdays,
    )
    ours = Rule(expression=expression, timezone="Etc/UTC").next_fires(int(BEGIN.timestamp() * 1000), 6)
    theirs = croniter(" ".join(fields), BEGIN, day_or=expression.either_day, max_years_between_matches=10)
    assert ours == [int(theirs.get_next(float) * 1000) for _ in ours]
