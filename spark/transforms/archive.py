"""Rows of `schedules` in the form of the archive, and summaries of an archive's contents."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from scheduler_service.domain.schedules import Kind, State
from spark.transforms.rows import ENDED, is_accepted

FILE_SCHEMA = (
    "poller_id int, minute timestamp, due timestamp, schedule_id string, kind string, method string, url string, "
    "headers string, body binary, options string, label string, ordering_key string, cron_id string, "
    "nominal_due timestamp, rescheduled_from string, created_at timestamp, origin_due timestamp, attempt_base int, "
    "state string, attempts int, first_attempt_at timestamp, next_attempt_at timestamp, finished_at timestamp, "
    "last_status int, last_error string, reason string, fired_by string, fired_epoch long, rescheduled_to string, "
    "redelivered_at timestamp, redelivered_after int"
)
"""The columns of a file: the key within a client, the definition, the outcome."""
SCHEMA = f"{FILE_SCHEMA}, day string, client_id string"
"""The same with the columns of the folders' names. `day` as 2026-11-21."""
COLUMNS = tuple(column.split()[0] for column in SCHEMA.split(", "))
KEY = ("client_id", "poller_id", "minute", "due", "schedule_id")
READS = tuple(name for name in COLUMNS if name not in (*KEY, "day"))
"""The columns of `schedules` that it needs beside the key."""
FORMAT = 1
"""The version of the schema. An added column raises it."""


def archived(rows: DataFrame) -> DataFrame:
    """The rows in the form of the archive. A partition with static columns only is read as a row without a key, and
    dropped."""
    day = F.date_format("minute", "yyyy-MM-dd").alias("day")
    return rows.where(F.col("schedule_id").isNotNull()).select(*COLUMNS[:-2], day, "client_id")


def merged(archived: DataFrame, rows: DataFrame) -> DataFrame:
    """`rows`, and the archived rows that are not among them: retention has deleted those since. Both are results of
    `archived`."""
    # One pass over each: an anti-join would read `rows` twice, and a row that retention deletes in between would be
    # lost.
    every = rows.withColumn("old", F.lit(0)).unionByName(archived.withColumn("old", F.lit(1)))
    newest = Window.partitionBy(*KEY).orderBy("old")
    return every.withColumn("place", F.row_number().over(newest)).where(F.col("place") == 1).select(*COLUMNS)


def contents(frame: DataFrame) -> DataFrame:
    """day, client_id, rows, open, newest (the latest instant at which one ended or was redelivered, Unix milliseconds),
    digest."""
    counted = frame.groupBy("day", "client_id").agg(
        F.count(F.lit(1)).alias("rows"),
        F.count(F.when(is_open(), F.lit(1))).alias("open"),
        F.max(F.unix_millis(F.greatest("finished_at", "redelivered_at"))).alias("newest"),
        digest().alias("digest"),
    )
    return counted.select("day", "client_id", "rows", "open", F.coalesce("newest", F.lit(0)).alias("newest"), "digest")


def digest() -> Column:
    """An aggregate: a text that is the same for the same rows in any order. It detects accidental damage, loss,
    duplication and exchange of rows; it does not withstand forgery."""
    return F.coalesce(F.sum(F.xxhash64(*COLUMNS).cast("decimal(20,0)")), F.lit(0)).cast("decimal(38,0)").cast("string")


def is_open() -> Column:
    """Whether a row of a settled minute may still change; see `domain.schedules.Row.over`."""
    state = F.coalesce("state", F.lit(State.SCHEDULED.value))
    left_behind = F.coalesce(F.col("kind") == Kind.RETRY_ROW.value, F.lit(False)) & (state == State.RETRYING.value)
    announced = F.col("created_at").isNull() & (state == State.SCHEDULED.value)
    return ~(state.isin(*ENDED) | left_behind | announced)


def schedules(frame: DataFrame) -> DataFrame:
    """The schedules, without the retry rows of their later attempts."""
    return frame.where(is_accepted(F.col("kind"), F.col("created_at"))).select(*frame.columns)


def by_state(frame: DataFrame) -> DataFrame:
    """day, client_id, state, rows."""
    counted = frame.groupBy("day", "client_id", "state").agg(F.count(F.lit(1)).alias("rows"))
    return counted.select("day", "client_id", "state", "rows")
