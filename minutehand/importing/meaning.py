"""What an entry means: its rule in words, and its next fires, as its source reads it and as our default dialect
would. Pure."""

from dataclasses import dataclass
from typing import Literal, cast

from minutehand.importing.entries import Entry
from scheduler_service.domain.crons import InvalidRule, Rule, anchored, in_words, load_zone, read_in_dialect
from scheduler_service.domain.crons.compound import anchor_second
from scheduler_service.domain.crons.dialects import DEFAULT_DIALECT, Dialect
from scheduler_service.domain.crons.dst import Dst
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.instants import LAST_INSTANT, parse_instant
from scheduler_service.domain.local_times import instant_of, parse_local

FIRES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Meaning:
    """`fires`: the next ones, Unix milliseconds."""

    words: str
    fires: tuple[UnixMillis, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """`meant`: by the source; None, with a `fault`, where it can't be imported. `plain`: how the same text is read
    without a dialect; None: it is refused, for the reason `plain_fault`."""

    entry: Entry
    meant: Meaning | None
    fault: str | None = None
    plain: Meaning | None = None
    plain_fault: str | None = None

    @property
    def differs(self) -> bool:
        """Whether copying the text as it is would be wrong."""
        if self.meant is None or self.entry.expression is None:
            return False
        return self.plain is None or self.plain.fires != self.meant.fires


def judge(entry: Entry, *, now: int) -> Judged:
    """`now`: Unix milliseconds."""
    try:
        if entry.expression is None:
            return Judged(entry, _once(entry))
        meant = _meaning(entry, entry.expression, entry.dialect, _dst(entry), now)
    except (InvalidRule, ValueError) as error:
        return Judged(entry, None, fault=_told(error))
    try:
        plain = _meaning(entry, entry.written, DEFAULT_DIALECT, Dst(), now)
    except (InvalidRule, ValueError) as error:
        return Judged(entry, meant, plain_fault=_told(error))
    return Judged(entry, meant, plain=plain)


def instant_named(entry: Entry) -> UnixMillis:
    """When a single call is due. Raises InvalidRule, ValueError."""
    assert entry.at is not None
    if is_local(entry):
        at = instant_of(parse_local(entry.at), load_zone(entry.timezone))
        assert at is not None, "gap is shift"
        return at
    return _instant(entry.at, "its time")


def _instant(text: str, what: str) -> UnixMillis:
    """Raises ValueError, also for an instant that no call can have."""
    try:
        instant = parse_instant(text)
    except ValueError as error:
        raise ValueError(f"{what}, {text!r:.60}, {error}") from error
    if not 0 <= instant <= LAST_INSTANT:
        raise ValueError(f"{what}, {text!r:.60}, must be from 1970 to the end of the year 9998")
    return instant


def is_local(entry: Entry) -> bool:
    """Whether a single call is due at a local time."""
    try:
        parse_local(entry.at or "")
    except ValueError:
        return False
    return True


def _once(entry: Entry) -> Meaning:
    zone = f" in {entry.timezone}" if is_local(entry) else ""
    return Meaning(f"once, at {entry.at}{zone}", (instant_named(entry),))


def _meaning(entry: Entry, text: str, dialect: Dialect, dst: Dst, now: int) -> Meaning:
    """Raises InvalidRule, ValueError."""
    starts_at, ends_at = (
        None if at is None else _instant(at, what)
        for what, at in (("its start", entry.starts_at), ("its end", entry.ends_at))
    )
    recurrence = read_in_dialect(text, dialect)
    rule = Rule(
        expression=anchored(recurrence, anchor_second(starts_at, now)),
        timezone=entry.timezone,
        dst=dst,
        starts_at=starts_at,
        ends_at=ends_at,
    )
    rule.check(now)
    return Meaning(in_words(recurrence), tuple(rule.next_fires(now, FIRES_SHOWN)))


def _dst(entry: Entry) -> Dst:
    return Dst(gap=cast(Literal["shift", "skip"], entry.gap), fold=cast(Literal["first", "both"], entry.fold))


def _told(error: ValueError | InvalidRule) -> str:
    return f"{error.field} {error.reason}" if isinstance(error, InvalidRule) else str(error)
