"""The books, from raw rows: the counts of each poller's minute, and whether the stored balance agrees.

A stored balance is compared only if every row of its partition was read with its stamp (`domain.books`: while the stamp
stands, no outcome has changed). A balance with another stamp is out of date, not wrong.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from scheduler_service.domain.schedules import State
from spark.transforms.rows import how_many, in_state, is_accepted

ENDS = ("delivered", "failed", "cancelled", "skipped")
COUNTS = ("accepted", *ENDS, "open")
READS = ("kind", "created_at", "state", "version", "edits")
"""The columns of `schedules` that it needs beside the key."""
_KEY = ("client_id", "poller_id", "minute")


def counted(rows: DataFrame) -> DataFrame:
    """client_id, poller_id, minute, settled, the counts of its calls, the partition's stamp (version, edits), and
    `stamps`: how many different ones its rows were read with. Retry rows are not counted, only their originals."""
    accepted, state = is_accepted(F.col("kind"), F.col("created_at")), F.col("state")
    of = {
        **{name: in_state(state, State(name)) for name in ENDS},
        "open": in_state(state, State.SCHEDULED, State.RETRYING),
    }
    # Grouped by stamp, since an aggregate of text, such as the first one, would sort all rows.
    by_stamp = rows.groupBy(*_KEY, "settled", "version", "edits").agg(
        how_many(accepted).alias("accepted"),
        *(how_many(accepted & condition).alias(name) for name, condition in of.items()),
    )
    return (
        by_stamp.groupBy(*_KEY)
        .agg(
            F.first("settled").alias("settled"),
            *(F.sum(name).alias(name) for name in COUNTS),
            F.first("version").alias("version"),
            F.first("edits").alias("edits"),
            F.count(F.lit(1)).alias("stamps"),
        )
        .select(*_KEY, "settled", *COUNTS, "version", "edits", "stamps")
    )


def totals(counts: DataFrame) -> DataFrame:
    """client_id and the counts over all of its partitions."""
    return counts.groupBy("client_id").agg(*(F.sum(name).alias(name) for name in COUNTS)).select("client_id", *COUNTS)


def differing(counts: DataFrame, balances: DataFrame) -> DataFrame:
    """Settled partitions whose stored balance has their stamp and other counts: the key, and both counts of each as
    structs `rows` and `balance`."""
    stored = balances.select(*_KEY, _counts().alias("balance"), "version", "edits")
    same_stamp = F.col("one.version").eqNullSafe(F.col("other.version")) & F.col("one.edits").eqNullSafe(
        F.col("other.edits")
    )
    one = counts.where(F.col("settled") & (F.col("stamps") == 1)).select(
        *_KEY, _counts().alias("rows"), "version", "edits"
    )
    on = [F.col(f"one.{name}") == F.col(f"other.{name}") for name in _KEY]
    joined = one.alias("one").join(stored.alias("other"), [*on, same_stamp])
    return joined.where(F.col("rows") != F.col("balance")).select(
        *(F.col(f"one.{name}").alias(name) for name in _KEY), "rows", "balance"
    )


def lost(differing: DataFrame, stranded: DataFrame) -> DataFrame:
    """The keys of partitions whose books count every stranded row as ended. `stranded`: the key, once for each such
    call."""
    several = stranded.groupBy(*_KEY).agg(F.count(F.lit(1)).alias("stranded"))
    joined = differing.join(several, list(_KEY))
    return joined.where(_more("open") - _more("accepted") >= F.col("stranded")).select(*_KEY)


def explained(differing: DataFrame, found: DataFrame) -> DataFrame:
    """The keys of differences that wrong rows explain, for which there are findings already. `found`: the key, once for
    each row. A wrong row adds at most one to accepted, and has left one state for another."""
    several = found.groupBy(*_KEY).agg(F.count(F.lit(1)).alias("found"))
    joined = differing.join(several, list(_KEY))
    moved = sum((F.abs(_more(name)) for name in ENDS), F.abs(_more("open")))
    within = (F.abs(_more("accepted")) <= F.col("found")) & (moved <= 2 * F.col("found"))
    return joined.where(within).select(*_KEY)


def _counts() -> Column:
    return F.struct(*(F.coalesce(F.col(name), F.lit(0)).cast("int").alias(name) for name in COUNTS))


def _more(name: str) -> Column:
    return F.col(f"rows.{name}") - F.col(f"balance.{name}")
