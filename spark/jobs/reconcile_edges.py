"""What the rows of the index can't tell: partitions that are missing from it, and crons that nobody has looked at."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.io.tables import PARTITION, Tables
from spark.transforms import findings
from spark.window import HOUR, Window

MAX_PROBES = 100_000
"""Lanes' minutes that are tried for rows though the index does not name them; with more, none are."""
OVERDUE_SECONDS = 600
"""A cron that waits this long for its expansion has been missed by the search for such crons, several times."""


def planned(clients: DataFrame, window: Window) -> DataFrame:
    """Every minute of the window for every lane that a client ever had. `clients`: client_id, poller_ceiling."""
    first, last = (F.timestamp_seconds(F.lit(int(at.timestamp()))) for at in (window.start, window.end - HOUR / 60))
    lanes = F.sequence(F.lit(0), F.col("poller_ceiling") - 1)
    each = clients.where(F.col("poller_ceiling") > 0).select("client_id", F.explode(lanes).alias("poller_id"))
    return each.select(
        "client_id", "poller_id", F.explode(F.sequence(first, last, F.expr("interval 1 minute"))).alias("minute")
    )


def unindexed(tables: Tables, candidates: DataFrame, index: DataFrame) -> DataFrame:
    """Those of the candidates that the index does not name and that have rows.

    Whoever writes a row has its index row acknowledged before; retention deletes the rows first. So where the index was
    read between two reads of rows that found some, it lacks them for good.
    """
    key = list(PARTITION)
    probes = candidates.select(*key).join(index.select(*key), key, "left_anti").localCheckpoint()
    rows = tables.by_key(probes, "schedules", ("due",)).where(F.col("due").isNotNull())
    return findings.unindexed(rows.select(*key).distinct()).select(*findings.COLUMNS).localCheckpoint()


def overdue_crons(tables: Tables, clients: DataFrame, *, now_seconds: int) -> DataFrame:
    """Of active clients: those of others are not expanded. `clients`: client_id, state."""
    active = clients.where(F.col("state") == "active").select("client_id").localCheckpoint()
    crons = tables.by_key(active, "crons", ("cron_id", "poller_id", "wake_at"))
    before = F.timestamp_seconds(F.lit(now_seconds - OVERDUE_SECONDS))
    return findings.overdue_crons(crons, before=before).select(*findings.COLUMNS).localCheckpoint()
