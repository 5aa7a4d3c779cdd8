"""`bulk_load`: millions of schedules from Parquet, CSV or JSON lines.

    input -> columns -> repeated keys, crowded minutes -> the load's row -> pieces, a few at a time -> rejects

Every row is judged as the API judges a create and becomes the same schedule in every run of the load
(`usecases.bulk_load`, `domain.bulk_loads`). So an interrupted run is simply started again: existing rows stay, missing
ones are added. A load is identified by client and name; its first run fixes pollers, key and creation instant.

What is complete. A run that ends by itself has judged every row; rejected rows are in the rejects, which appear with
`_SUCCESS` beside them. Of an interrupted run only the written rows remain; the load's row says `running` or `partial`,
and the next run says how it continues.

Rows of one minute are written by the same task, in order, so that they share requests. The rate is divided among the
tasks that can run at the same time; each slows down while storage is slow (`usecases.bulk_load.LoadThrottle`).
"""

import asyncio
import math
import textwrap
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from functools import partial

from pyspark import RDD, StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cql.settings import StorageSettings
from cql.storage import open_storage
from membership.conditional import Applied, Rejected, Unknown
from membership.errors import MinutehandError
from scheduler_service.domain.bulk_loads import MAX_NAME, BulkLoad, BulkState
from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE, Client, ClientState
from scheduler_service.domain.ids import MAX_POLLERS, ClientId, UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.files import FilesUnusable
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.bulk_load import LOAD_AHEAD_MS, NOT_LOADED
from scheduler_service.usecases.secret_encryption import secret_encryption
from spark.errors import SPARK_FAILED, cause_of
from spark.io.bulk_input import FLAT, FORMATS, UnreadableInput, read_input
from spark.io.submitted import patient
from spark.jobs.bulk_executor import Part, Work, load_part
from spark.jobs.job import Context, Job, JobRefused, Report
from spark.transforms.bulk import crowded, keyed, repeats, spans, spread

RATE = 20_000
"""Rows a second by default: less than half of what two cores can take, so that calls stay punctual."""
PIECE_ROWS = 50_000
"""Rows that one task loads: some seconds' work, so a repeated task repeats little."""
WAVE = 2
"""Pieces for each core that are loaded between two lines of progress."""

NOTES = f"""\
columns of Parquet and CSV, besides the key; a due and a url or destination are required:
{textwrap.fill(", ".join(FLAT), width=100, initial_indent="  ", subsequent_indent="  ")}
  due is RFC 3339 text with an offset, or in Parquet an instant; or due_local and due_timezone say it. headers and
  retry_final_statuses are JSON text, or in Parquet a map and an array. A CSV has a header and is quoted as in RFC 4180;
  an empty cell is not given.
jsonl: each line is a create as the API takes it, with due, and with the key as a field beside it.
Not for loads: {", ".join(NOT_LOADED)}.

Dues must be ten minutes ahead when their row is written. The same input loaded again adds nothing: so start a run that
was cut short once more, as it was. Exit codes: 0 every row was judged, and rejects are listed; 2 refused, or partial.
"""

_COUNTS = ("added", "present", "repeated", "rejected")
_REJECTED = "file string, row long, key string, reasons array<string>"
_FEW_ROWS = 1_000
_FEW_REJECTS = 100_000


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--input", required=True, metavar="PATH", help="file or directory; anything that Spark reads")
    parser.add_argument("--format", required=True, choices=FORMATS, help="jsonl: a create, as the API takes it, a line")
    parser.add_argument("--client", required=True, metavar="ID", help="whose schedules they are")
    parser.add_argument(
        "--key", required=True, metavar="COLUMN", help="what tells the rows apart; a row's id follows from key and due"
    )
    parser.add_argument("--load", metavar="NAME", help="the load's name; without it: the input's path, as given")
    parser.add_argument(
        "--pollers", type=_pollers, metavar="N", help="pollers to spread over; fixed at the first run. Without it: all"
    )
    parser.add_argument("--rejects", metavar="DIR", help="where rejects go, as JSON lines; without it: INPUT.rejects")
    parser.add_argument(
        "--rate", type=_rate, default=RATE, metavar="ROWS", help="rows a second at most, by all tasks (%(default)s)"
    )
    parser.add_argument("--dry-run", action="store_true", help="judge every row, write none but the rejects")


def run(
    context: Context, arguments: Namespace, *, ahead_ms: int = LOAD_AHEAD_MS, piece_rows: int = PIECE_ROWS
) -> Report:
    """`ahead_ms`: how far ahead dues must be; tests can't wait for ten minutes."""
    clock = SystemClock()
    begun = clock.monotonic()
    storage = patient(context.storage)
    asked = LoadQuery.of(arguments)
    try:
        secret_encryption(context.secrets, randomness=SystemRandomness())
    except FilesUnusable as error:
        raise JobRefused(str(error)) from error
    asyncio.run(begin(storage, asked, now=clock.wall_ms(), write=False))
    try:
        rows = read_input(context.session, arguments.input, form=arguments.format, key=arguments.key)
        found = _survey(context, rows)
    except UnreadableInput as error:
        raise JobRefused(str(error)) from error
    except SPARK_FAILED as error:
        raise JobRefused(f"{arguments.input} can't be read: {cause_of(error)}") from error
    write = not arguments.dry_run
    start = asyncio.run(begin(storage, asked, now=clock.wall_ms(), write=write))
    context.say(f"bulk_load: {found.rows:,} rows; {how_it_begins(start, write=write)}")
    parallelism = context.session.sparkContext.defaultParallelism
    work = Work(
        storage=storage if write else None,
        secrets=context.secrets,
        policy=context.policy,
        bounds=context.bounds,
        client=context.bounds.in_force(start.client),
        destinations=start.destinations,
        load=start.load,
        again=start.again,
        flat=arguments.format != "jsonl",
        rate=arguments.rate / parallelism,
        ahead_ms=ahead_ms,
    )
    pieces = max(math.ceil(found.rows / piece_rows), min(parallelism, math.ceil(found.rows / _FEW_ROWS)), 1)
    per_poller = found.rows / max(found.minutes, 1) / start.load.pollers
    salts = min(max(int(per_poller / _FEW_ROWS), 1), WAVE * parallelism)
    spread_rows = spread(rows, found.repeats, pieces=pieces, salts=salts)
    parts = spread_rows.toJSON(use_unicode=False).mapPartitions(partial(load_part, work))
    # The parts are evaluated twice; without this, the rows would be loaded twice.
    parts.persist(StorageLevel.DISK_ONLY)
    # For an empty input Spark makes no partition.
    pieces = parts.getNumPartitions()
    counts: Counter[str] = Counter()
    loading = clock.monotonic()
    try:
        for first in range(0, pieces, WAVE * parallelism):
            wave = range(first, min(first + WAVE * parallelism, pieces))
            for part in context.session.sparkContext.runJob(parts, _counts, list(wave)):
                counts.update(part)
            context.say(_progress(counts, found.rows, clock.monotonic() - loading))
        seconds = clock.monotonic() - loading
        rejects = _write_rejects(context, arguments, parts, found, counts["rejected"])
    except SPARK_FAILED as error:
        done = sum(counts[name] for name in ("added", "present"))
        if not write:
            raise JobRefused(f"not every row could be judged: {cause_of(error)}") from error
        try_to_note(storage, start.load, BulkState.PARTIAL, clock.wall_ms())
        raise JobRefused(
            f"partial: at least {done:,} of {found.rows:,} rows are loaded, then: {cause_of(error)} Start it again as "
            "it was: what is there stays, what is missing is added."
        ) from error
    finally:
        parts.unpersist()
        for frame in found.kept:
            frame.unpersist()
    if write:
        asyncio.run(noted(storage, start.load, BulkState.WHOLE, clock.wall_ms()))
    return {
        "load_id": start.load.load_id,
        "client_id": start.load.client_id,
        "dry_run": not write,
        "first_run": not start.again,
        "pollers": start.load.pollers,
        "started_at": format_instant(start.load.started_at),
        "rows": found.rows,
        **{name: counts[name] for name in _COUNTS},
        "rejects": rejects,
        "fullest_minute": found.fullest,
        "fullest_minute_rows": found.fullest_rows,
        "seconds": round(clock.monotonic() - begun, 3),
        "rows_per_second": round(sum(counts.values()) / max(seconds, 0.001)),
    }


def render(report: Report) -> Sequence[str]:
    lines = [
        f"{'Judged' if report['dry_run'] else 'Loaded'} {report['load_id']!r} for {report['client_id']}, "
        f"{report['pollers']} pollers: {report['rows']:,} rows in {report['seconds']:,.1f} s "
        f"({report['rows_per_second']:,} a second)",
        f"{report['added']:>12,}  {'would be added' if report['dry_run'] else 'added'}",
        f"{report['present']:>12,}  there already",
        f"{report['repeated']:>12,}  the same as an earlier row of the input",
        f"{report['rejected']:>12,}  rejected" + (f", see {report['rejects']}" if report["rejects"] else ""),
    ]
    guaranteed = GUARANTEED_CALLS_PER_MINUTE * report["pollers"]
    if report["fullest_minute_rows"] > guaranteed:
        lines.append(
            f"The minute {report['fullest_minute']} gets {report['fullest_minute_rows']:,} calls of this load; "
            f"{guaranteed:,} are guaranteed, what is beyond them may be late."
        )
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class _Survey:
    """`spans`: first id of each block, its file, and the number of rows before it there, ordered by id; see
    `_located`."""

    kept: tuple[DataFrame, ...]
    rows: int
    minutes: int
    repeats: DataFrame | None
    spans: list[tuple[int, str, int]]
    fullest: str | None
    fullest_rows: int


def _survey(context: Context, rows: DataFrame) -> _Survey:
    """One pass over the whole input."""
    known = keyed(rows).persist(StorageLevel.MEMORY_AND_DISK)
    stretches = sorted(spans(known).collect(), key=lambda one: (one.file, one.block))
    before: Counter[str] = Counter()
    placed = []
    for one in stretches:
        placed.append((one.first_id, one.file, before[one.file]))
        before[one.file] += one.rows
    twice = repeats(known).persist(StorageLevel.MEMORY_AND_DISK)
    minutes = crowded(known)
    totals = minutes.agg(
        F.count(F.lit(1)).alias("minutes"),
        F.max(F.struct("rows", F.unix_millis("minute").alias("at"))).alias("fullest"),
    ).first()
    fullest = None if totals is None else totals.fullest
    blank = known.where("blank").count()
    return _Survey(
        kept=(known, twice),
        rows=sum(before.values()) - blank,
        minutes=0 if totals is None else totals.minutes,
        repeats=None if twice.isEmpty() else twice,
        spans=sorted(placed),
        fullest=None if fullest is None else format_instant(fullest.at),
        fullest_rows=0 if fullest is None else fullest.rows,
    )


def _counts(parts: Iterable[Part]) -> Iterator[dict[str, int]]:
    return (part.counts for part in parts)


def _located(spans: Sequence[tuple[int, str, int]], part: Part) -> Iterator[tuple[str, int, str, list[str]]]:
    """Rejects with file and row; rows are counted from 1 in their file, without the header."""
    for reject in part.rejects:
        first_id, file, before = spans[bisect_right(spans, reject.id, key=lambda span: span[0]) - 1]
        yield file, before + reject.id - first_id + 1, reject.key, reject.reasons


def _write_rejects(
    context: Context, arguments: Namespace, parts: "RDD[Part]", found: _Survey, rejected: int
) -> str | None:
    """Write the rejects, if there are any, to a new directory; answers its path."""
    if not rejected:
        return None
    directory = arguments.rejects or f"{arguments.input.rstrip('/')}.rejects"
    path = f"{directory.rstrip('/')}/{context.now.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"
    located = parts.flatMap(partial(_located, found.spans))
    frame = context.session.createDataFrame(located, _REJECTED)
    (frame.coalesce(1) if rejected <= _FEW_REJECTS else frame).write.json(path)
    return path


def _progress(counts: Counter[str], rows: int, seconds: float) -> str:
    done = sum(counts.values())
    rejected = f", {counts['rejected']:,} rejected" if counts["rejected"] else ""
    return f"bulk_load: {done:,} of {rows:,} rows, {done / max(seconds, 0.001):,.0f} a second{rejected}"


def _pollers(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= MAX_POLLERS:
        raise ArgumentTypeError(f"must be from 1 to {MAX_POLLERS}")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 1 <= rate <= 10_000_000:
        raise ArgumentTypeError("must be a number of rows a second, at least 1")
    return rate


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadQuery:
    """What the command line says about the load."""

    client_id: ClientId
    load_id: str
    key: str
    pollers: int | None

    @classmethod
    def of(cls, arguments: Namespace) -> "LoadQuery":
        name: str = arguments.input if arguments.load is None else arguments.load
        if not name or not name.isprintable() or len(name) > MAX_NAME:
            raise JobRefused(f"the load's name must have 1 to {MAX_NAME} printable characters; give one with --load")
        if arguments.format == "jsonl" and (why := NOT_LOADED.get(arguments.key)) is not None:
            raise JobRefused(f"--key {arguments.key}: in a line this field {why}. Give the load's key another name.")
        return cls(client_id=ClientId(arguments.client), load_id=name, key=arguments.key, pollers=arguments.pollers)


@dataclass(frozen=True, slots=True)
class Start:
    """The state that a run starts from. `destinations`: the client's, by name. `load`: as its first run fixed it, with
    the progress of the last one. `again`: this is not the first run."""

    client: Client
    destinations: frozenset[str]
    load: BulkLoad
    again: bool


async def begin(storage: StorageSettings, asked: LoadQuery, *, now: int, write: bool) -> Start:
    """Register the load or read what its first run fixed. Writes nothing without `write`. Raises JobRefused."""
    try:
        stores = await open_storage(storage)
    except MinutehandError as error:
        raise JobRefused(str(error)) from error
    try:
        client = await stores.clients.read_client(asked.client_id)
        if client is None or client.state is ClientState.DELETED:
            raise JobRefused(f"there is no client {asked.client_id!r}")
        if client.built_in:
            raise JobRefused(f"{asked.client_id!r} is a built-in client: it takes no other schedules")
        if client.state is ClientState.SUSPENDED:
            raise JobRefused(f"client {asked.client_id!r} is suspended: an administrator must resume it first")
        destinations = frozenset(await stores.destinations.list_names(asked.client_id))
        pollers = client.poller_quota if asked.pollers is None else asked.pollers
        at = UnixMillis(now)
        load = BulkLoad(
            client_id=asked.client_id,
            load_id=asked.load_id,
            key_column=asked.key,
            pollers=pollers,
            started_at=at,
            state_at=at,
        )
        known = await stores.bulk_loads.read(asked.client_id, asked.load_id)
        if known is None and pollers > client.poller_quota:
            raise JobRefused(
                f"--pollers {pollers} is more than the {client.poller_quota} pollers of {asked.client_id!r}"
            )
        if known is None and write:
            match await stores.bulk_loads.begin(load):
                case Applied():
                    pass
                case Rejected(current=current):
                    known = current
                case Unknown():
                    raise JobRefused("Cassandra gave no answer to the load's begin; nothing was loaded, try again")
        if known is None:
            return Start(client, destinations, load, again=False)
        _check_same(asked, known)
        if write:
            await stores.bulk_loads.note(asked.client_id, asked.load_id, state=BulkState.RUNNING, at=at)
        return Start(client, destinations, known, again=True)
    except MinutehandError as error:
        raise JobRefused(str(error)) from error
    finally:
        await stores.close()


def _check_same(asked: LoadQuery, known: BulkLoad) -> None:
    begun = f"load {known.load_id!r} was begun at {format_instant(known.started_at)} with"
    if asked.key != known.key_column:
        raise JobRefused(f"{begun} --key {known.key_column}; other keys would be other schedules: take another --load")
    if asked.pollers is not None and asked.pollers != known.pollers:
        raise JobRefused(
            f"{begun} {known.pollers} pollers, which its ids name; leave out --pollers, or take another --load"
        )


async def noted(storage: StorageSettings, load: BulkLoad, state: BulkState, at: int) -> None:
    """Store how far a run came. Raises MinutehandError."""
    stores = await open_storage(storage)
    try:
        await stores.bulk_loads.note(load.client_id, load.load_id, state=state, at=UnixMillis(at))
    finally:
        await stores.close()


def try_to_note(storage: StorageSettings, load: BulkLoad, state: BulkState, at: int) -> None:
    """The same, ignoring storage errors: a load left as `running` also counts as interrupted."""
    with suppress(MinutehandError):
        asyncio.run(noted(storage, load, state, at))


def how_it_begins(start: Start, *, write: bool) -> str:
    """A sentence for the line of progress."""
    load = start.load
    pollers = f"{load.pollers} pollers"
    if not start.again:
        return f"load {load.load_id!r} begins, over {pollers}" if write else f"nothing is written, {pollers}"
    begun = f"load {load.load_id!r} was begun at {format_instant(load.started_at)}, over {pollers}, and"
    ended = "was whole" if load.state is BulkState.WHOLE else "did not come to its end"
    return f"{begun} {ended}: what is there stays as it is, what is missing is {'added' if write else 'judged'}"


JOB = Job(
    name="bulk_load",
    summary="Load schedules by the million from Parquet, CSV or JSON lines.",
    add_arguments=add_arguments,
    run=run,
    render=render,
    notes=NOTES,
)
