"""The folders of one day: written together, checked, then each renamed and marked."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from math import ceil
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from pyspark.sql import DataFrame, Observation, Row
from pyspark.sql import functions as F

from membership.conditional import Applied, Rejected, Unknown
from scheduler_service.domain.archives import ArchivedDay, RunId
from scheduler_service.domain.ids import ClientId, UnixMillis
from spark.io.archive import MANIFEST, REPLACED, STAGING, Manifest, folder, parquet_files, read_folders, read_manifest
from spark.io.files import Files
from spark.io.marks import Marks, taken_over
from spark.jobs.archive_days import Wanted
from spark.jobs.job import Context, JobRefused
from spark.transforms.archive import READS, archived, contents, digest, merged
from spark.window import Window

PARTITIONS_A_FILE = 1_440
"""Partitions that share a file, about: those of one poller's day."""
MAX_ROWS_A_FILE = 1_000_000
ROW_GROUP_BYTES = 32 << 20
"""Smaller than usual, because each task holds a group in memory, and bodies may be large."""


class _Found(NamedTuple):
    rows: int
    digest: int


class Folders:
    """`as_of`: see `domain.archives`. `late`: whether a day is past its client's retention."""

    def __init__(
        self, context: Context, files: Files, marks: Marks, *, as_of: int, late: Callable[[Wanted], bool]
    ) -> None:
        self._context = context
        self._files = files
        self._marks = marks
        self._as_of = as_of
        self._late = late
        self._staging = f"{files.root}/{STAGING}/{marks.run}"

    def write(self, at: int, some: Sequence[Wanted], sizes: Mapping[str, int]) -> dict[str, int]:
        """Archive the day that begins at `at` for those clients; `sizes`: how many partitions each has. Answers how
        many clients are archived, with how many rows, and how many have something open or just ended."""
        day = f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d}"
        found = self.stage(day, at, some, sizes)
        counts = dict.fromkeys(("clients", "rows", "open", "fresh"), 0)
        for one in some:
            row = found.get(one.client_id)
            if row is not None and row.open:
                counts["open"] += 1
            elif row is not None and row.newest >= self._as_of:
                counts["fresh"] += 1
            else:
                self.publish(day, one, rows=0 if row is None else row.rows, digest="0" if row is None else row.digest)
                counts["clients"] += 1
                counts["rows"] += 0 if row is None else row.rows
        self._files.delete(self._staging)
        return counts

    def stage(self, day: str, at: int, some: Sequence[Wanted], sizes: Mapping[str, int]) -> Mapping[str, Row]:
        """Write a day's rows below the run's directory and read them back: what each client's folder holds, in the
        columns of `contents`. Clients without rows are absent. Raises JobRefused."""
        session = self._context.session
        rows = self._rows(at, some)
        before = [one.before for one in some if one.before is not None and one.before.rows]
        for mark in before:
            manifest = read_manifest(self._files, f"{self._files.root}/{folder(day, mark.client_id)}")
            if manifest is None or (manifest.rows, manifest.digest) != (mark.rows, mark.digest):
                raise JobRefused(
                    f"{day} of {mark.client_id} is to be archived again, and what was archived of it is not in "
                    f"{self._files.root} as it was: find it, for retention may have deleted its rows"
                )
        if before:
            kept = read_folders(session, self._files.root, [folder(day, mark.client_id) for mark in before])
            rows = merged(kept, rows)
        written = self._write(rows, sizes)
        names = [one.name for one in self._files.list(f"{self._staging}/day={day}")]
        staged = read_folders(session, self._staging, [f"day={day}/{name}" for name in names])
        found = {row.client_id: row for row in contents(staged).collect()}
        back = _Found(sum(row.rows for row in found.values()), sum(int(row.digest) for row in found.values()))
        if back != written:
            raise JobRefused(
                f"{day}: {back.rows:,} rows were read back of {written.rows:,}, or others than were written"
            )
        return found

    def publish(self, day: str, one: Wanted, *, rows: int, digest: str) -> None:
        """Move a staged folder into the archive, in place of an earlier one, and mark the day. Raises JobRefused."""
        name = folder(day, one.client_id)
        target, staged, replaced = (f"{where}/{name}" for where in (self._files.root, self._staging, self._old))
        if rows:
            manifest = Manifest(
                day=day,
                client_id=one.client_id,
                as_of=self._as_of,
                run=str(self._marks.run),
                rows=rows,
                digest=digest,
                files=parquet_files(self._files, staged),
            )
            self._files.write(f"{staged}/{MANIFEST}", msgspec.json.encode(manifest))
        # As late as possible before the renames: a run that has lost the client must not touch its folder.
        self._marks.hold(one.client_id)
        if self._files.exists(target):
            self._files.move(target, replaced)
        if rows:
            self._files.move(staged, target)
        self._mark(one, rows=rows, digest=digest, target=target, replaced=replaced)

    def _mark(self, one: Wanted, *, rows: int, digest: str, target: str, replaced: str) -> None:
        mark = ArchivedDay(
            client_id=ClientId(one.client_id),
            day=UnixMillis(one.at),
            as_of=UnixMillis(self._as_of),
            rows=rows,
            digest=digest,
            place=self._files.root,
            past_retention=self._late(one) if one.before is None else one.before.past_retention,
        )
        match self._marks.mark(mark):
            case Applied():
                self._files.delete(replaced)
            case Rejected():
                put_back(self._files, target, replaced, run=self._marks.run)
                raise JobRefused(taken_over(one.client_id))
            case Unknown(reason):
                # Marked or not, the folder is complete; the next run reads which, and marks it if need be.
                raise JobRefused(f"the storage did not answer ({reason}); run it again")

    @property
    def _old(self) -> str:
        return f"{self._staging}/{REPLACED}"

    def _rows(self, at: int, some: Sequence[Wanted]) -> DataFrame:
        return archived(self._context.tables.rows([one.client_id for one in some], Window.of_day(at / 1000), READS))

    def _write(self, rows: DataFrame, sizes: Mapping[str, int]) -> _Found:
        """Write few files for each client: all rows of a small client go to one task."""
        session = self._context.session
        session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        parts = session.createDataFrame(
            [(name, ceil(size / PARTITIONS_A_FILE)) for name, size in sizes.items()], "client_id string, parts int"
        )
        sized = rows.join(F.broadcast(parts), ["client_id"], "left")
        part = F.pmod(F.hash("poller_id", "minute"), F.coalesce("parts", F.lit(1)))
        ordered = (
            sized.withColumn("part", part)
            .repartition(max(8, 2 * session.sparkContext.defaultParallelism), "client_id", "part")
            .sortWithinPartitions("day", "client_id", "due", "schedule_id")
        )
        seen = Observation()
        observed = ordered.select(*rows.columns).observe(
            seen, F.count(F.lit(1)).alias("rows"), digest().alias("digest")
        )
        writer: Any = observed.write.mode("overwrite").partitionBy("day", "client_id")
        writer = writer.option("maxRecordsPerFile", MAX_ROWS_A_FILE).option("parquet.block.size", ROW_GROUP_BYTES)
        writer.parquet(self._staging)
        return _Found(seen.get["rows"], int(seen.get["digest"]))


def put_back(files: Files, target: str, replaced: str, *, run: RunId) -> None:
    """Undo the renames of `publish`, unless another run has replaced the folder since."""
    manifest = read_manifest(files, target)
    if manifest is not None and manifest.run == str(run):
        files.delete(target)
    if files.exists(replaced) and not files.exists(target):
        files.move(replaced, target)


def sweep_up(
    files: Files, left: Sequence[str], *, owned: Collection[str], alive: Collection[RunId], say: Callable[[str], None]
) -> None:
    """Delete staged folders of runs that have ended; `left`: the runs' directories, listed before `alive` was read. A
    folder that such a run was about to replace is moved back first."""
    for name in left:
        with suppress(ValueError):
            if UUID(name) in alive:
                continue
        where, others = f"{files.root}/{STAGING}/{name}", False
        for day in files.list(f"{where}/{REPLACED}"):
            for one in files.list(f"{where}/{REPLACED}/{day.name}"):
                if one.name.removeprefix("client_id=") not in owned:
                    others = True
                elif not files.exists(f"{files.root}/{day.name}/{one.name}"):
                    files.move(f"{where}/{REPLACED}/{day.name}/{one.name}", f"{files.root}/{day.name}/{one.name}")
        if not others:
            say(f"archive: what run {name} had left unfinished is deleted")
            files.delete(where)
