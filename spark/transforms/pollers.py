"""How far each poller is settled: every minute before its position is settled, so nothing there waits any more.

The rule is that of `membership.lease`: a lagging poller is at its own row's watermark; any other is at its owner's low
watermark, if that is later.

The order of reads matters. A poller that does not lag is at or above every low watermark that its owner has sent so
far; a low watermark that is sent later says nothing about it, because the poller may have begun to lag. So `nodes` must
be read, completely, before `pollers` are."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_MINUTE_SECONDS = 60


def positions(pollers: DataFrame, nodes: DataFrame) -> DataFrame:
    """client_id, poller_id, settled_before: an instant. `nodes` may have incarnations of any age."""
    low_watermarks = nodes.select(
        F.col("node_id").alias("owner_node"), F.col("incarnation").alias("owner_incarnation"), F.col("floor")
    )
    owned = pollers.join(low_watermarks, ["owner_node", "owner_incarnation"], "left")
    leading = F.when(~F.col("lagging"), F.col("floor"))
    minute = F.greatest(F.col("watermark"), F.coalesce(leading, F.col("watermark")))
    return owned.select("client_id", "poller_id", F.timestamp_seconds(minute * _MINUTE_SECONDS).alias("settled_before"))


def with_settled(partitions: DataFrame, positions: DataFrame, *, minute: str = "minute") -> DataFrame:
    """The same with `settled`: whether the minute of that column is settled. An unknown poller has settled nothing."""
    joined = partitions.join(F.broadcast(positions), ["client_id", "poller_id"], "left")
    return joined.select(*partitions.columns, _before(minute).alias("settled"))


def _before(minute: str) -> Column:
    return F.coalesce(F.col(minute) < F.col("settled_before"), F.lit(False))
