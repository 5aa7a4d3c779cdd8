"""`usage`: counts what each client used on each day, into `usage_by_day`.

    which days -> how far pollers are settled -> which partitions have rows -> the rows, day by day
               -> one row for each client and day

A day is counted again in each run until it is complete: every poller was settled past its end *before* its rows were
read, and none of them is open. Without explicit days the job takes those that are not complete, from the oldest that
retention has left whole up to today; so it may run every hour, and a missed run is made up for.

A client's day is one row and one write, which replaces all of it; so an interrupted run has written whole days only,
and the next one counts the others. Days past their client's retention keep their count, because rows may be missing. So
does a day of which more was counted before.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from scheduler_service.domain.usage import Used
from spark.io.members import pollers
from spark.jobs.clients import KnownClient, known_clients, settled_before
from spark.jobs.job import Context, Job, JobRefused, Report
from spark.transforms.usage import READS, days, failing_hosts, growing, usage, used
from spark.window import Window, add_clients, day

MAX_COUNTED_DAYS = 366

_TABLE = "usage_by_day"
_COUNTS = tuple(name for name in Used.__struct_fields__ if not name.startswith("lateness"))
_ROWS = (
    "client_id string, due timestamp, kind string, created_at timestamp, state string, attempts int, "
    "first_attempt_at timestamp, url string, body binary"
)

DAY_SECONDS = 86_400
RETENTION_MARGIN = 3_600
"""Seconds by which a day must be within its client's retention, because reading it takes time."""


class Day(NamedTuple):
    """A day of one client. `at`: its beginning, Unix seconds."""

    client_id: str
    at: int


class Stored(NamedTuple):
    complete: bool
    accepted: int


@dataclass(slots=True)
class Plan:
    """The days to count, and how many are left out for which reason."""

    wanted: list[Day]
    complete: int = 0
    expired: int = 0


def oldest_whole_day(client: KnownClient, now: datetime) -> int:
    """The first day that retention has left whole and will not touch while it is read; Unix seconds."""
    left = seconds(now) + RETENTION_MARGIN - client.retention_days * DAY_SECONDS
    return -(-left // DAY_SECONDS) * DAY_SECONDS


def choose(
    plan: Plan,
    client: KnownClient,
    span: Window,
    *,
    kept: int,
    stored: Mapping[Day, Stored],
    busy: set[Day],
    explicit: bool,
    again: bool,
) -> None:
    """Add the days of one client that have to be counted."""
    for at in range(seconds(span.start), seconds(span.end), DAY_SECONDS):
        one = Day(client.client_id, at)
        known = stored.get(one)
        if known is not None and known.complete and not again:
            plan.complete += 1
        elif at < kept:
            plan.expired += explicit
        elif one in busy or known is not None or at + DAY_SECONDS > client.created:
            plan.wanted.append(one)


def pieces(wanted: Iterable[Day], busy: set[Day]) -> list[list[Day]]:
    """The days that are counted together: all without rows, then each other day by itself."""
    idle: list[Day] = []
    by_day: dict[int, list[Day]] = {}
    for one in wanted:
        (by_day.setdefault(one.at, []) if one in busy else idle).append(one)
    return [some for some in (idle, *(by_day[at] for at in sorted(by_day))) if some]


def seconds(instant: datetime) -> int:
    """Unix seconds."""
    return int(instant.timestamp())


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--from", dest="start", type=day, metavar="DAY", help="first day, such as 2026-11-21")
    parser.add_argument("--to", dest="end", type=day, metavar="DAY", help="end, exclusive; without it: tomorrow")
    parser.add_argument("--again", action="store_true", help="count days that are complete, too")
    add_clients(parser)


def run(context: Context, arguments: Namespace) -> Report:
    start, end = _span(arguments, context.now)
    chosen = known_clients(context, arguments.clients)
    kept = {one.client_id: oldest_whole_day(one, context.now) for one in chosen}
    first = seconds(start) if start is not None else min(kept.values(), default=seconds(end))
    if not chosen or first >= seconds(end):
        return _report(context, Plan([]), [], 0)
    span = Window(datetime.fromtimestamp(first, UTC), end)
    names = [one.client_id for one in chosen]
    stored = _stored(context, names, span)
    how_far = pollers(context.session, context.tables, names)
    busy = _busy(context, names, span)
    plan = Plan([])
    for one in chosen:
        choose(plan, one, span, kept=kept[one.client_id], stored=stored, busy=busy, explicit=start is not None,
                again=arguments.again)  # fmt: skip
    if start is not None and chosen and not plan.wanted and not plan.complete:
        raise JobRefused("every day that was asked for is past its client's retention; it stays as it was counted")
    settled = {one.client_id: settled_before(one, how_far.get(one.client_id)) for one in chosen}
    counted, written = [], 0
    for some in pieces(plan.wanted, busy):
        rows = _rows(context, some) if some[0] in busy else context.session.createDataFrame([], _ROWS)
        summary, several = _count(context, rows, some, settled=settled, stored=stored)
        written += several
        counted += summary
    return _report(context, plan, counted, len(plan.wanted) - written)


def render(report: Report) -> Sequence[str]:
    head = ("DAY", "CLIENTS", "COMPLETE", *map(str.upper, _COUNTS))
    lines = [head, *((one["day"], *(f"{one[name]:,}" for name in ("clients", "complete", *_COUNTS)))
                     for one in report["days"])]  # fmt: skip
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    shown = ["  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines]
    reasons = {
        "already_complete": "complete since an earlier run",
        "past_retention": "past their client's retention",
        "kept": "left as they were: more was counted before",
    }
    return [*shown, *(f"{report[name]:,} days of clients {why}" for name, why in reasons.items() if report[name])]


def _span(arguments: Namespace, now: datetime) -> tuple[datetime | None, datetime]:
    start: datetime | None = arguments.start
    end: datetime | None = arguments.end
    tomorrow = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    if start is None:
        if end is not None or arguments.again:
            raise JobRefused("--to and --again need --from: name the days that are to be counted")
        return None, tomorrow
    end = tomorrow if end is None else end
    if end > tomorrow:
        raise JobRefused(f"days are counted up to today, {now:%Y-%m-%d}; the last one asked for is still to come")
    if start >= end:
        raise JobRefused("--to must be after --from, and days are counted up to today")
    if end - start > timedelta(days=MAX_COUNTED_DAYS):
        raise JobRefused(f"that is more than {MAX_COUNTED_DAYS} days; ask for a year at a time")
    return start, end


def _stored(context: Context, clients: Sequence[str], span: Window) -> Mapping[Day, Stored]:
    months = sorted({hour.replace(day=1, hour=0) for hour in span.hours()})
    keys = [(client, seconds(month)) for client in clients for month in months]
    frame = context.session.createDataFrame(keys, "client_id string, at long")
    rows = context.tables.by_key(
        frame.select("client_id", F.timestamp_seconds("at").alias("month")), _TABLE, ("day", "complete", "accepted")
    )
    found = rows.select("client_id", F.unix_seconds("day"), "complete", "accepted").collect()
    return {Day(client, at): Stored(bool(complete), accepted or 0) for client, at, complete, accepted in found}


def _busy(context: Context, clients: Sequence[str], span: Window) -> set[Day]:
    """The days that have rows."""
    occupied = context.tables.occupied(clients, span)
    found = occupied.select("client_id", F.unix_seconds(F.date_trunc("day", "minute")).alias("at")).distinct()
    return {Day(*row) for row in found.collect()}


def _rows(context: Context, some: Sequence[Day]) -> DataFrame:
    return context.tables.rows([one.client_id for one in some], Window.of_day(some[0].at), READS)


def _count(
    context: Context,
    rows: DataFrame,
    some: Sequence[Day],
    *,
    settled: Mapping[str, int],
    stored: Mapping[Day, Stored],
) -> tuple[list[Report], int]:
    """Count and write; answers the sums of each day, and how many rows were written."""
    session = context.session
    asked = session.createDataFrame(
        [(one.client_id, one.at, settled[one.client_id] >= one.at + DAY_SECONDS) for one in some],
        "client_id string, at long, settled boolean",
    ).select("client_id", F.timestamp_seconds("at").alias("day"), "settled")
    before = session.createDataFrame(
        [(*one, stored[one].accepted) for one in some if one in stored], "client_id string, at long, accepted long"
    ).select("client_id", F.timestamp_seconds("at").alias("day"), "accepted")
    each = used(rows).persist(StorageLevel.MEMORY_AND_DISK)
    at = F.timestamp_millis(F.lit(round(context.now.timestamp() * 1000)))
    counted = growing(days(asked, usage(each), failing_hosts(each), counted_at=at), before).persist()
    try:
        context.tables.append(counted, _TABLE)
        summed = counted.groupBy(F.date_format("day", "yyyy-MM-dd").alias("day")).agg(
            F.count(F.lit(1)).alias("clients"),
            F.count(F.when(F.col("complete"), 1)).alias("complete"),
            *(F.sum(name).alias(name) for name in _COUNTS),
        )
        summary = [row.asDict() for row in summed.collect()]
    finally:
        counted.unpersist()
        each.unpersist()
    for one in summary:
        context.say(f"usage: {one['day']}: {one['accepted']:,} schedules of {one['clients']:,} clients")
    return summary, sum(one["clients"] for one in summary)


def _report(context: Context, plan: Plan, counted: Iterable[Report], kept: int) -> Report:
    by_day: dict[str, Report] = {}
    for one in counted:
        known = by_day.setdefault(one["day"], {"day": one["day"]})
        for name in ("clients", "complete", *_COUNTS):
            known[name] = known.get(name, 0) + one[name]
    return {
        "counted_at": context.now.isoformat(),
        "days": [by_day[name] for name in sorted(by_day)],
        "already_complete": plan.complete,
        "past_retention": plan.expired,
        "kept": kept,
    }


JOB = Job(
    name="usage",
    summary="Count what each client used, by hour and by day.",
    add_arguments=add_arguments,
    run=run,
    render=render,
)
