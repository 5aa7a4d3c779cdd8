"""Local times of single calls, such as 02:30 in Berlin, as instants. Pure.

Clocks are those of crons (`crons.zones`), and so are the words for their changes: a local time that a change skips is
in a gap, one that it repeats in a fold.
"""

import re
from datetime import UTC, datetime
from typing import Final, Literal
from zoneinfo import ZoneInfo

from scheduler_service.domain.crons.dst import Gap
from scheduler_service.domain.crons.zones import stretches
from scheduler_service.domain.ids import UnixMillis

Fold = Literal["first", "second"]
"""A cron may fire both times; one call is made once."""

_FORM: Final = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})(?::(\d{2})(?:\.(\d{1,3}))?)?", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FURTHEST: Final = 2 * 86_400
"""No local time differs by more from UTC, in seconds."""


def parse_local(text: str) -> int:
    """The milliseconds from 1970 to a local time on its own clock. Raises ValueError with a sentence for the author of
    the text."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError("must be a local time without an offset, such as 2027-03-28T02:30")
    minute, second, fraction = form.groups()
    try:
        whole = datetime.fromisoformat(f"{minute}:{second or '00'}").replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(f"{text!r} names no time of the calendar") from None
    if not 1970 <= whole.year <= 9997:
        raise ValueError("must be from 1970 to the end of the year 9997")
    return int((whole - _EPOCH).total_seconds()) * 1000 + int((fraction or "0").ljust(3, "0"))


def instant_of(local: int, zone: ZoneInfo, *, gap: Gap = "shift", fold: Fold = "first") -> UnixMillis | None:
    """The instant at which the clock of `zone` shows `local` (see `parse_local`); None: it never does, and `gap` is
    skip. With shift it is the end of the gap."""
    second, milliseconds = divmod(local, 1000)
    found: list[int] = []
    after_gap = None
    for stretch in stretches(zone, second - _FURTHEST, second + _FURTHEST):
        if stretch.start <= second - stretch.offset < stretch.end:
            found.append(second - stretch.offset)
        elif after_gap is None and stretch.reached <= second < stretch.start + stretch.offset:
            after_gap = stretch.start
    if found:
        return UnixMillis(found[-1 if fold == "second" else 0] * 1000 + milliseconds)
    if gap == "skip":
        return None
    assert after_gap is not None, f"{local} is neither in a stretch of {zone} nor in a gap"
    return UnixMillis(after_gap * 1000)
