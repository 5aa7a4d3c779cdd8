"""What the originals answered to drawn expressions: GoScheduler of November 2024, Quartz 2.3.2, Spring 6.2.8.

`originals.json` has for each the dialect, the text, and the first minutes since 1970 from 2027 on at which the original
fires in UTC, at most twelve; null where it refuses the text. It was recorded from 2,500 to 3,000 drawn texts of each,
of which all were read alike but for what the dialects' docstrings name, and forms that only one side accepts.
"""

import json
from itertools import islice
from pathlib import Path

import pytest

from scheduler_service.domain.crons import InvalidRule, fires, load_zone, read_in_dialect
from scheduler_service.domain.crons.dialects import Dialect

MINUTE = 60_000
BEGIN = 1_798_761_600_000
YEARS = 5 * 365 * 86_400_000
CASES = json.loads(Path(__file__).with_name("originals.json").read_text())


@pytest.mark.parametrize("dialect", ["goscheduler", "quartz", "spring"])
def test_fires_are_those_of_the_original(dialect: Dialect) -> None:
    cases = [(text, minutes) for name, text, minutes in CASES if name == dialect]
    assert len(cases) == 80
    differing = [
        (text, found, minutes) for text, minutes in cases if (found := first_minutes(text, dialect)) != minutes
    ]
    assert differing == []


def first_minutes(text: str, dialect: Dialect) -> list[int] | None:
    try:
        rule = read_in_dialect(text, dialect)
    except InvalidRule:
        return None
    found = fires(rule, load_zone("UTC"), after=BEGIN - 1, until=BEGIN + YEARS)
    return [instant // MINUTE for instant in islice(found, 12)]
