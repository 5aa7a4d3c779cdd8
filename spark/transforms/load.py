"""Calls of each poller's minute, compared with a poller's guarantee, and the quota that would suffice.

Only minutes that have calls count: a client that is busy for one hour of the day must be served in that hour. The 99th
percentile is over them, so of a hundred busy minutes one may exceed it.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE
from scheduler_service.domain.schedules import State
from spark.transforms.rows import in_state

READS = ("created_at", "state")
"""The columns of `schedules` that it needs beside the key."""
TARGET_SHARE = 0.7
"""The share of the guarantee within which a poller's 99th percentile minute must stay at the recommended quota. The
rest is for retries, and for growth until the next run."""
TARGET = round(TARGET_SHARE * GUARANTEED_CALLS_PER_MINUTE)
HOTTEST = 5

_P99 = "percentile_disc(0.99) WITHIN GROUP (ORDER BY {})"


def poller_minutes(rows: DataFrame) -> DataFrame:
    """client_id, poller_id, minute, calls: the rows that are or were to be called there. Retry rows count, since each
    is a call; cancelled and skipped rows do not."""
    called = F.col("created_at").isNotNull() & ~in_state(F.col("state"), State.CANCELLED, State.SKIPPED)
    counts = rows.where(called).groupBy("client_id", "poller_id", "minute").agg(F.count(F.lit(1)).alias("calls"))
    return counts.select("client_id", "poller_id", "minute", "calls")


def minutes(pollers: DataFrame) -> DataFrame:
    """client_id, minute, calls, poller_calls (of its fullest poller). `pollers`: from `poller_minutes`."""
    summed = pollers.groupBy("client_id", "minute").agg(
        F.sum("calls").alias("calls"), F.max("calls").alias("poller_calls")
    )
    return summed.select("client_id", "minute", "calls", "poller_calls")


def totals(each: DataFrame) -> DataFrame:
    """minute, calls: over all clients. `each`: from `minutes`."""
    return each.groupBy("minute").agg(F.sum("calls").alias("calls")).select("minute", "calls")


def hottest(each: DataFrame, *, now: Column) -> DataFrame:
    """client_id, ahead, minute, calls, poller_calls: each client's HOTTEST minutes before `now`'s, and as many from it
    on; ties by time."""
    placed = each.withColumn("ahead", F.col("minute") >= F.date_trunc("minute", now))
    order = Window.partitionBy("client_id", "ahead").orderBy(F.col("calls").desc(), "minute")
    ranked = placed.withColumn("rank", F.row_number().over(order)).where(F.col("rank") <= HOTTEST)
    return ranked.select("client_id", "ahead", "minute", "calls", "poller_calls")


def loads(clients: DataFrame, pollers: DataFrame, each: DataFrame) -> DataFrame:
    """One row for each of `clients` (client_id, quota), with null or zero where there are no calls.

    poller_max, poller_p99, poller_mean: calls of a poller's minute. minute_max, minute_p99: of a minute over all
    pollers. skew: the calls of the fullest poller over all minutes, relative to the mean of the pollers; pollers of the
    quota without calls are included.

    recommended: the quota at which a poller's 99th percentile minute stays within TARGET. That is as many pollers as
    the client's 99th percentile minute needs if it is spread evenly. Where a poller's is beyond TARGET today, it is at
    least the quota that reduces that poller in proportion, because load that ordering keys hold together is not spread
    evenly.
    """
    of_pollers = pollers.groupBy("client_id").agg(
        F.max("calls").alias("poller_max"),
        F.expr(_P99.format("calls")).cast("long").alias("poller_p99"),
        F.avg("calls").alias("poller_mean"),
    )
    of_minutes = each.groupBy("client_id").agg(
        F.sum("calls").alias("calls"),
        F.max("calls").alias("minute_max"),
        F.expr(_P99.format("calls")).cast("long").alias("minute_p99"),
    )
    of_poller = pollers.groupBy("client_id", "poller_id").agg(F.sum("calls").alias("calls"))
    fullest = of_poller.groupBy("client_id").agg(F.max("calls").alias("fullest"), F.count(F.lit(1)).alias("used"))
    joined = clients
    for one in (of_pollers, of_minutes, fullest):
        joined = joined.join(one, "client_id", "left")
    quota = F.col("quota")
    even = F.ceil(F.col("minute_p99") / TARGET)
    uneven = F.when(F.col("poller_p99") > TARGET, F.ceil(quota * F.col("poller_p99") / TARGET))
    return joined.select(
        "client_id",
        "quota",
        F.coalesce("calls", F.lit(0)).alias("calls"),
        *("poller_max", "poller_p99", "poller_mean", "minute_max", "minute_p99"),
        (F.col("fullest") * F.greatest(quota, "used") / F.col("calls")).alias("skew"),
        F.greatest(F.lit(1), even, uneven).cast("int").alias("recommended"),
    )
