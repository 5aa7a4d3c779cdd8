"""What a bulk load must know about its whole input before it writes a row."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

FIRST, SAME, OTHER = "first", "same", "other"
"""Among rows with one key: the first one, one that equals it, one that does not."""


def keyed(rows: DataFrame) -> DataFrame:
    """For each row its position, key, minute, and a hash of its request."""
    return rows.select(
        "file",
        "block",
        "id",
        F.when(_is_blank(F.col("key")), None).otherwise(F.col("key")).alias("key"),
        F.date_trunc("minute", "due").alias("minute"),
        F.xxhash64("row").alias("asked"),
        F.coalesce(_is_blank(F.col("row")), F.lit(False)).alias("blank"),
    )


def spans(known: DataFrame) -> DataFrame:
    """The blocks that files are read in: file, block, first_id, rows; blank rows are included."""
    stretches = known.groupBy("file", "block").agg(F.min("id").alias("first_id"), F.count(F.lit(1)).alias("rows"))
    return stretches.select("file", "block", "first_id", "rows")


def repeats(known: DataFrame) -> DataFrame:
    """Rows of keys that occur more than once: id, place. Files are ordered by name, so the result does not depend on
    how a cluster splits them."""
    of_key = Window.partitionBy("key").orderBy("file", "block", "id")
    several = known.where(F.col("key").isNotNull()).join(
        known.groupBy("key").agg(F.count(F.lit(1)).alias("times")).where(F.col("times") > 1), "key", "left_semi"
    )
    placed = several.withColumn("asked_first", F.first("asked").over(of_key)).withColumn(
        "turn", F.row_number().over(of_key)
    )
    place = F.when(F.col("turn") == 1, FIRST).when(F.col("asked") == F.col("asked_first"), SAME).otherwise(OTHER)
    return placed.select("id", place.alias("place"))


def crowded(known: DataFrame) -> DataFrame:
    """The number of rows of each minute: minute, rows."""
    counted = known.where(F.col("minute").isNotNull()).groupBy("minute").agg(F.count(F.lit(1)).alias("rows"))
    return counted.select("minute", "rows")


def spread(rows: DataFrame, repeated: DataFrame | None, *, pieces: int, salts: int) -> DataFrame:
    """The executors' input: id, key, row, broken, place, in `pieces`, rows of one minute together and in order.

    A minute is divided into `salts`; otherwise a minute with most of the rows would be the work of one core.
    """
    wanted = rows.where(~F.coalesce(_is_blank(F.col("row")), F.lit(False)))
    placed = (
        wanted.withColumn("place", F.lit(None).cast("string"))
        if repeated is None
        else wanted.join(repeated, "id", "left")
    )
    minute: Column = F.date_trunc("minute", "due")
    # By key, not at random: a repeated task must get the same rows again.
    salt = F.pmod(F.xxhash64("key"), F.lit(salts))
    pieced = placed.repartition(pieces, minute, salt).sortWithinPartitions("due")
    return pieced.select("id", "key", "row", "broken", "place")


def _is_blank(text: Column) -> Column:
    return F.trim(text) == ""
