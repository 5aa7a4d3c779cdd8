"""One look at the rows of some partitions: their counts, and invariant violations.

The rows are read once and kept for the look. Findings lead to few other rows, which are read by their keys: the retry
rows that schedules name, and the schedules that retry rows belong to.

Two findings do not come from indexed rows: partitions that are missing from the index, and overdue crons.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cql.members import CLUSTER
from spark.io.tables import PARTITION, Tables
from spark.transforms import books, findings
from spark.transforms.pollers import positions, with_settled
from spark.window import HOUR, Window

_COLUMNS = ("due", "schedule_id", *sorted({*findings.READS, *books.READS}))
_PARTITIONS_OF_A_TASK = 250

MAX_PROBES = 100_000
"""Partitions outside the index that are probed for rows; if there are more, none is."""
OVERDUE_SECONDS = 600
"""A cron that waits this long for its expansion has been missed several times by the search for such crons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`totals`: by client. `again`: the partitions for the second look."""

    findings: DataFrame
    totals: DataFrame
    again: DataFrame


def read_positions(tables: Tables, clients: DataFrame) -> DataFrame:
    """How far the clients' pollers are settled; nodes are read first (`transforms.pollers`)."""
    cluster = clients.sparkSession.createDataFrame([(CLUSTER,)], "cluster string")
    nodes = tables.by_key(cluster, "nodes", ("node_id", "incarnation", "floor")).localCheckpoint()
    columns = ("poller_id", "owner_node", "owner_incarnation", "watermark", "lagging")
    pollers = tables.by_key(clients.select("client_id"), "pollers", columns).localCheckpoint()
    return positions(pollers, nodes).localCheckpoint()


def spread(partitions: DataFrame, pollers: DataFrame) -> DataFrame:
    """The partitions, with whether each is settled, redistributed over many tasks: those that one key led to are all in
    one. The result's plan has no trace of how they were found, so that it can be joined by key."""
    cores = partitions.sparkSession.sparkContext.defaultParallelism
    tasks = max(2 * cores, partitions.count() // _PARTITIONS_OF_A_TASK)
    return with_settled(partitions.select(*PARTITION), pollers).repartition(tasks).localCheckpoint()


def look(tables: Tables, partitions: DataFrame, *, hours: DataFrame, pollers: DataFrame) -> Found:
    """`partitions`: from `spread`. `hours`: client_id and hour of all their minutes. `pollers`: from
    `read_positions`."""
    read = tables.by_key(partitions, "schedules", _COLUMNS, beside=("settled",))
    kept = read.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        # A partition that has only static columns is read as one row with null keys.
        rows = kept.where(F.col("due").isNotNull())
        counts = books.counted(rows).localCheckpoint()
        suspects = findings.suspects(rows).localCheckpoint()
        fires = _fires(rows)
    finally:
        kept.unpersist()
    doubled = findings.doubled_fires(fires)
    others = _beside_others(tables, suspects, pollers)
    alone = findings.every([findings.wrong_by_itself(suspects), *others])
    by_rows = findings.every([doubled, alone.join(doubled, list(findings.ROW), "left_anti")]).localCheckpoint()
    found = findings.every(_with_books(tables, by_rows, counts, hours)).localCheckpoint()
    again = found.select(*PARTITION).union(fires.select(*PARTITION)).where(F.col("minute").isNotNull()).distinct()
    return Found(findings=found, totals=books.totals(counts), again=again)


def _fires(rows: DataFrame) -> DataFrame:
    doubled = findings.fires_of_crons(rows).localCheckpoint()
    return findings.fires_at(rows.limit(0) if doubled.isEmpty() else rows, doubled).localCheckpoint()


def _beside_others(tables: Tables, suspects: DataFrame, pollers: DataFrame) -> Sequence[DataFrame]:
    """The findings that need other rows; those are read only where a suspicion calls for them."""
    suspicions = {row.suspicion for row in suspects.select("suspicion").distinct().collect()}
    told = []
    if findings.POINTER in suspicions:
        named = findings.named_retry_rows(suspects).localCheckpoint()
        retry_rows = tables.by_key(named, "schedules", ("created_at", "state")).localCheckpoint()
        told.append(findings.unfollowed(suspects, with_settled(retry_rows, pollers)))
    if suspicions & {findings.WAITING, findings.UNDEFINED}:
        named = findings.named_originals(suspects).localCheckpoint()
        originals = tables.by_key(named, "schedules", ("state", "next_attempt_at")).localCheckpoint()
        told.append(findings.unpointed(suspects, originals))
    return told


def _with_books(tables: Tables, by_rows: DataFrame, counts: DataFrame, hours: DataFrame) -> Sequence[DataFrame]:
    columns = ("minute", "poller_id", *books.COUNTS, "version", "edits", "epoch")
    balances = tables.by_key(hours, "minute_balance", columns).localCheckpoint().where(F.col("epoch").isNotNull())
    differing = books.differing(counts, balances).localCheckpoint()
    stranded = by_rows.where((F.col("kind") == findings.LOST) & findings.is_call())
    rows_found = by_rows.where(F.col("schedule_id").isNotNull())
    explained = books.explained(differing, rows_found)
    return (
        findings.with_lost_outcomes(by_rows, books.lost(differing, stranded)),
        findings.wrong_balances(differing.join(explained, list(PARTITION), "left_anti")),
    )


def planned(clients: DataFrame, window: Window) -> DataFrame:
    """Every minute of the window for every poller that a client has ever had. `clients`: client_id, poller_ceiling."""
    first, last = (F.timestamp_seconds(F.lit(int(at.timestamp()))) for at in (window.start, window.end - HOUR / 60))
    pollers = F.sequence(F.lit(0), F.col("poller_ceiling") - 1)
    each = clients.where(F.col("poller_ceiling") > 0).select("client_id", F.explode(pollers).alias("poller_id"))
    return each.select(
        "client_id", "poller_id", F.explode(F.sequence(first, last, F.expr("interval 1 minute"))).alias("minute")
    )


def unindexed(tables: Tables, candidates: DataFrame, index: DataFrame) -> DataFrame:
    """The candidates that have rows and are not in the index.

    The index row of a partition is acknowledged before its first row is written, and retention deletes rows first. So
    where two reads found rows and a read of the index in between did not find the partition, the index lacks it for
    good.
    """
    key = list(PARTITION)
    probes = candidates.select(*key).join(index.select(*key), key, "left_anti").localCheckpoint()
    rows = tables.by_key(probes, "schedules", ("due",)).where(F.col("due").isNotNull())
    return findings.unindexed(rows.select(*key).distinct()).select(*findings.COLUMNS).localCheckpoint()


def overdue_crons(tables: Tables, clients: DataFrame, *, now_seconds: int) -> DataFrame:
    """Overdue crons of active clients; those of others are not expanded. `clients`: client_id, state."""
    active = clients.where(F.col("state") == "active").select("client_id").localCheckpoint()
    crons = tables.by_key(active, "crons", ("cron_id", "poller_id", "wake_at"))
    before = F.timestamp_seconds(F.lit(now_seconds - OVERDUE_SECONDS))
    return findings.overdue_crons(crons, before=before).select(*findings.COLUMNS).localCheckpoint()
