"""`archive`: rows of whole past days into Parquet, once for each client and day.

    which days -> how far pollers are settled -> this run takes the clients -> day by day:
        rows -> DIR/_staging/RUN -> read back: nothing open, as many as were read -> renamed -> marked

A day is archived when every poller of its client was settled past its end *before* its rows were read, and none of them
is open. A mark in `archived_days` is written last, and only by the run that still holds the client; retention, where it
waits for archives, relies on marks alone. So an interrupted run leaves archived days, folders without a mark, which the
next run replaces, and staged folders, which it deletes.

Of two concurrent runs the later one takes over every client that it archives, and the earlier one stops at its next
folder, after moving back what it had renamed without a mark.

An archived day is stale when something in it ended again (an explicit redelivery). Retention notes that, and the next
run archives the day again, merging rows that retention has deleted since from the previous archive.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import Observation
from pyspark.sql import functions as F

from scheduler_service.domain.archives import ArchivedDay
from scheduler_service.domain.ids import DAY_MS, ClientId, UnixMillis
from scheduler_service.runtime.randomness import SystemRandomness
from spark.io.archive import STAGING
from spark.io.files import Files
from spark.io.marks import Marks, open_marks
from spark.io.members import pollers
from spark.jobs.archive_days import Plan, Wanted, as_of, by_day, first_day, past_retention, plan
from spark.jobs.archive_folders import Folders, sweep_up
from spark.jobs.clients import KnownClient, known_clients
from spark.jobs.job import Context, Job, JobRefused, Report
from spark.transforms.archive import READS, archived, is_open
from spark.window import HOUR, Window, add_clients, day

MAX_ARCHIVED_DAYS = 400

SO_FAR = "_so_far"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--output", required=True, metavar="DIR", help="the archive: a path, or a URL for Hadoop")
    parser.add_argument(
        "--from",
        dest="start",
        type=day,
        metavar="DAY",
        help=f"first day; without it: all, up to {MAX_ARCHIVED_DAYS} days back",
    )
    parser.add_argument("--to", dest="end", type=day, metavar="DAY", help="end, exclusive; without it: today")
    parser.add_argument("--again", action="store_true", help="look through days that are archived, too")
    parser.add_argument(
        "--so-far", action="store_true", help="also write what has ended today, as a snapshot beside the archive"
    )
    add_clients(parser)


def run(context: Context, arguments: Namespace) -> Report:
    files = Files(context.session, arguments.output)
    chosen = {one.client_id: one for one in known_clients(context, arguments.clients)}
    if built_in := [name for name in chosen if name.startswith("$")]:
        raise JobRefused(f"{', '.join(built_in)}: built-in clients are not archived")
    start, end = _span(arguments, context.now, chosen.values())
    report = _archive(context, files, chosen, start, end, again=arguments.again)
    if arguments.so_far:
        report["so_far"] = write_so_far(context, files, list(chosen), run=str(SystemRandomness().uuid4()))
    return report


def _archive(
    context: Context, files: Files, chosen: Mapping[str, KnownClient], start: datetime, end: datetime, *, again: bool
) -> Report:
    with open_marks(context.storage, SystemRandomness().uuid4()) as marks:
        if start >= end or not chosen:
            return _report(Plan(), [], files.root)
        archive = _Archive(context, files, marks, chosen, again=again)
        wanted = archive.plan(start, end)
        if not wanted.wanted:
            return _report(wanted, [], files.root)
        owned = sorted({one.client_id for one in wanted.wanted})
        files.make(f"{files.root}/{STAGING}")
        left = files.list(f"{files.root}/{STAGING}")
        marks.take(owned)
        try:
            every = [one.client_id for one in known_clients(context, [])]
            sweep_up(files, [one.name for one in left], owned=owned, alive=marks.runs(every), say=context.say)
            wanted = archive.plan(start, end)
            done = archive.write([one for one in wanted.wanted if one.client_id in owned])
        finally:
            marks.release(owned)
    return _report(wanted, done, files.root)


def render(report: Report) -> Sequence[str]:
    lines = [
        f"{one['day']}  {one['clients']:>6,} clients  {one['rows']:>12,} rows"
        + "".join(f", {one[name]:,} {why}" for name, why in _NOT_YET.items() if one[name])
        for one in report["days"]
    ]
    reasons = {
        "already_archived": "archived by an earlier run",
        "unsettled": "not yet: some poller is still to settle them",
        "past_retention": "past their client's retention: whole if nodes wait (node.retention_waits_for_archive)",
    }
    lines += [f"{report[name]:,} days of clients {why}" for name, why in reasons.items() if report[name]]
    lines += [
        f"{one} is the archive of days that are to be archived again: run it there" for one in report["elsewhere"]
    ]
    lines.append(f"{report['archived']:,} days of clients archived, {report['rows']:,} rows, in {report['place']}")
    if report["so_far"] is not None:
        lines.append(f"{report['so_far']:,} rows that have ended today, in {report['place']}/{SO_FAR}")
    return lines


_NOT_YET = {"open": "not yet: something in them is open", "fresh": "not yet: something in them has just ended"}


class _Archive:
    """One run."""

    def __init__(
        self, context: Context, files: Files, marks: Marks, chosen: Mapping[str, KnownClient], *, again: bool
    ) -> None:
        self._context = context
        self._files = files
        self._marks = marks
        self._chosen = chosen
        self._again = again
        self._now_ms = round(context.now.timestamp() * 1000)

    def plan(self, start: datetime, end: datetime) -> Plan:
        first, last = _ms(start), _ms(end)
        names = list(self._chosen)
        return plan(
            self._chosen.values(),
            self._marks.read(names, first=first, last=last),
            pollers(self._context.session, self._context.tables, names),
            start=first,
            end=last,
            now_ms=self._now_ms,
            place=self._files.root,
            again=self._again,
        )

    def write(self, wanted: Sequence[Wanted]) -> list[Report]:
        """Archive day by day; answers the results."""
        if not wanted:
            return []
        busy = self._busy(wanted)
        folders = Folders(self._context, self._files, self._marks, as_of=as_of(self._now_ms), late=self._late)
        empty = [one for one in wanted if (one.client_id, one.at) not in busy]
        self._marks.mark_all([self._without_rows(one) for one in empty])
        done: dict[int, Report] = {}
        for one in empty:
            _day(done, one.at)["clients"] += 1
        for at, some in by_day(one for one in wanted if (one.client_id, one.at) in busy).items():
            sizes = {one.client_id: busy[one.client_id, at] for one in some}
            found = folders.write(at, some, sizes)
            report = _day(done, at)
            for name, count in found.items():
                report[name] += count
            self._context.say(f"archive: {report['day']}: {found['rows']:,} rows of {found['clients']:,} clients")
        for one in wanted:
            _day(done, one.at)["past_retention"] += self._late(one)
        return [done[at] for at in sorted(done)]

    def _busy(self, wanted: Sequence[Wanted]) -> dict[tuple[str, int], int]:
        """The days that have rows, with the number of partitions."""
        at = [one.at for one in wanted]
        window = Window(_instant(min(at)), _instant(max(at) + DAY_MS))
        occupied = self._context.tables.occupied(sorted({one.client_id for one in wanted}), window)
        days = occupied.selectExpr("client_id", "unix_millis(date_trunc('day', minute)) AS at")
        return {(row.client_id, row.at): row["count"] for row in days.groupBy("client_id", "at").count().collect()}

    def _without_rows(self, one: Wanted) -> ArchivedDay:
        """The mark of a day without rows. Rows archived earlier stay in the archive: retention has deleted them from
        the table."""
        before = one.before
        return ArchivedDay(
            client_id=ClientId(one.client_id),
            day=UnixMillis(one.at),
            as_of=UnixMillis(as_of(self._now_ms)),
            rows=before.rows if before is not None else 0,
            digest=before.digest if before is not None else "0",
            place=before.place if before is not None else self._files.root,
            past_retention=before.past_retention if before is not None else self._late(one),
        )

    def _late(self, one: Wanted) -> bool:
        return past_retention(self._chosen[one.client_id], one.at, now_ms=self._now_ms)


def _span(arguments: Namespace, now: datetime, chosen: Iterable[KnownClient]) -> tuple[datetime, datetime]:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    end: datetime = today if arguments.end is None else arguments.end
    start: datetime | None = arguments.start
    if end > today:
        raise JobRefused(f"days are archived when they are over; today is {today:%Y-%m-%d}")
    if start is None:
        oldest = min((first_day(one) for one in chosen), default=_ms(end))
        return max(_instant(oldest), end - timedelta(days=MAX_ARCHIVED_DAYS)), end
    if start >= end:
        raise JobRefused("--to must be after --from, and days are archived when they are over")
    if end - start > timedelta(days=MAX_ARCHIVED_DAYS):
        raise JobRefused(f"that is more than {MAX_ARCHIVED_DAYS} days; archive a year at a time")
    return start, end


def _report(plan: Plan, done: Sequence[Report], place: str) -> Report:
    def total(name: str) -> int:
        return sum(one[name] for one in done)

    return {
        "place": place,
        "days": list(done),
        "archived": total("clients"),
        "rows": total("rows"),
        "not_yet": total("open") + total("fresh") + len(plan.unsettled),
        "unsettled": len(plan.unsettled),
        "already_archived": plan.archived,
        "past_retention": total("past_retention"),
        "elsewhere": sorted({one.place for one in plan.elsewhere}),
        "so_far": None,
    }


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def _instant(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def write_so_far(context: Context, files: Files, clients: Sequence[str], *, run: str) -> int:
    """Write what has ended today as a snapshot beside the archive, for readers who can't wait for the end of the day;
    answers its number of rows. Raises JobRefused.

        DIR/_so_far/client_id=shop/*.parquet

    Each run replaces all of it. It is no archive: the day is not marked, retention waits for it as before, and the run
    that archives the day reads its rows again.
    """
    start = context.now.replace(hour=0, minute=0, second=0, microsecond=0)
    until = context.now.replace(minute=0, second=0, microsecond=0) + HOUR
    window = Window(start, min(until, start + timedelta(days=1)))
    ended = archived(context.tables.rows(clients, window, READS)).where(~is_open())
    seen = Observation()
    staged, target = f"{files.root}/{STAGING}/{run}-so-far", f"{files.root}/{SO_FAR}"
    observed = ended.drop("day").observe(seen, F.count(F.lit(1)).alias("rows"))
    observed.repartition("client_id").write.partitionBy("client_id").parquet(staged)
    files.delete(target)
    files.move(staged, target)
    return int(seen.get["rows"])


JOB = Job(
    name="archive",
    summary="Write the schedules of past days to Parquet, before retention deletes them.",
    add_arguments=add_arguments,
    run=run,
    render=render,
)


def _day(done: dict[int, Report], at: int) -> Report:
    names = ("clients", "rows", "open", "fresh", "past_retention")
    return done.setdefault(at, {"day": f"{_instant(at):%Y-%m-%d}", **dict.fromkeys(names, 0)})
