"""What the listings of crons and of their runs take as query parameters, and the cursors that they go on with."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from scheduler_service.api.cursor import disagreeing, is_window, no_cursor, seal, unseal
from scheduler_service.api.parameters import CURSOR, DEFAULT_LIMIT, instant_parameter, limit_parameter
from scheduler_service.domain.crons import SEARCHED_MS
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import DAY_MS, ClientId, CronId, UnixMillis

MAX_CRONS = 200
"""Each is read with its body, and its next fires are worked out."""
MAX_RUNS = 500
"""Each run of a page is a read of its own."""
MAX_DAYS = 31
MAX_SPAN_MS = MAX_DAYS * DAY_MS
_CRON_LIMIT = limit_parameter(MAX_CRONS)
_FROM = instant_parameter("from", "The first nominal instant to list. Left out: a day ago.")
_TO = instant_parameter(
    "to",
    f"The first nominal instant not to list, at most {MAX_DAYS} days after `from` and five years ahead. Left out: a "
    "day after now or, if that is later, after `from`.",
)
_RUN_LIMIT = limit_parameter(MAX_RUNS)
CRON_PARAMETERS = (_CRON_LIMIT, CURSOR)
RUN_PARAMETERS = (_FROM, _TO, _RUN_LIMIT, CURSOR)

_VERSION = 1


class _CronCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    version: int
    after: CronId


class _RunCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    version: int
    cron_id: CronId
    start: UnixMillis
    end: UnixMillis
    after: UnixMillis


_decode_crons = msgspec.msgpack.Decoder(_CronCursor).decode
_decode_runs = msgspec.msgpack.Decoder(_RunCursor).decode


class CronsAsked(NamedTuple):
    """Crons behind `after` (None: from the first on), and how many at most."""

    after: CronId | None
    limit: int


class RunsAsked(NamedTuple):
    """Runs with start <= nominal instant < end, from `begin` on, and how many at most."""

    start: UnixMillis
    end: UnixMillis
    begin: UnixMillis
    limit: int


def read_cron_listing(client_id: ClientId, query: Mapping[str, str]) -> CronsAsked:
    """Raises Invalid."""
    faults: list[FieldError] = []
    limit = _CRON_LIMIT.of(query, faults) or DEFAULT_LIMIT
    after = None
    if "cursor" in query:
        try:
            cursor = unseal(client_id, query["cursor"], decode=_decode_crons)
            if cursor.version != _VERSION:
                raise no_cursor()
            after = cursor.after
        except Invalid as invalid:
            faults += invalid.errors
    if faults:
        raise Invalid(faults)
    return CronsAsked(after, limit)


def cron_cursor(client_id: ClientId, after: CronId | None) -> str | None:
    return None if after is None else seal(client_id, _CronCursor(_VERSION, after))


def read_run_listing(client_id: ClientId, cron_id: CronId, query: Mapping[str, str], *, now: int) -> RunsAsked:
    """`from` is included and defaults to a day ago; `to` is excluded and defaults to a day after now or, if that is
    later, after `from`, within the longest span. A cursor carries the listing that it came from. Raises Invalid.
    """
    faults: list[FieldError] = []
    limit = _RUN_LIMIT.of(query, faults) or DEFAULT_LIMIT
    start, end = _FROM.of(query, faults), _TO.of(query, faults)
    if "cursor" in query:
        try:
            cursor = unseal(client_id, query["cursor"], decode=_decode_runs)
            if cursor.version != _VERSION or cursor.cron_id != cron_id:
                raise no_cursor()
            # A day more, for clocks differ: another process may have made it.
            bounded = cursor.end <= now + SEARCHED_MS + DAY_MS and cursor.start - 1 <= cursor.after < cursor.end
            if not bounded or not is_window(cursor.start, cursor.end, longest_ms=MAX_SPAN_MS):
                raise no_cursor()
        except Invalid as invalid:
            raise Invalid([*faults, *invalid.errors]) from None
        faults += disagreeing((("from", start, cursor.start), ("to", end, cursor.end)))
        if faults:
            raise Invalid(faults)
        return RunsAsked(cursor.start, cursor.end, UnixMillis(cursor.after + 1), limit)
    first = UnixMillis(max(now - DAY_MS, 0)) if start is None else start
    last = UnixMillis(min(max(first, now) + DAY_MS, first + MAX_SPAN_MS)) if end is None else end
    if not faults and not first < last:
        faults.append(FieldError("/to", "must be after from"))
    elif not faults and last - first > MAX_SPAN_MS:
        faults.append(FieldError("/to", f"is more than {MAX_DAYS} days after from; list one month at a time"))
    elif not faults and last > now + SEARCHED_MS:
        faults.append(FieldError("/to", "is more than five years ahead"))
    if faults:
        raise Invalid(faults)
    return RunsAsked(first, last, first, limit)


def run_cursor(client_id: ClientId, cron_id: CronId, asked: RunsAsked, after: UnixMillis | None) -> str | None:
    if after is None:
        return None
    return seal(client_id, _RunCursor(_VERSION, cron_id, asked.start, asked.end, after))
