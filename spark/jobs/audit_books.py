"""Audit: prove a window's books from its raw rows, and report invariant violations (`transforms.findings`).

    clients, nodes, pollers -> how far each poller is settled
    occupied minutes -> rows -> counts, findings          first look
    what was found -> the same once more                  second look, a while later
    Parquet, repair, a report for each client, `books.unbalanced` for those with findings and a feed

Live traffic is never a finding. Rows change while they are read, so a row is judged only where its minute was settled
before the reading began: owners are done there, and other writers (a late create, a redelivery, a cancel) write pointer
and retry row within moments of each other. Therefore every finding is checked once more, `--again-after` seconds later,
partition by partition as the first time, and what is not found twice is not reported."""

import asyncio
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from pyspark.sql import DataFrame, Row
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from cql.storage import Storage, open_storage
from membership.errors import MinutehandError
from scheduler_service.domain.audits import SHOWN, Audit, AuditCounts, AuditFinding, AuditId, new_audit_id, together
from scheduler_service.domain.ids import ClientId, Partition, PollerId, RowKey, ScheduleId, UnixMillis, minute_of
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.retry_rows import definition_of, outcome_of
from scheduler_service.domain.schedules import State
from scheduler_service.runtime.clock import Clock, SystemClock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.runtime.randomness import Randomness, SystemRandomness
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.tell_audits import tell_unbalanced
from spark.io.files import refuse_existing, write_whole
from spark.io.submitted import patient
from spark.io.tables import PARTITION
from spark.jobs.audit_partitions import (
    MAX_PROBES,
    Found,
    look,
    overdue_crons,
    planned,
    read_positions,
    spread,
    unindexed,
)
from spark.jobs.job import Context, Job, JobRefused, Report
from spark.transforms import findings
from spark.transforms.books import COUNTS
from spark.window import Window, add_clients, add_window
from spark.writer import unhinted_writer

AGAIN_AFTER_SECONDS = 10.0

KINDS = ("stranded", "pointer-without-retry-row", "pointer-left-behind")
MAX_REPAIRS = 100_000
"""Repairs of one run; further rows are found again by the next run."""
REPAIRS_AT_ONCE = 16


class Broken(NamedTuple):
    """A row with a finding of one of KINDS."""

    partition: Partition
    key: RowKey

    @classmethod
    def at(cls, client_id: str, poller_id: int, due_ms: int, schedule_id: str) -> "Broken":
        partition = Partition(ClientId(client_id), PollerId(poller_id), minute_of(due_ms))
        return cls(partition, RowKey(UnixMillis(due_ms), ScheduleId(UUID(schedule_id))))


async def repair(storage: Storage, rows: Sequence[Broken], *, clock: Clock, randomness: Randomness) -> dict[str, int]:
    """Repair what the use cases can put right; answers how many were requeued, completed, or had moved on. Raises
    StoreUnavailable; repairs made before it stay.

        stranded                    requeued, as the schedule writer does with a late create: it is called
        pointer-without-retry-row   its retry row is placed
        pointer-left-behind         the retry row's outcome is carried over

    Each row is read again, serially, and left alone where it has moved on. Repairs compete with owners and cancels
    under the same conditions, so exactly one wins. A row whose minute an owner has opened may have been called before
    its outcome was lost, so it is requeued in doubt: at-most-once clients get no call. Rows for which the books have an
    outcome (lost-outcome) are left to a person.
    """
    writer = unhinted_writer(storage, clock=clock, randomness=randomness)

    async def one(row: Broken) -> str:
        return await _repair(storage, writer, row)

    return dict(Counter(await concurrently(one, rows, width=REPAIRS_AT_ONCE)))


async def _repair(storage: Storage, writer: ScheduleWriter, broken: Broken) -> str:
    header, rows = await storage.schedules.read_rows(broken.partition, [broken.key], serial=True)
    row = rows.get(broken.key)
    if row is None or not row.defined or row.ended:
        return "moved-on"
    definition, outcome = definition_of(broken.partition, row), outcome_of(row)
    if outcome is None:
        await writer.requeue(definition, in_doubt=header.version is not None)
        return "requeued"
    if row.state == State.RETRYING and outcome.next_attempt_at is not None:
        await writer.complete(definition, outcome)
        return "completed"
    return "moved-on"


def _add_arguments(parser: ArgumentParser) -> None:
    add_window(parser)
    add_clients(parser)
    parser.add_argument("--output", metavar="DIR", help="where the findings go as Parquet; must not exist")
    parser.add_argument("--repair", action="store_true", help="requeue stranded rows, complete chains of attempts")
    parser.add_argument(
        "--again-after",
        type=float,
        default=AGAIN_AFTER_SECONDS,
        metavar="SECONDS",
        help="what was found is looked at again after so long (%(default)g), and reported if it is still there",
    )


def _run(context: Context, arguments: Namespace) -> Report:
    try:
        window = Window(arguments.start, arguments.end)
    except ValueError as error:
        raise JobRefused(f"{error}: --from {arguments.start}, --to {arguments.end}") from error
    if arguments.output is not None:
        refuse_existing(context.session, arguments.output)
    clients = _clients(context, arguments.clients)
    audit_books = _AuditBooks(context, window, clients, again_after=arguments.again_after)
    found, totals = audit_books.find()
    try:
        if arguments.output is not None:
            write_whole(found, arguments.output)
            context.say(f"The findings are in {arguments.output}.")
        audits = _audits(audit_books, found, totals)
        broken = _to_repair(audit_books, found) if arguments.repair else None
        return asyncio.run(_finish(context, audits, broken, every=not arguments.clients))
    except MinutehandError as error:
        raise JobRefused(f"the report could not be stored or told: {error}") from error


def _clients(context: Context, wanted: Sequence[str]) -> DataFrame:
    """client_id, poller_ceiling and state of the named clients, or of all."""
    known = context.tables.clients().select("client_id", "poller_ceiling", "state").collect()
    missing = sorted(set(wanted) - {row.client_id for row in known})
    if missing:
        raise JobRefused(f"there is no client {', '.join(missing)}")
    chosen = [tuple(row) for row in known if not wanted or row.client_id in wanted]
    if not chosen:
        raise JobRefused("there are no clients yet")
    return context.session.createDataFrame(chosen, "client_id string, poller_ceiling int, state string").coalesce(1)


class _AuditBooks:
    """The reads of one run."""

    def __init__(self, context: Context, window: Window, clients: DataFrame, *, again_after: float) -> None:
        self.window = window
        self.clients = clients
        self.names = [row.client_id for row in clients.select("client_id").collect()]
        self.left_out: list[str] = []
        self._context = context
        self._tables = context.tables
        self._again_after = again_after

    def find(self) -> tuple[DataFrame, list[Row]]:
        """The findings of both looks, and each client's counts."""
        tables, say = self._tables, self._context.say
        pollers = read_positions(tables, self.clients)
        index = tables.occupied(self.names, self.window).localCheckpoint()
        say(f"Reading {index.count():,} pollers' minutes of {len(self.names):,} clients.")
        first = look(tables, spread(index, pollers), hours=tables.hours(self.names, self.window), pollers=pollers)
        totals = first.totals.collect()
        bare = self._unindexed(index)
        crons = self._overdue()
        suspected = sum(frame.count() for frame in (first.findings, bare, crons))
        if not suspected:
            return first.findings, totals
        say(f"{suspected:,} findings; looking at them again in {self._again_after:g} s.")
        asyncio.run(SystemClock().sleep(self._again_after))
        again = crons.join(self._overdue(), ["client_id", "detail"], "left_semi")
        found = findings.every([self._rows_again(first, pollers), self._unindexed_again(bare), again])
        return found.localCheckpoint(), totals

    def _rows_again(self, first: Found, pollers: DataFrame) -> DataFrame:
        partitions = first.again.localCheckpoint()
        if partitions.isEmpty():
            return first.findings
        hours = partitions.select("client_id", F.date_trunc("hour", "minute").alias("hour")).distinct()
        second = look(self._tables, spread(partitions, pollers), hours=hours.localCheckpoint(), pollers=pollers)
        return findings.found_again(second.findings, first.findings)

    def _unindexed(self, index: DataFrame) -> DataFrame:
        candidates = planned(self.clients, self.window)
        count = candidates.count()
        if count <= MAX_PROBES:
            return unindexed(self._tables, candidates, index)
        self.left_out.append(
            f"Whether rows are missing from the index was not looked at: {count:,} pollers' minutes are more than "
            f"{MAX_PROBES:,}. Take fewer hours, or single clients."
        )
        return unindexed(self._tables, candidates.limit(0), index)

    def _unindexed_again(self, bare: DataFrame) -> DataFrame:
        partitions = bare.select(*PARTITION).localCheckpoint()
        return unindexed(self._tables, partitions, self._tables.occupied(self.names, self.window).localCheckpoint())

    def _overdue(self) -> DataFrame:
        return overdue_crons(self._tables, self.clients, now_seconds=int(self._context.now.timestamp()))


def _audits(audit_books: _AuditBooks, found: DataFrame, totals: Iterable[Row]) -> list[Audit]:
    """A report for each client."""
    counts = {row.client_id: AuditCounts(**{name: row[name] for name in COUNTS}) for row in totals}
    kinds: dict[str, dict[str, int]] = {}
    for client_id, kind, count in found.groupBy("client_id", "kind").count().orderBy("client_id", "kind").collect():
        kinds.setdefault(client_id, {})[kind] = count
    shown: dict[str, list[AuditFinding]] = {}
    for row in _first(found).collect():
        shown.setdefault(row.client_id, []).append(
            AuditFinding(**{k: v for k, v in row.asDict().items() if k != "client_id"})
        )
    clock, randomness = SystemClock(), SystemRandomness()
    audit_id: AuditId = new_audit_id(at=clock.wall_ms(), randomness=randomness)
    start, end = (UnixMillis(int(at.timestamp()) * 1000) for at in (audit_books.window.start, audit_books.window.end))
    return [
        Audit(
            client_id=ClientId(name),
            audit_id=audit_id,
            window_start=start,
            window_end=end,
            counts=counts.get(name, AuditCounts()),
            findings=kinds.get(name, {}),
            shown=tuple(shown.get(name, ())),
            left_out=tuple(audit_books.left_out),
        )
        for name in sorted(audit_books.names)
    ]


def _first(found: DataFrame) -> DataFrame:
    """The first findings of each client, instants as Unix milliseconds."""
    order = Over.partitionBy("client_id").orderBy("kind", "minute", "due", "poller_id", "schedule_id", "detail")
    numbered = found.select("*", F.row_number().over(order).alias("number")).where(F.col("number") <= SHOWN)
    return numbered.orderBy("client_id", "number").select(
        "client_id",
        "poller_id",
        *(F.unix_millis(name).alias(name) for name in ("minute", "due")),
        "schedule_id",
        "kind",
        "detail",
    )


def _to_repair(audit_books: _AuditBooks, found: DataFrame) -> list[Broken]:
    rows = found.where(F.col("kind").isin(*KINDS)).select(
        "client_id", "poller_id", F.unix_millis("due").alias("due"), "schedule_id"
    )
    return [Broken.at(*row) for row in rows.limit(MAX_REPAIRS).collect()]


async def _finish(context: Context, audits: Sequence[Audit], broken: Sequence[Broken] | None, *, every: bool) -> Report:
    """Repair if requested, store the reports, and then tell the clients: an event names a report that can be read.
    `every`: the run is over all clients, so that APIs can show the state of the books
    (`usecases.storage_probes.WatchAudits`)."""
    storage = await open_storage(patient(context.storage))
    clock, randomness = SystemClock(), SystemRandomness()
    try:
        if broken:
            done: dict[ClientId, dict[str, int]] = {}
            for audit in audits:
                mine = [one for one in broken if one.partition.client_id == audit.client_id]
                done[audit.client_id] = await repair(storage, mine, clock=clock, randomness=randomness)
            audits = [msgspec.structs.replace(audit, repaired=done[audit.client_id]) for audit in audits]
        await concurrently(storage.audits.insert, [*audits, *([together(audits)] if every else [])])
        writer = unhinted_writer(storage, clock=clock, randomness=randomness)
        told = await tell_unbalanced(audits, clients=storage.clients, reports=storage.audits, writer=writer)
        if told:
            context.say(f"Told {len(told):,} clients of findings (books.unbalanced).")
    finally:
        await storage.close()
    return _report(audits)


def _report(audits: Sequence[Audit]) -> Report:
    first = audits[0]
    return {
        "audit_id": str(first.audit_id),
        "from": format_instant(first.window_start),
        "to": format_instant(first.window_end),
        "left_out": list(first.left_out),
        "clients": [_told(audit) for audit in audits],
    }


def _told(audit: Audit) -> dict[str, Any]:
    return {
        "client_id": audit.client_id,
        "counts": msgspec.to_builtins(audit.counts),
        "findings": audit.findings,
        "repaired": audit.repaired,
        "shown": [_finding(finding) for finding in audit.shown],
    }


def _finding(finding: AuditFinding) -> dict[str, Any]:
    instants = {name: getattr(finding, name) for name in ("minute", "due")}
    told = {name: None if instant is None else format_instant(instant) for name, instant in instants.items()}
    return {**msgspec.to_builtins(finding), **told}


def _render(report: Report) -> list[str]:
    lines = [f"Audit {report['audit_id']}: {report['from']} to {report['to']}", *report["left_out"]]
    for client in report["clients"]:
        counts = client["counts"]
        if not counts["accepted"] and not client["findings"]:
            continue
        told = ", ".join(f"{counts[name]:,} {name}" for name in COUNTS)
        lines.append(f"{client['client_id']}: {told}; {sum(client['findings'].values()):,} findings")
        lines += [f"  {count:,} {kind}" for kind, count in client["findings"].items()]
        lines += [f"    {one['kind']} {one['schedule_id'] or ''} {one['detail']}" for one in client["shown"]]
        lines += [f"  {count:,} {done}" for done, count in client["repaired"].items()]
    if len(lines) == 1 + len(report["left_out"]):
        lines.append("Nothing was accepted for these hours.")
    return lines


AUDIT_BOOKS = Job(
    name="audit_books",
    summary="Prove a window's books from its raw rows, and find invariant violations.",
    add_arguments=_add_arguments,
    run=_run,
    render=_render,
)
