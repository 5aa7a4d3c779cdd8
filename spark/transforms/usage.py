"""Each client's usage, by hour of the due and by day."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scheduler_service.domain.destinations import named_url
from scheduler_service.domain.schedules import State
from scheduler_service.domain.usage import Used
from spark.transforms.rows import how_many, in_state, is_accepted, lateness_ms

READS = ("kind", "created_at", "state", "attempts", "first_attempt_at", "url", "body")
"""The columns of `schedules` that it needs beside the key."""
WHOLE_DAY = -1
"""The `hour` of a row for a whole day."""
TOP_HOSTS = 10
RANKS = 10_000
"""Resolution of percentiles: each is a lateness that occurred, at a rank that is off by 1 in this many at most, and
exact for fewer rows."""
_ENDS = {
    "delivered": (State.DELIVERED,),
    "failed": (State.FAILED,),
    "cancelled": (State.CANCELLED,),
    "skipped": (State.SKIPPED,),
    "open": (State.SCHEDULED, State.RETRYING),
}
_COUNTS = tuple(name for name in Used.__struct_fields__ if not name.startswith("lateness"))
_LATENESS = tuple(name for name in Used.__struct_fields__ if name.startswith("lateness"))
_SHARES = (0.5, 0.95, 0.99)
_HOST = r"^[^:/?#]+://(\[[^\]]*\]|[^:/?#]*)"
"""Java's parser of URLs rejects hosts with an underscore, and accepts any text as a scheme."""
_OF_DESTINATION = "destination:"
"""Before the name of a destination, where others have their host: no host has a colon, but within brackets."""


def used(rows: DataFrame) -> DataFrame:
    """One row for each schedule: its contribution to its client's hour. Retry rows are attempts of a schedule and add
    nothing."""
    state = F.col("state")
    return rows.where(is_accepted(F.col("kind"), F.col("created_at"))).select(
        "client_id",
        F.date_trunc("day", "due").alias("day"),
        F.hour("due").alias("hour"),
        *(in_state(state, *states).alias(name) for name, states in _ENDS.items()),
        F.coalesce("attempts", F.lit(0)).cast("long").alias("attempts"),
        F.coalesce(F.octet_length("body"), F.lit(0)).cast("long").alias("bytes"),
        lateness_ms(F.col("due"), F.col("first_attempt_at")).alias("lateness_ms"),
        _receiver(F.col("url")).alias("host"),
    )


def _receiver(url: Column) -> Column:
    """The host of a row's URL, or `destination:` and the name of the destination there. Where that led is not known: it
    may have got another URL since."""
    name = F.lower(F.regexp_extract(url, _HOST, 1))
    return F.when(url.startswith(named_url("", "")), F.concat(F.lit(_OF_DESTINATION), name)).otherwise(name)


def usage(each: DataFrame) -> DataFrame:
    """client_id, day, hour (or WHOLE_DAY) and the fields of `domain.usage.Used`. `each`: from `used`."""
    lateness = F.percentile_approx("lateness_ms", list(_SHARES), RANKS)
    # Each row counts twice, for its hour and for the day: percentiles of a day can't be derived from those of hours.
    summed = (
        each.withColumn("hour", F.explode(F.array(F.col("hour"), F.lit(WHOLE_DAY))))
        .groupBy("client_id", "day", "hour")
        .agg(
            F.count(F.lit(1)).alias("accepted"),
            *(how_many(F.col(name)).alias(name) for name in _ENDS),
            F.sum("attempts").alias("attempts"),
            F.sum("bytes").alias("bytes"),
            lateness.alias("lateness"),
            F.max("lateness_ms").alias(_LATENESS[-1]),
        )
    )
    shares = [F.col("lateness")[place].cast("long").alias(_LATENESS[place]) for place in range(len(_SHARES))]
    return summed.select("client_id", "day", "hour", *_COUNTS, *shares, _LATENESS[-1])


def failing_hosts(each: DataFrame) -> DataFrame:
    """client_id, day, hosts: an array of (host, failed), the TOP_HOSTS by schedules that failed, ties by name; a
    destination counts as a host of its own. `each`: from `used`; clients' days without failures are absent."""
    counts = each.where("failed").groupBy("client_id", "day", "host").agg(F.count(F.lit(1)).alias("failed"))
    order = F.struct((-F.col("failed")).alias("less"), "host")
    listed = counts.groupBy("client_id", "day").agg(F.sort_array(F.collect_list(order)).alias("all"))
    hosts = F.transform(
        F.slice("all", 1, TOP_HOSTS), lambda one: F.struct(one["host"].alias("host"), (-one["less"]).alias("failed"))
    )
    return listed.select("client_id", "day", hosts.alias("hosts"))


def days(wanted: DataFrame, usage: DataFrame, hosts: DataFrame, *, counted_at: Column) -> DataFrame:
    """The rows of `usage_by_day` for `wanted`: client_id, day, settled (whether no first call of that day is still to
    come). Days without usage are included, with zeros."""
    key = ["client_id", "day"]
    whole = usage.where(F.col("hour") == WHOLE_DAY).drop("hour")
    of_hour = F.struct("hour", *Used.__struct_fields__)
    hours = usage.where(F.col("hour") != WHOLE_DAY).groupBy(*key).agg(F.collect_list(of_hour).alias("hours"))
    joined = wanted.join(whole, key, "left").join(hours, key, "left").join(hosts, key, "left")
    still_open = F.coalesce(F.col("open"), F.lit(0))
    return joined.select(
        "client_id",
        F.date_trunc("month", "day").alias("month"),
        "day",
        (F.col("settled") & (still_open == 0)).alias("complete"),
        counted_at.alias("counted_at"),
        *(F.coalesce(name, F.lit(0)).cast("long").alias(name) for name in _COUNTS),
        *_LATENESS,
        F.coalesce(F.to_json("hosts"), F.lit("[]")).alias("failing_hosts"),
        F.coalesce(F.to_json(F.sort_array("hours")), F.lit("[]")).alias("hours"),
    )


def growing(counted: DataFrame, stored: DataFrame) -> DataFrame:
    """`counted` without the days of which more is stored. A day's accepted count never falls, so fewer rows than before
    mean that retention has deleted some, and the stored count is the better one."""
    more = stored.select("client_id", "day", F.col("accepted").alias("before"))
    joined = counted.join(more, ["client_id", "day"], "left")
    return joined.where(F.col("accepted") >= F.coalesce("before", F.lit(0))).select(*counted.columns)
