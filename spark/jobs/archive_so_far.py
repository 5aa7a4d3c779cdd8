"""What has ended today, as a snapshot beside the archive: for who can't wait for the day to be over.

    DIR/_so_far/client_id=shop/*.parquet

Each run replaces it as a whole. It is no archive: the day is not marked, retention waits for it as before, and the run
that archives the day reads its rows anew.
"""

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Observation
from pyspark.sql import functions as F

from spark.io.archive import STAGING
from spark.io.files import Files
from spark.jobs.job import Context
from spark.transforms.archive import READS, archived, is_open
from spark.window import HOUR, Window

SO_FAR = "_so_far"


def write_so_far(context: Context, files: Files, clients: Sequence[str], *, run: str) -> int:
    """Rows that are in it. Raises JobRefused."""
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
