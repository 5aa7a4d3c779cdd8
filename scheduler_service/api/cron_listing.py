"""What the listings of crons and of their runs take as query parameters, and the cursors that they go on with."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler_service.api.http.paging import Cursor, Listing, WindowCursor, WindowListing, seal
from scheduler_service.domain.crons import SEARCHED_MS
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import DAY_MS, ClientId, CronId, UnixMillis

MAX_CRONS = 200
"""Each is read with its body, and its next fires are worked out."""
MAX_RUNS = 500
"""Each run of a page is a read of its own."""
MAX_DAYS = 31


class _CronCursor(Cursor, frozen=True, tag="crons-1"):
    after: CronId


class RunCursor(WindowCursor, frozen=True, tag="runs-1"):
    cron_id: CronId
    after: UnixMillis


def _runs_left_out(start: UnixMillis | None, end: UnixMillis | None, now: int) -> tuple[int, int]:
    first = max(now - DAY_MS, 0) if start is None else start
    return first, min(max(first, now) + DAY_MS, first + MAX_DAYS * DAY_MS) if end is None else end


_CRONS: Final = Listing(_CronCursor, most=MAX_CRONS)
_RUNS: Final = WindowListing(
    RunCursor,
    start="The first nominal instant to list. Left out: a day ago.",
    end=f"The first nominal instant not to list, at most {MAX_DAYS} days after `from` and five years ahead. Left out: "
    "a day after now or, if that is later, after `from`.",
    left_out=_runs_left_out,
    longest_days=MAX_DAYS,
    most=MAX_RUNS,
)
CRON_PARAMETERS: Final = _CRONS.parameters
RUN_PARAMETERS: Final = _RUNS.parameters


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
    cursor, limit = _CRONS.read(client_id, query)
    return CronsAsked(None if cursor is None else cursor.after, limit)


def cron_cursor(client_id: ClientId, after: CronId | None) -> str | None:
    return None if after is None else seal(client_id, _CronCursor(after))


def read_run_listing(client_id: ClientId, cron_id: CronId, query: Mapping[str, str], *, now: int) -> RunsAsked:
    """Raises Invalid."""

    def fits(cursor: RunCursor) -> bool:
        # A day more, for clocks differ: another process may have made it.
        searched = cursor.end <= now + SEARCHED_MS + DAY_MS
        return searched and cursor.cron_id == cron_id and cursor.start - 1 <= cursor.after < cursor.end

    asked = _RUNS.read(client_id, query, now=now, fits=fits)
    if asked.cursor is not None:
        return RunsAsked(asked.start, asked.end, UnixMillis(asked.cursor.after + 1), asked.limit)
    if asked.end > now + SEARCHED_MS:
        raise Invalid([FieldError("/to", "is more than five years ahead")])
    return RunsAsked(asked.start, asked.end, asked.start, asked.limit)


def run_cursor(client_id: ClientId, cron_id: CronId, asked: RunsAsked, after: UnixMillis | None) -> str | None:
    if after is None:
        return None
    return seal(client_id, RunCursor(asked.start, asked.end, cron_id, after))
