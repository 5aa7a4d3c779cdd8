"""`capacity`: scheduled calls, against what pollers are guaranteed and what the nodes can send. Reads only.

    partitions that have rows -> calls of each poller's minute -> each client's figures, hottest minutes, sum of all

The window reaches into past and future: rows of the future exist already, so tomorrow's load is known as far as
schedules are created and crons are expanded. Deleted clients are left out, and so are Minutehand's own, whose rows are
no calls. `transforms.load` explains the figures.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE, ClientState
from spark.io.charts import Chart, draw
from spark.io.members import capacity_per_minute
from spark.jobs.clients import known_clients
from spark.jobs.job import Context, Job, JobRefused, Report
from spark.transforms.load import READS, hottest, loads, minutes, poller_minutes, totals
from spark.window import HOUR, Window, add_clients, hour

BEHIND_HOURS = 24
AHEAD_HOURS = 24
MAX_DAYS = 31
CHARTED = 10
"""Clients that get a chart: those with the fullest minutes."""

_FIGURES = ("calls", "poller_max", "poller_p99", "minute_max", "minute_p99", "recommended")
_HEAD = (
    *("CLIENT", "QUOTA", "CALLS", "Poller MAX", "Poller P99", "Poller MEAN", "MINUTE MAX", "MINUTE P99", "SKEW"),
    *("RECOMMENDED",),
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--from", dest="start", type=hour, metavar="HOUR", help=f"first hour; without it: {BEHIND_HOURS} hours ago"
    )
    parser.add_argument("--to", dest="end", type=hour, metavar="HOUR", help="end, exclusive; or say --ahead")
    parser.add_argument(
        "--ahead", type=_hours, metavar="HOURS", help=f"how far to look ahead; without it: {AHEAD_HOURS} hours"
    )
    parser.add_argument("--charts", type=Path, metavar="DIR", help="write charts there, as PNG")
    add_clients(parser)


def run(context: Context, arguments: Namespace) -> Report:
    window = _window(arguments, context.now)
    directory: Path | None = arguments.charts
    if directory is not None and directory.exists() and not directory.is_dir():
        raise JobRefused(f"--charts: {directory} is no directory")
    chosen = [one for one in known_clients(context, arguments.clients) if one.state != ClientState.DELETED]
    if not chosen:
        raise JobRefused("there are no clients to look at")
    quotas = context.session.createDataFrame(
        [(one.client_id, one.poller_quota) for one in chosen], "client_id string, quota int"
    )
    pollers = poller_minutes(context.tables.rows([one.client_id for one in chosen], window, READS))
    pollers.persist(StorageLevel.MEMORY_AND_DISK)
    each = minutes(pollers).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        now = F.timestamp_seconds(F.lit(int(context.now.timestamp())))
        figures = [row.asDict() for row in loads(quotas, pollers, each).orderBy("client_id").collect()]
        hot = _read(hottest(each, now=now), "client_id", "ahead", "poller_calls")
        sums = _read(totals(each))
        capacity = capacity_per_minute(context.session, context.tables, now=context.now)
        charts: list[str] = []
        if directory is not None:
            charted = sorted((one for one in figures if one["calls"]), key=lambda one: -one["minute_max"])[:CHARTED]
            of_clients = _read(each.where(F.col("client_id").isin([one["client_id"] for one in charted])), "client_id")
            charts = _draw(
                directory,
                charted,
                of_clients,
                sums,
                title="These clients" if arguments.clients else "All clients",
                capacity=capacity,
                now=context.now,
            )
    finally:
        each.unpersist()
        pollers.unpersist()
    return {
        "from": window.start.isoformat(),
        "to": window.end.isoformat(),
        "clients": [{**one, "hottest": _hottest(hot, one["client_id"])} for one in figures],
        "total": {
            "clients": arguments.clients or None,
            **_total(figures, sums, capacity=capacity, now=context.now),
        },
        "charts": charts,
    }


def render(report: Report) -> Sequence[str]:
    lines: list[Sequence[str]] = [_HEAD]
    for one in report["clients"]:
        shown = [_number(one[name]) for name in _FIGURES[:3]]
        shown += [_number(one["poller_mean"], ".1f"), *(_number(one[name]) for name in _FIGURES[3:5])]
        lines.append(
            (one["client_id"], str(one["quota"]), *shown, _number(one["skew"], ".2f"), str(one["recommended"]))
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEAD))]
    table = [
        "  ".join(
            [line[0].ljust(widths[0]), *(text.rjust(wide) for text, wide in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    ]
    hot = [
        f"{one['client_id']}, hottest minutes {where}: "
        + ", ".join(f"{each['minute']} {each['calls']:,} (a poller {each['poller_calls']:,})" for each in found)
        for one in report["clients"]
        for where in ("behind", "ahead")
        if (found := one["hottest"][where])
    ]
    return [*table, *hot, *_said(report["total"]), *(f"chart: {name}" for name in report["charts"])]


JOB = Job(
    name="capacity",
    summary="Show the load of each client and of all, behind and ahead, and which quotas would do.",
    add_arguments=add_arguments,
    run=run,
    render=render,
)


def _window(arguments: Namespace, now: datetime) -> Window:
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    if arguments.end is not None and arguments.ahead is not None:
        raise JobRefused("--to and --ahead both say where to end; leave one out")
    start: datetime = this_hour - BEHIND_HOURS * HOUR if arguments.start is None else arguments.start
    end: datetime = this_hour + (AHEAD_HOURS if arguments.ahead is None else arguments.ahead) * HOUR + HOUR
    if arguments.end is not None:
        end = arguments.end
    if start >= end:
        raise JobRefused(f"the window ends at {end:%Y-%m-%dT%H:%MZ}, before it begins at {start:%Y-%m-%dT%H:%MZ}")
    if end - start > timedelta(days=MAX_DAYS):
        raise JobRefused(f"that is more than {MAX_DAYS} days; look at a month at a time")
    return Window(start, end)


def _hours(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise ArgumentTypeError(f"{text!r} is no number of hours")
    return int(text)


def _read(frame: DataFrame, *columns: str) -> list[Row]:
    """The frame's minutes, as `at` in Unix seconds, with calls and `columns`, by time."""
    return frame.select(F.unix_seconds("minute").alias("at"), "calls", *columns).orderBy("at").collect()


def _hottest(found: Iterable[Row], client_id: str) -> Report:
    own = sorted((one for one in found if one.client_id == client_id), key=lambda one: (-one.calls, one.at))
    return {
        where: [
            {"minute": _told(one.at), "calls": one.calls, "poller_calls": one.poller_calls}
            for one in own
            if one.ahead is ahead
        ]
        for where, ahead in (("behind", False), ("ahead", True))
    }


def _total(figures: Iterable[Mapping[str, Any]], sums: Sequence[Row], *, capacity: int, now: datetime) -> Report:
    present = int(now.timestamp()) // 60 * 60
    peaks = {
        where: max((one for one in sums if (one.at >= present) is ahead), key=lambda one: one.calls, default=None)
        for where, ahead in (("behind", False), ("ahead", True))
    }
    return {
        "capacity_per_minute": capacity,
        "guaranteed_per_minute": GUARANTEED_CALLS_PER_MINUTE * sum(one["quota"] for one in figures),
        "recommended_per_minute": GUARANTEED_CALLS_PER_MINUTE * sum(one["recommended"] for one in figures),
        **{
            where: None if peak is None else {"minute": _told(peak.at), "calls": peak.calls}
            for where, peak in peaks.items()
        },
    }


def _said(total: Report) -> list[str]:
    capacity = total["capacity_per_minute"]
    whose = "these clients" if total["clients"] else "all clients"
    lines = [
        f"{whose}, calls a minute: nodes {capacity:,}, guaranteed {total['guaranteed_per_minute']:,}, "
        f"guaranteed at the recommended quotas {total['recommended_per_minute']:,}"
    ]
    lines += [
        f"hottest minute {where}: {peak['minute']} {peak['calls']:,}{_against(peak['calls'], capacity)}"
        for where in ("behind", "ahead")
        if (peak := total[where]) is not None
    ]
    if capacity == 0:
        return [*lines, "no node is live"]
    beyond = [name for name in ("guaranteed", "recommended") if total[f"{name}_per_minute"] > capacity]
    return lines + [f"the nodes can't send what is {name}: more of them are needed, or larger ones" for name in beyond]


def _against(calls: int, capacity: int) -> str:
    if capacity == 0:
        return ""
    return f", {100 * calls / capacity:.1f} % of what the nodes can send"


def _draw(
    directory: Path,
    charted: Iterable[Mapping[str, Any]],
    of_clients: Sequence[Row],
    sums: Sequence[Row],
    *,
    title: str,
    capacity: int,
    now: datetime,
) -> list[str]:
    def chart(name: str, title: str, rows: Sequence[Row], lines: Sequence[tuple[str, int]]) -> Chart:
        at = [datetime.fromtimestamp(one.at, UTC).replace(tzinfo=None) for one in rows]
        return Chart(
            file_name=f"{name}.png",
            title=title,
            minutes=at,
            calls=[one.calls for one in rows],
            lines=lines,
            now=now.replace(tzinfo=None),
        )

    charts = [chart("all", title, sums, (("nodes can send", capacity),))]
    for one in charted:
        client_id, pollers = one["client_id"], (("guaranteed", one["quota"]), ("recommended", one["recommended"]))
        rows = [row for row in of_clients if row.client_id == client_id]
        lines = [(label, quota * GUARANTEED_CALLS_PER_MINUTE) for label, quota in pollers]
        charts.append(chart(f"client-{client_id}", client_id, rows, lines))
    try:
        return [str(path) for path in draw(charts, directory)]
    except ImportError as error:
        raise JobRefused("--charts needs matplotlib, which is not installed here") from error
    except OSError as error:
        raise JobRefused(f"--charts: {directory} can't be written: {error.strerror}") from error


def _told(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%MZ}"


def _number(value: float | None, form: str = ",") -> str:
    return "-" if value is None else format(value, form)
