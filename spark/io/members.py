"""The nodes of the cluster, and how far pollers are settled."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cql.members import CLUSTER
from membership.ports import NodeState
from spark.io.tables import Tables
from spark.transforms.pollers import positions

SILENT_MS = 60_000
"""A node whose heartbeat is older, by this process's clock, counts as gone. Good enough for a report, for nothing
else."""

_NODE = "node_id string, incarnation long, state string, floor long, capacity_per_minute long, wall_ms long"


class Pollers(NamedTuple):
    """A client's pollers: how many are known, and the instant (Unix seconds) before which all of them are settled."""

    known: int
    settled_before: int


def pollers(session: SparkSession, tables: Tables, clients: Sequence[str]) -> Mapping[str, Pollers]:
    """Of each client that has any.

    The low watermarks are read before the rows of the pollers. In the other order a poller could be released in
    between, and its former owner's low watermark, which does not cover it any more, would be taken for its position."""
    low_watermarks = session.createDataFrame(_nodes(session, tables).collect(), _NODE)
    names = session.createDataFrame([(name,) for name in clients], "client_id string")
    columns = ("poller_id", "owner_node", "owner_incarnation", "watermark", "lagging")
    behind = positions(tables.by_key(names, "pollers", columns), low_watermarks).groupBy("client_id")
    found = behind.agg(F.count(F.lit(1)), F.min(F.unix_seconds("settled_before"))).collect()
    return {client_id: Pollers(count, settled_before) for client_id, count, settled_before in found}


def capacity_per_minute(session: SparkSession, tables: Tables, *, now: datetime) -> int:
    """The calls a minute that all live nodes together are sized for."""
    since = round(now.timestamp() * 1000) - SILENT_MS
    live = _nodes(session, tables).where((F.col("state") == NodeState.LIVE.value) & (F.col("wall_ms") >= since))
    found = live.select("node_id", "incarnation", "capacity_per_minute").collect()
    if not found:
        return 0
    incarnations = session.createDataFrame(
        [(one.node_id, one.incarnation) for one in found], "node_id string, incarnation long"
    )
    alive = {
        (one.node_id, one.incarnation)
        for one in tables.by_key(incarnations, "lives", ("state",)).where(F.col("state") == "live").collect()
    }
    return sum(one.capacity_per_minute for one in found if (one.node_id, one.incarnation) in alive)


def _nodes(session: SparkSession, tables: Tables) -> DataFrame:
    cluster = session.createDataFrame([(CLUSTER,)], "cluster string")
    columns = ("node_id", "incarnation", "state", "floor", "capacity_per_minute", "wall_clock")
    found = tables.by_key(cluster, "nodes", columns)
    return found.select(*columns[:-1], F.unix_millis("wall_clock").alias("wall_ms"))
