"""The archive: one folder for each day and client.

    DIR/day=2026-11-21/client_id=shop/*.parquet       readable by any program, folders as columns
                                      _manifest.json  the complete contents: files with their sizes, number of rows,
                                                      digest
    DIR/_staging/RUN/day=.../client_id=...            folders that a run is writing
    DIR/_staging/RUN/_replaced/day=.../client_id=...  folders that it is about to replace

A folder is moved from staging by one rename, with its manifest, so it is complete or absent. Where a rename copies file
by file, as in object stores, readers may see a partial folder: its manifest and `damage` detect that.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec
from pyspark.sql import DataFrame, SparkSession

from spark.errors import JobRefused
from spark.io.files import Files
from spark.transforms.archive import FORMAT, SCHEMA, contents
from spark.window import Window

MANIFEST = "_manifest.json"
STAGING = "_staging"
REPLACED = "_replaced"


class File(msgspec.Struct, frozen=True):
    name: str
    bytes: int


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a folder. `day` as 2026-11-21, `as_of` in Unix milliseconds: see `domain.archives`."""

    format: int = FORMAT
    day: str
    client_id: str
    as_of: int
    run: str
    rows: int
    digest: str
    files: tuple[File, ...]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A client's day that can't be read back as it was written, and why."""

    day: str
    client_id: str
    why: str


def folder(day: str, client_id: str) -> str:
    """The folder's path below the archive's directory, or a run's."""
    return f"day={day}/client_id={client_id}"


def days_of(window: Window) -> list[str]:
    """The days of a window of whole days."""
    days = (window.end - window.start) // timedelta(days=1)
    return [f"{window.start + timedelta(days=number):%Y-%m-%d}" for number in range(days)]


def parquet_files(files: Files, where: str) -> tuple[File, ...]:
    """The Parquet files of one folder."""
    return tuple(File(one.name, one.size) for one in files.list(where) if one.name.endswith(".parquet"))


def read_manifest(files: Files, where: str) -> Manifest | None:
    """The manifest of one folder. None: it is missing or unreadable."""
    try:
        data = files.read(f"{where}/{MANIFEST}")
        return None if data is None else msgspec.json.decode(data, type=Manifest)
    except (JobRefused, msgspec.DecodeError):
        return None


def find(files: Files, window: Window, clients: Sequence[str] | None = None) -> tuple[list[Manifest], list[Problem]]:
    """The manifests of these days and clients (None: all), and the folders that are not complete. Costs a few requests
    for each folder."""
    whole, torn = [], []
    for day in days_of(window):
        for one in files.list(f"{files.root}/day={day}"):
            client_id = one.name.removeprefix("client_id=")
            if client_id == one.name or (clients is not None and client_id not in clients):
                continue
            where = f"{files.root}/{folder(day, client_id)}"
            manifest = read_manifest(files, where)
            why = _torn(manifest, parquet_files(files, where), day=day, client_id=client_id)
            if manifest is None or why is not None:
                torn.append(Problem(day=day, client_id=client_id, why=why or ""))
            else:
                whole.append(manifest)
    return whole, torn


def read_folders(session: SparkSession, root: str, folders: Iterable[str]) -> DataFrame:
    """The rows of those folders below `root`, with SCHEMA."""
    paths = [f"{root}/{one}" for one in folders]
    if not paths:
        return session.createDataFrame([], SCHEMA)
    return session.read.schema(SCHEMA).option("basePath", root).parquet(*paths)


def damage(session: SparkSession, root: str, manifests: Sequence[Manifest]) -> list[Problem]:
    """The folders that hold other rows than their manifests say. Reads all of them."""
    frame = contents(read_folders(session, root, [folder(one.day, one.client_id) for one in manifests]))
    found = {(row.day, row.client_id): (row.rows, row.digest) for row in frame.collect()}
    problems = []
    for one in manifests:
        present = found.get((one.day, one.client_id), (0, "0"))
        if present != (one.rows, one.digest):
            counts = f"{present[0]:,} rows, of {one.rows:,} that were written"
            why = "other rows than were written" if present[0] == one.rows else counts
            problems.append(Problem(day=one.day, client_id=one.client_id, why=why))
    return problems


def _torn(manifest: Manifest | None, present: Sequence[File], *, day: str, client_id: str) -> str | None:
    if manifest is None:
        return f"there is no {MANIFEST} that can be read"
    if manifest.format > FORMAT:
        return f"it was written by a newer version (format {manifest.format})"
    if (manifest.day, manifest.client_id) != (day, client_id):
        return f"its {MANIFEST} is of {manifest.day} and {manifest.client_id}"
    if missing := {one.name for one in manifest.files} - {one.name for one in present}:
        return f"{len(missing)} of its {len(manifest.files)} files are missing"
    if set(present) != set(manifest.files):
        return "its files differ from those that were written"
    return None
