"""`tz_audit`: which future calls move between two releases of the time zone database, and puts them where they belong.

It is no audit of the books: it compares two releases with each other, and with the crons and calls that are stored.

    two releases -> zones whose clocks differ, and when -> crons in these zones      -> their fires by either release
                                                        -> calls waiting in those hours that were asked for as local
                                                           times -> their instants by either release

Fires of crons are placed minutes ahead and each cron is expanded once a day at least, so new zone data reaches nearly
all of them by itself once nodes have it. `--apply` has those expanded again for which that would be too late: whose
fires are placed already, or that sleep beyond their next one. A call at a local time is stored with its instant; it is
rescheduled, as by its client: exactly one of the old and the new one is called. What was moved is not found again, so a
run that was cut short is repeated.
"""

import asyncio
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import msgspec
from pyspark.sql import DataFrame, Row
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from membership.errors import MinutehandError
from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.crons.expansion import LONGEST_SLEEP_MS, WINDOW_MS
from scheduler_service.domain.crons.row import CronOptions, CronState
from scheduler_service.domain.crons.zones import tzdata_version
from scheduler_service.domain.errors import InvalidRule
from scheduler_service.domain.ids import ClientId, CronId, UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.retry_rows import MARK_LOCAL_DUE
from scheduler_service.domain.schedules import State
from spark.io.export import check_file, check_form, write_file
from spark.io.zone_releases import INSTALLED, UNKNOWN, ZoneRelease, read_release
from spark.jobs.clients import known_clients
from spark.jobs.job import Context, Job, JobRefused, Report
from spark.jobs.tz_replace import Done, ReplaceLocalTimes, StoredCall
from spark.transforms.rows import in_state, is_accepted
from spark.transforms.zone_moves import CronRule, Differences, ZoneChange, call_move, cron_moves, differences, windows
from spark.window import add_clients

DAYS = 400
MAX_DAYS_AHEAD = 3_650
MOVES_SHOWN = 5
"""Moves that are shown for each client."""
MAX_APPLIED = 100_000
"""Calls and crons that one run puts right; others are found again by the next run."""

_RULES = ("cron_id", "expression", "timezone", "options", "state", "created_at", "expanded_through", "fires", "wake_at")
_OF_CRONS = (
    "client_id string, cron_id string, timezone string, moved long, lost long, gained long, first long, "
    "moves array<struct<old: long, new: long, local: string>>, fault string"
)
_OF_CALLS = (
    "client_id string, schedule_id string, timezone string, local string, standing string, asked long, new long, "
    "due long, new_due long"
)
_READS = ("kind", "created_at", "state", "nominal_due", "options")

_decode_options = msgspec.json.Decoder(CronOptions).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The input of every task. Instants are Unix milliseconds."""

    changed: Mapping[str, ZoneChange]
    now: int
    until: int


class CronPart(NamedTuple):
    """One cron whose fires move, or that can't be read (`fault`)."""

    client_id: str
    cron_id: str
    timezone: str
    moved: int
    lost: int
    gained: int
    first: int | None
    moves: Sequence[tuple[int | None, int | None, str]]
    fault: str | None


class CallPart(NamedTuple):
    """One call whose local time is at different instants."""

    client_id: str
    schedule_id: str
    timezone: str
    local: str
    standing: str
    asked: int
    new: int | None
    due: int
    new_due: int | None


def crons_part(work: Work, rows: Iterable[Row]) -> Iterator[CronPart]:
    """The crons that move, of those in zones that changed."""
    for row in rows:
        name = (row.client_id, row.cron_id, row.timezone)
        try:
            moves = cron_moves(rule_of(row), work.changed[row.timezone], now=work.now, until=work.until)
        except (InvalidRule, msgspec.DecodeError) as error:
            yield CronPart(*name, 0, 0, 0, None, [], str(error))
            continue
        if moves is not None:
            listed = [(move.old, move.new, move.local) for move in moves.listed]
            yield CronPart(*name, moves.moved, moves.lost, moves.gained, moves.first, listed, None)


def rule_of(row: Row) -> CronRule:
    """Raises msgspec.DecodeError."""
    return CronRule(
        client_id=ClientId(row.client_id),
        cron_id=CronId(row.cron_id),
        expression=row.expression,
        timezone=row.timezone,
        options=_decode_options(row.options or "{}"),
        created_at=UnixMillis(row.created_at or 0),
        expanded_through=UnixMillis(row.expanded_through),
        fires=row.fires or 0,
        wake_at=None if row.wake_at is None else UnixMillis(row.wake_at),
    )


def calls_part(work: Work, rows: Iterable[Row]) -> Iterator[CallPart]:
    """The calls whose local time is at another instant in the new release."""
    for row in rows:
        move = call_move(row.options, due=row.due, nominal_due=row.nominal_due, changed=work.changed)
        if move is not None:
            yield CallPart(
                row.client_id,
                row.schedule_id,
                move.timezone,
                move.local,
                move.standing,
                move.asked,
                move.new,
                row.due,
                move.due,
            )


def add_arguments(parser: ArgumentParser) -> None:
    where = f"a directory or wheel of tzdata, or `{INSTALLED}`"
    parser.add_argument("--old", required=True, metavar="PATH", help=f"the release that calls were placed by: {where}")
    parser.add_argument(
        "--new", default=INSTALLED, metavar="PATH", help=f"the release that is to hold: {where} (%(default)s)"
    )
    parser.add_argument(
        "--days", type=_days, default=DAYS, metavar="DAYS", help="how far ahead to look (%(default)s days)"
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write the moves there: .parquet, .csv or .jsonl; must not exist"
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="reschedule the calls, and have crons expanded again; without it: only tell",
    )
    add_clients(parser)


def releases(arguments: Namespace) -> tuple[ZoneRelease, ZoneRelease]:
    """The old and the new one. Raises JobRefused where one can't be read or named, where they are the same, or for
    --apply of a release that is not installed."""
    old, new = read_release(arguments.old), read_release(arguments.new)
    for option, where, release in (("--old", arguments.old, old), ("--new", arguments.new, new)):
        if release.version == UNKNOWN:
            raise JobRefused(
                f"{option}: {where} does not say which release it is: write its name, such as 2026a, into a file "
                "+VERSION beside its zones"
            )
    if old == new:
        raise JobRefused(f"--old and --new are the same release, {old.version}: no call moves between them")
    if arguments.apply and new.version != tzdata_version():
        raise JobRefused(
            f"--apply needs the new release where it is run and on all nodes and APIs, which expand crons by it: here "
            f"{tzdata_version()} is installed, and --new is {new.version}"
        )
    return old, new


def check(arguments: Namespace) -> None:
    """Raises JobRefused."""
    releases(arguments)
    if arguments.output is not None:
        check_form(arguments.output)


def run(context: Context, arguments: Namespace) -> Report:
    old, new = releases(arguments)
    if arguments.output is not None:
        check_file(context.session, arguments.output)
    now = int(context.now.timestamp())
    until = now + arguments.days * 86_400
    try:
        found = differences(old.zones, new.zones, first=now, end=until)
    except ValueError as error:
        raise JobRefused(str(error)) from error
    context.say(f"Clocks of {len(found.changed):,} zones differ between {old.version} and {new.version}.")
    chosen = [one for one in known_clients(context, arguments.clients) if one.state != ClientState.DELETED]
    work = Work(changed=found.changed, now=now * 1000, until=until * 1000)
    names = [one.client_id for one in chosen]
    crons, calls = _crons(context, work, names, found.gone).cache(), _calls(context, work, names).cache()
    try:
        if arguments.output is not None:
            write_file(_exported(crons, calls), arguments.output)
            context.say(f"The moves are in {arguments.output}.")
        report = _report(work, found, crons, calls, versions=(old.version, new.version))
        soon, wrong = _soon(work, crons), _stored(calls) if arguments.apply else []
        done = asyncio.run(_carry_out(context, work, new.version, soon, wrong, apply=arguments.apply))
    except MinutehandError as error:
        raise JobRefused(f"storage did not answer: {error}; what was moved stays so, run it again") from error
    finally:
        crons.unpersist()
        calls.unpersist()
    return report | {"expand_again": done.late, "applied": done.counts() if arguments.apply else None}


def render(report: Report) -> Sequence[str]:
    lines = [f"From {report['old']} to {report['new']}, {report['from']} to {report['to']}"]
    lines += [f"  {one['zone']}: clocks differ from {one['from']} to {one['to']}" for one in report["zones"]]
    lines += [f"  {name}: the new release does not have this zone" for name in report["gone"]]
    for client in report["clients"]:
        lines.append(f"{client['client_id']}: {_counted(client)}")
        lines += [f"  {_shown(one)}" for one in client["shown"]]
    if not report["clients"]:
        lines.append("No call moves.")
    if report["expand_again"]:
        lines.append(
            f"{report['expand_again']:,} crons would be late: nodes have placed their fires, or sleep past them"
        )
    if report["applied"] is not None:
        told = [f"{count:,} {name}" for name, count in report["applied"].items() if count]
        lines.append(f"applied: {', '.join(told) or 'nothing was to be done'}")
    elif report["clients"]:
        lines.append("Nothing was changed. Once nodes and APIs have the new release, run this again with --apply.")
    return lines


JOB = Job(
    name="tz_audit",
    summary="Tell which future calls move between two releases of the time zone database, and move them.",
    add_arguments=add_arguments,
    run=run,
    check=check,
    render=render,
)


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= len(text) <= 4 and 1 <= int(text) <= MAX_DAYS_AHEAD):
        raise ArgumentTypeError(f"{text!r} is no number of days from 1 to {MAX_DAYS_AHEAD}")
    return int(text)


def _crons(context: Context, work: Work, clients: Sequence[str], gone: Sequence[str]) -> DataFrame:
    session = context.session
    if not clients or not (work.changed or gone):
        return session.createDataFrame([], _OF_CRONS)
    names = session.createDataFrame([(name,) for name in clients], "client_id string")
    rows = context.tables.by_key(names, "crons", _RULES).where(F.col("state") == CronState.ACTIVE.value)
    told = rows.withColumns({name: F.unix_millis(name) for name in ("created_at", "expanded_through", "wake_at")})
    moving = told.where(F.col("timezone").isin(list(work.changed)))
    # A cron in a zone that is gone can't be expanded any more.
    fault = F.concat(F.lit("the new release has no zone "), F.col("timezone"))
    nothing = {name: F.lit(0).cast("long") for name in ("moved", "lost", "gained")}
    lost = told.where(F.col("timezone").isin(list(gone))).withColumns(nothing)
    orphans = lost.select("client_id", "cron_id", "timezone", *nothing, F.lit(None).cast("long").alias("first"),
                          F.array().cast("array<struct<old: long, new: long, local: string>>").alias("moves"),
                          fault.alias("fault"))  # fmt: skip
    found = session.createDataFrame(moving.rdd.mapPartitions(partial(crons_part, work)), _OF_CRONS)
    return found.union(orphans) if gone else found


def _calls(context: Context, work: Work, clients: Sequence[str]) -> DataFrame:
    session, found = context.session, context.session.createDataFrame([], _OF_CALLS)
    if not clients:
        return found
    for window in windows(span for change in work.changed.values() for span in change.spans):
        rows = context.tables.rows(clients, window, _READS)
        waiting = rows.where(
            is_accepted(F.col("kind"), F.col("created_at"))
            & in_state(F.col("state"), State.SCHEDULED)
            & F.col("options").contains(f'"{MARK_LOCAL_DUE}":')
        ).select(
            "client_id", "schedule_id", "options", *(F.unix_millis(name).alias(name) for name in ("due", "nominal_due"))
        )
        ahead = waiting.where(F.col("due") > work.now)
        found = found.union(session.createDataFrame(ahead.rdd.mapPartitions(partial(calls_part, work)), _OF_CALLS))
    return found


def _exported(crons: DataFrame, calls: DataFrame) -> DataFrame:
    """A row for each move: those of crons that are listed, and all calls."""
    each = crons.select("client_id", "cron_id", "timezone", F.explode("moves").alias("move"))
    standing = F.when(F.col("move.new").isNull(), "lost").when(F.col("move.old").isNull(), "gained").otherwise("moves")
    fires = each.select(
        "client_id", "cron_id", F.lit(None).cast("string").alias("schedule_id"), "timezone", "move.local",
        standing.alias("standing"), *(F.timestamp_millis(f"move.{name}").alias(name) for name in ("old", "new")),
    )  # fmt: skip
    single = calls.select(
        "client_id", F.lit(None).cast("string").alias("cron_id"), "schedule_id", "timezone", "local", "standing",
        F.timestamp_millis("asked").alias("old"), F.timestamp_millis("new").alias("new"),
    )  # fmt: skip
    return fires.union(single).orderBy("client_id", F.coalesce("old", "new"), "cron_id", "schedule_id")


def _report(work: Work, found: Differences, crons: DataFrame, calls: DataFrame, *, versions: tuple[str, str]) -> Report:
    of_crons = crons.groupBy("client_id").agg(
        F.count(F.when(F.col("fault").isNull(), 1)).alias("crons"),
        F.count("fault").alias("crons_unreadable"),
        *(F.sum(name).alias(f"fires_{name}") for name in ("moved", "lost", "gained")),
    )
    of_calls = calls.groupBy("client_id").agg(
        *(F.count(F.when(F.col("standing") == name, 1)).alias(f"calls_{name}")
          for name in ("moves", "lost", "there", "elsewhere"))
    )  # fmt: skip
    counted = {row.client_id: row.asDict() for row in of_crons.collect()}
    for row in of_calls.collect():
        counted.setdefault(row.client_id, {}).update(row.asDict())
    shown: dict[str, list[Report]] = {}
    order = Over.partitionBy("client_id").orderBy(F.coalesce("old", "new"), "cron_id", "schedule_id", "local")
    numbered = _exported(crons, calls).select("*", F.row_number().over(order).alias("number"))
    for row in numbered.where(F.col("number") <= MOVES_SHOWN).orderBy("client_id", "number").collect():
        told = {name: row[name] for name in ("cron_id", "schedule_id", "timezone", "local", "standing")}
        instants = {name: _instant(row[name]) for name in ("old", "new")}
        shown.setdefault(row.client_id, []).append(told | instants)
    for row in crons.where(F.col("fault").isNotNull()).orderBy("client_id", "cron_id").limit(1_000).collect():
        one = {"cron_id": row.cron_id, "schedule_id": None, "timezone": row.timezone, "local": None, "fault": row.fault}
        shown.setdefault(row.client_id, []).append({**one, "standing": "unreadable", "old": None, "new": None})
    figures = ("crons", "crons_unreadable", "fires_moved", "fires_lost", "fires_gained",
               "calls_moves", "calls_lost", "calls_there", "calls_elsewhere")  # fmt: skip
    return {
        "old": versions[0],
        "new": versions[1],
        "from": format_instant(work.now),
        "to": format_instant(work.until),
        "zones": [
            {"zone": name, "from": format_instant(first * 1000), "to": format_instant(end * 1000)}
            for name, change in found.changed.items()
            for first, end in change.spans
        ],
        "gone": list(found.gone),
        "clients": [
            {"client_id": name, **{figure: counted[name].get(figure, 0) for figure in figures},
             "shown": shown.get(name, [])}
            for name in sorted(counted)
        ],
    }  # fmt: skip


def _soon(work: Work, crons: DataFrame) -> list[tuple[ClientId, CronId]]:
    """The crons that move so soon that no expansion by the new release may come before."""
    soon = work.now + LONGEST_SLEEP_MS + 2 * WINDOW_MS
    found = crons.where(F.col("first") <= soon).orderBy("first").limit(MAX_APPLIED)
    return [(ClientId(client), CronId(cron)) for client, cron in found.select("client_id", "cron_id").collect()]


def _stored(calls: DataFrame) -> list[StoredCall]:
    columns = ("client_id", "schedule_id", "due", "asked", "new", "new_due")
    found = calls.where(F.col("standing") == "moves").orderBy("due").limit(MAX_APPLIED).select(*columns)
    return [StoredCall.of(*row) for row in found.collect()]


async def _carry_out(
    context: Context,
    work: Work,
    version: str,
    crons: Sequence[tuple[ClientId, CronId]],
    calls: Sequence[StoredCall],
    *,
    apply: bool,
) -> Done:
    if not crons and not calls:
        return Done()
    async with ReplaceLocalTimes.over(context, version=version) as replace:
        late = await replace.late_crons(crons, work.changed)
        if not apply:
            return Done(late=len(late))
        return Done(late=len(late), calls=await replace.calls(calls), crons=await replace.crons(late))


def _instant(at: datetime | None) -> str | None:
    if at is None:
        return None
    # Spark gives instants without a zone, in that of its session, which is UTC.
    return format_instant((at.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


def _counted(client: Mapping[str, Any]) -> str:
    words = {
        "crons": "crons move",
        "fires_moved": "fires at another instant",
        "fires_lost": "fires no more",
        "fires_gained": "fires new",
        "crons_unreadable": "crons can't be read",
        "calls_moves": "calls move",
        "calls_lost": "calls at a time that is skipped",
        "calls_there": "calls moved already",
        "calls_elsewhere": "calls placed by neither release",
    }
    return ", ".join(f"{client[name]:,} {word}" for name, word in words.items() if client[name])


def _shown(one: Mapping[str, Any]) -> str:
    what = f"cron {one['cron_id']}" if one["cron_id"] is not None else f"schedule {one['schedule_id']}"
    if one["standing"] == "unreadable":
        return f"{what}: {one['fault']}"
    old, new = one["old"] or "nothing", one["new"] or "nothing"
    note = {"there": " (moved already)", "elsewhere": " (placed by neither release)"}.get(one["standing"], "")
    return f"{what}, {one['local']} in {one['timezone']}: {old} -> {new}{note}"
