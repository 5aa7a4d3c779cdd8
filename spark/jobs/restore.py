"""`restore`: reads archived days back, counts them, and may export them. Reads Parquet; from Cassandra only the marks.

    folders and their manifests -> what is missing or damaged -> the rows -> as many as were written? -> counts, export

The requested days are complete, or the job refuses and names what is not: a day without a folder that was not archived,
or that had rows; a folder that lacks a file or holds other rows than its manifest says. With --partial, the intact
folders are read.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from datetime import timedelta

from pyspark.sql import functions as F

from scheduler_service.domain.archives import ArchivedDay
from scheduler_service.domain.ids import DAY_MS
from scheduler_service.domain.schedules import State
from scheduler_service.runtime.randomness import SystemRandomness
from spark.io.archive import Manifest, Problem, damage, days_of, find, folder, read_folders
from spark.io.export import check_file, write_file
from spark.io.files import Files
from spark.io.marks import open_marks
from spark.jobs.archive_days import first_day
from spark.jobs.clients import KnownClient, known_clients
from spark.jobs.job import Context, Job, JobRefused, Report
from spark.transforms.archive import by_state, schedules
from spark.window import Window, add_clients, day

MAX_ARCHIVED_DAYS = 400
ORDER = ("client_id", "due", "schedule_id")
DAYS_SHOWN = 20
"""Days named in one sentence."""
_STATES = tuple(state.value for state in State if state.ended)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--input", required=True, metavar="DIR", help="the archive: a path, or a URL for Hadoop")
    parser.add_argument("--from", dest="start", type=day, required=True, metavar="DAY", help="first day")
    parser.add_argument("--to", dest="end", type=day, required=True, metavar="DAY", help="end, exclusive")
    parser.add_argument("--state", dest="states", action="append", default=[], choices=_STATES, help="only these")
    parser.add_argument("--output", metavar="FILE", help="export what was asked for to a .parquet, .csv or .jsonl file")
    parser.add_argument("--partial", action="store_true", help="read what is whole where something is missing or torn")
    add_clients(parser)


def run(context: Context, arguments: Namespace) -> Report:
    window = _window(arguments)
    if arguments.output is not None:
        check_file(context.session, arguments.output)
    files = Files(context.session, arguments.input)
    if not files.exists(files.root):
        raise JobRefused(f"there is no archive at {files.root}")
    clients = arguments.clients or None
    whole, problems = find(files, window, clients)
    present = {(one.day, one.client_id) for one in whole} | {(one.day, one.client_id) for one in problems}
    problems += _missing(context, window, clients, present, whole)
    problems += damage(context.session, files.root, _without(whole, problems))
    if problems and not arguments.partial:
        raise JobRefused(f"{_named(problems)}; --partial reads what is whole")
    good = _without(whole, problems)
    rows = schedules(read_folders(context.session, files.root, [folder(one.day, one.client_id) for one in good]))
    if arguments.states:
        rows = rows.where(F.col("state").isin(arguments.states))
    counted = [row.asDict() for row in by_state(rows).orderBy("day", "client_id", "state").collect()]
    if arguments.output is not None:
        write_file(rows.orderBy(*ORDER), arguments.output)
    return {
        "place": files.root,
        "from": f"{window.start:%Y-%m-%d}",
        "to": f"{window.end:%Y-%m-%d}",
        "counts": counted,
        "schedules": sum(one["rows"] for one in counted),
        "rows_verified": sum(one.rows for one in good),
        "folders": len(good),
        "problems": [{"day": one.day, "client_id": one.client_id, "why": one.why} for one in problems],
        "output": arguments.output,
    }


def render(report: Report) -> Sequence[str]:
    wide = max([6, *(len(one["client_id"]) for one in report["counts"])])
    lines = [
        f"{one['day']}  {one['client_id']:<{wide}}  {one['state'] or '-':<9}  {one['rows']:>12,}"
        for one in report["counts"]
    ]
    lines += [f"not read: {one['day']} of {one['client_id']}: {one['why']}" for one in report["problems"]]
    lines.append(
        f"{report['schedules']:,} schedules; all {report['rows_verified']:,} rows of {report['folders']:,} folders are "
        "those that were written"
    )
    return [*lines, *([f"exported to {report['output']}"] if report["output"] else [])]


JOB = Job(
    name="restore",
    summary="Read archived days back: count them by state, export them.",
    add_arguments=add_arguments,
    run=run,
    render=render,
)


def _window(arguments: Namespace) -> Window:
    if arguments.start >= arguments.end:
        raise JobRefused("--to must be after --from")
    if arguments.end - arguments.start > timedelta(days=MAX_ARCHIVED_DAYS):
        raise JobRefused(f"that is more than {MAX_ARCHIVED_DAYS} days; restore a year at a time")
    return Window(arguments.start, arguments.end)


def _missing(
    context: Context,
    window: Window,
    clients: Sequence[str] | None,
    present: set[tuple[str, str]],
    whole: Iterable[Manifest],
) -> list[Problem]:
    """The days without a folder that should or may have one, and folders that differ from their marks."""
    chosen = known_clients(context, clients or [])
    days = days_of(window)
    first = round(window.start.timestamp() * 1000)
    with open_marks(context.storage, SystemRandomness().uuid4()) as marks:
        read = marks.read([one.client_id for one in chosen], first=first, last=first + (len(days) - 1) * DAY_MS)
    marked: dict[tuple[str, str], ArchivedDay] = {
        (days[(one.day - first) // DAY_MS], one.client_id): one for one in read
    }
    found = []
    for number, name in enumerate(days):
        for client in chosen:
            if (name, client.client_id) in present:
                continue
            why = _why_missing(client, first + number * DAY_MS, marked.get((name, client.client_id)))
            if why is not None:
                found.append(Problem(day=name, client_id=client.client_id, why=why))
    for one in whole:
        mark = marked.get((one.day, one.client_id))
        if mark is not None and mark.rows and (mark.rows, mark.digest) != (one.rows, one.digest):
            found.append(Problem(day=one.day, client_id=one.client_id, why="another folder than was marked"))
    return found


def _without(whole: Iterable[Manifest], problems: Iterable[Problem]) -> list[Manifest]:
    bad = {(one.day, one.client_id) for one in problems}
    return [one for one in whole if (one.day, one.client_id) not in bad]


def _why_missing(client: KnownClient, at: int, mark: ArchivedDay | None) -> str | None:
    if mark is None:
        return "not archived" if at >= first_day(client) else None
    if mark.rows:
        return f"archived in {mark.place}, not here"
    return "past its client's retention when it was archived: nothing was left" if mark.past_retention else None


def _named(problems: Sequence[Problem]) -> str:
    named = "; ".join(f"{one.day} of {one.client_id}: {one.why}" for one in problems[:DAYS_SHOWN])
    return named + (f"; and {len(problems) - DAYS_SHOWN:,} more" if len(problems) > DAYS_SHOWN else "")
