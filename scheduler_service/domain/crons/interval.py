"""A rule without fields: every so many minutes of real time, counted from an anchor. Pure.

    every 90 minutes                               counted from the cron's `starts_at` or, without one, its creation
    every 90 minutes from 2026-11-27T09:30:00Z     counted from there, in both directions

Hours and days are 60 and 1,440 minutes, whatever clocks do. The anchor itself fires, unless the cron was created then.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from scheduler_service.domain.crons.fields import quoted, refused
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.instants import format_instant, parse_instant

MOST_MINUTES: Final = 366 * 1440
_FORM: Final = re.compile(r"every (?:([0-9]{1,7}) )?(minute|hour|day|week)s?(?: from (\S{1,40}))?", re.IGNORECASE)
_MINUTES: Final = {"minute": 1, "hour": 60, "day": 1440, "week": 10_080}


@dataclass(frozen=True, slots=True)
class Interval:
    """Fires at `anchor` (Unix seconds) and every `minutes` before and after it; None: the cron's own anchor."""

    minutes: int
    anchor: int | None = None

    @property
    def text(self) -> str:
        """Canonical."""
        since = "" if self.anchor is None else f" from {_written(self.anchor)}"
        return f"every {self.minutes} minute{'' if self.minutes == 1 else 's'}{since}"

    def anchored(self, at: int) -> "Interval":
        """With this anchor (Unix seconds), if it has none."""
        return self if self.anchor is not None else replace(self, anchor=at)


def interval_of(minutes: int, written: str, anchor: int | None = None) -> Interval:
    """Raises InvalidRule for a length out of bounds."""
    if not 1 <= minutes <= MOST_MINUTES:
        raise refused(f"{quoted(written)}: an interval is 1 minute to 366 days long")
    return Interval(minutes, anchor)


def says_interval(text: str) -> bool:
    return text[:6].lower() == "every "


def parse_interval(text: str) -> Interval:
    """Raises InvalidRule."""
    form = _FORM.fullmatch(" ".join(text.split()))
    if form is None:
        raise refused(f"{quoted(text)} is no interval, such as every 90 minutes, or every 2 days from an instant")
    number, unit, since = form.groups()
    return interval_of(int(number or 1) * _MINUTES[unit.lower()], text, None if since is None else _anchor(since))


def _anchor(text: str) -> int:
    try:
        instant = parse_instant(text.upper())
    except ValueError as error:
        raise refused(f"{quoted(text)} is no instant with an offset, such as 2026-11-27T09:30:00Z") from error
    if instant % 1000:
        raise refused(f"{quoted(text)}: an interval counts from a whole second")
    return instant // 1000


def _written(second: int) -> str:
    return format_instant(UnixMillis(second * 1000)).replace(".000Z", "Z")


def interval_in_words(interval: Interval) -> str:
    """Such as "every 90 minutes", "every 2 days from 2026-11-27T09:30:00Z"."""
    unit, length = next(each for each in reversed(_MINUTES.items()) if interval.minutes % each[1] == 0)
    count = interval.minutes // length
    often = f"every {unit}" if count == 1 else f"every {count} {unit}s"
    return often if interval.anchor is None else f"{often} from {_written(interval.anchor)}"
