"""Instants as BigBen reads and writes them: those of Java's `ZonedDateTime`. Pure.

It reads ISO 8601 with an offset, seconds and their fraction left out at will, and perhaps a zone in brackets behind it,
which says nothing that the offset does not. It writes UTC, leaves out seconds of zero, and has milliseconds if there
are some.
"""

import re
from typing import Final

from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.instants import LAST_INSTANT, format_instant, parse_instant

_FORM: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2})(:\d{2}(?:\.\d{1,9})?)?([Zz]|[+-]\d{2}:\d{2})(?:\[[A-Za-z0-9/_+.-]{1,64}\])?",
    re.ASCII,
)


def rfc3339(text: str) -> str:
    """The same instant as RFC 3339. Raises ValueError, with a sentence for the author of the text."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise ValueError("must be an ISO 8601 timestamp with an offset, such as 2018-01-31T04:00:00Z")
    minute, seconds, offset = found.groups()
    return f"{minute}{seconds or ':00'}{offset}"


def read_time(text: str) -> UnixMillis:
    """Raises ValueError, with a sentence for the author of the text."""
    instant = parse_instant(rfc3339(text))
    if not 0 <= instant <= LAST_INSTANT:
        raise ValueError("must be from 1970 to the end of the year 9998")
    return instant


def time_text(instant: int) -> str:
    """Such as `2018-01-31T04:00Z`, `2018-01-31T04:00:07Z` or `2018-01-31T04:00:07.250Z`."""
    minute, seconds = format_instant(instant)[:16], format_instant(instant)[16:-1]
    if seconds.endswith(".000"):
        seconds = seconds.removesuffix(".000")
        seconds = "" if seconds == ":00" else seconds
    return f"{minute}{seconds}Z"
