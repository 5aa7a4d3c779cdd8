"""What a receiver may ask for in the headers of its answer, beside delivered and failed. Pure.

    not-again   status 489, or `webhook-delivery: abort-message`: it failed for good, without a further attempt
    snooze      `Retry-After` with a 2xx, or `Minutehand-Call-At` with any status: it is called again at that instant
    stop-cron   `Minutehand-Stop-Cron: true`: the run ends with this answer, and its cron is paused

`Retry-After` with a failure is no verb: it only lengthens the delay of a retry, as the retry policy allows (`retry`).

A verb costs no write of its own: it changes what the outcome of the attempt says. A client's setting `receiver_verbs`
says which are heeded. A verb that is not heeded leaves the answer what its status says; unless it is switched off, the
record of the attempt tells why.
"""

from collections.abc import Iterable
from email.utils import mktime_tz, parsedate_tz
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from scheduler_service.domain.ids import DAY_MS, MAX_DUE, UnixMillis
from scheduler_service.domain.instants import parse_instant

Verb: TypeAlias = Literal["not-again", "snooze", "stop-cron"]
Ignored: TypeAlias = Literal["off", "unreadable", "past", "too-far", "too-often", "at-most-once", "no-fire"]
"""Why a verb is not heeded.

off           the client's settings do not name it
unreadable    the header's value is none
past          the instant is not in the future
too-far       the instant is beyond the client's horizon
too-often     the schedule has been called too often (`MOST_CALLS`)
at-most-once  the client calls nothing again that may have been called
no-fire       the schedule is no fire of a cron
"""
VERBS: Final[tuple[Verb, ...]] = get_args(Verb)
NOT_AGAIN_STATUS: Final = 489
NOT_AGAIN: Final = "not-again"
SNOOZED: Final = "snoozed"
CRON_STOPPED: Final = "cron-stopped"
"""Reasons of outcomes that obey a verb."""
RETRY_AFTER: Final = "retry-after"
CALL_AT: Final = "minutehand-call-at"
STOP_CRON: Final = "minutehand-stop-cron"
DELIVERY: Final = "webhook-delivery"
OF_SUCCESSES: Final = frozenset((RETRY_AFTER, CALL_AT, STOP_CRON))
"""The headers that say more than a 2xx does."""
MOST_CALLS: Final = 100
"""Attempts of a schedule after which it is not snoozed any more."""
SHORTEST_SNOOZE_MS: Final = 1_000
_ABORT: Final = "abort-message"
_LONGEST_DIGITS: Final = 12
_MARK: Final = "verb:"


class Asked(msgspec.Struct, frozen=True, gc=False):
    """What an answer asks for. `call_at`: Unix milliseconds; `unreadable`: the verb of a header without a value that
    can be read."""

    not_again: bool = False
    call_at: int | None = None
    stop_cron: bool = False
    unreadable: Verb | None = None


class Heeded(NamedTuple):
    """What becomes of an asked `verb`. `ignored` None: it is obeyed, a snooze at the instant `at`."""

    verb: Verb
    ignored: Ignored | None = None
    at: UnixMillis | None = None

    @property
    def obeyed(self) -> Verb | None:
        return self.verb if self.ignored is None else None

    @property
    def mark(self) -> str:
        """The text that a recorded attempt has as its error; "" for a verb that is switched off."""
        if self.ignored == "off":
            return ""
        return f"{_MARK}{self.verb}" if self.ignored is None else f"{_MARK}{self.verb}:{self.ignored}"


def marked(error: str | None) -> tuple[str, str | None] | None:
    """The verb of a recorded attempt and why it was ignored, None if it was obeyed; None for any other error."""
    if error is None or not error.startswith(_MARK):
        return None
    verb, _, ignored = error.removeprefix(_MARK).partition(":")
    return verb, ignored or None


_MOST_SECONDS: Final = 1e12
"""Beyond every instant that can be stored; what a header asks for may be too large for the arithmetic of instants."""


def seconds_until(value: str, *, wall_ms: int) -> float | None:
    """The seconds that a Retry-After value asks for, as a number or an HTTP date. None: it is neither, or not in the
    future."""
    if value.isascii() and value.isdigit():
        seconds = float(value[:_LONGEST_DIGITS])
    elif (date := parsedate_tz(value)) is not None:
        try:
            seconds = mktime_tz(date) - wall_ms / 1000
        except (OverflowError, ValueError):
            return None
    else:
        return None
    return min(seconds, _MOST_SECONDS) if seconds > 0 else None


def read_asked(status: int, fields: Iterable[tuple[str, str]], *, wall_ms: int) -> Asked | None:
    """What an answer with this final status and these headers asks for at `wall_ms`; None: nothing. Of a header that
    comes twice, the first counts."""
    values: dict[str, str] = {}
    for name, value in fields:
        values.setdefault(name.lower(), value.strip())
    succeeded = 200 <= status <= 299
    not_again = not succeeded and (status == NOT_AGAIN_STATUS or values.get(DELIVERY, "").lower() == _ABORT)
    call_at, unreadable = _call_at(values, succeeded=succeeded, wall_ms=wall_ms)
    stop_cron = values.get(STOP_CRON, "").lower()
    if stop_cron not in ("", "true", "false"):
        unreadable = "stop-cron"
    asked = Asked(not_again, call_at, stop_cron == "true", unreadable)
    return None if asked == _NOTHING else asked


def _call_at(values: dict[str, str], *, succeeded: bool, wall_ms: int) -> tuple[int | None, Verb | None]:
    """The instant, or the verb whose value can't be read."""
    if (text := values.get(CALL_AT)) is not None:
        try:
            return parse_instant(text), None
        except (ValueError, OverflowError):
            return None, "snooze"
    if succeeded and (text := values.get(RETRY_AFTER)) is not None:
        seconds = seconds_until(text, wall_ms=wall_ms)
        return (None, "snooze") if seconds is None else (wall_ms + round(seconds * 1000), None)
    return None, None


def heed(
    asked: Asked,
    *,
    allowed: Iterable[str],
    attempts: int,
    horizon_days: int,
    at_most_once: bool,
    of_fire: bool,
    earliest: int,
    now: int,
    latest: int = MAX_DUE,
) -> Heeded | None:
    """What becomes of the strongest verb that is asked for: stop-cron before not-again before snooze. The others of the
    same answer are void.

    `attempts`: made so far, with this one. `of_fire`: the schedule is a fire of a cron. `earliest`: the instant from
    which on it may be called again, beside a second from `now` on; `latest`: the last one, beside the horizon."""
    on = frozenset(allowed)
    if asked.stop_cron:
        why: Ignored | None = "off" if "stop-cron" not in on else None if of_fire else "no-fire"
        if why is None:
            return Heeded("stop-cron")
        if not asked.not_again and asked.call_at is None:
            return Heeded("stop-cron", why)
    if asked.not_again:
        return Heeded("not-again", None if "not-again" in on else "off")
    if asked.call_at is not None:
        ignored = _not_snoozed(
            asked.call_at,
            on=on,
            attempts=attempts,
            horizon_days=horizon_days,
            at_most_once=at_most_once,
            now=now,
            latest=latest,
        )
        at = max(asked.call_at, now + SHORTEST_SNOOZE_MS, earliest)
        return Heeded("snooze", ignored, UnixMillis(at) if ignored is None else None)
    if asked.unreadable is not None:
        return Heeded(asked.unreadable, "unreadable" if asked.unreadable in on else "off")
    return None


def _not_snoozed(
    at: int, *, on: frozenset[str], attempts: int, horizon_days: int, at_most_once: bool, now: int, latest: int
) -> Ignored | None:
    if "snooze" not in on:
        return "off"
    if at <= now:
        return "past"
    if at > min(now + horizon_days * DAY_MS, latest):
        return "too-far"
    if at_most_once:
        return "at-most-once"
    return "too-often" if attempts >= MOST_CALLS else None


_NOTHING: Final = Asked()
