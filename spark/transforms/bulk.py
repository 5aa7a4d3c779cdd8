"""What a bulk load has to know of its whole input before a row of it is written."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

FIRST, SAME, OTHER = "first", "same", "other"
"""Of the rows with one key: the first one of its file, one that equals it, one that does not."""


def keyed(rows: DataFrame) -> DataFrame:
    """Of each row where it is, its key, its minute and a hash of what it asks for."""
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
    """The stretches that files are read in: file, block, first_id, rows, blank ones too."""
    stretches = known.groupBy("file", "block").agg(F.min("id").alias("first_id"), F.count(F.lit(1)).alias("rows"))
    return stretches.select("file", "block", "first_id", "rows")


def repeats(known: DataFrame) -> DataFrame:
    """Rows of keys that come more than once: id, place. The order is that of the files by name, so it is the same
    however a cluster cuts them."""
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
    """How many rows each minute gets: minute, rows."""
    counted = known.where(F.col("minute").isNotNull()).groupBy("minute").agg(F.count(F.lit(1)).alias("rows"))
    return counted.select("minute", "rows")


def spread(rows: DataFrame, repeated: DataFrame | None, *, pieces: int, salts: int) -> DataFrame:
    """What the executors get: id, key, row, broken, place, in `pieces`, rows of one minute together and in order.

    A minute is cut into `salts`, or one that has most of the rows would be the work of one core alone.
    """
    wanted = rows.where(~F.coalesce(_is_blank(F.col("row")), F.lit(False)))
    placed = (
        wanted.withColumn("place", F.lit(None).cast("string"))
        if repeated is None
        else wanted.join(repeated, "id", "left")
    )
    minute: Column = F.date_trunc("minute", "due")
    salt = F.pmod(F.xxhash64("key"), F.lit(salts))
    pieced = placed.repartition(pieces, minute, salt).sortWithinPartitions("due")
    return pieced.select("id", "key", "row", "broken", "place")


def _is_blank(text: Column) -> Column:
    return F.trim(text) == ""
