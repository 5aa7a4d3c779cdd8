"""The tables, read by their partition keys: a read costs what its window holds."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.transforms.rows import packed_in, unpacked
from spark.window import HOUR, Window

_FORMAT = "org.apache.spark.sql.cassandra"
_DIRECT = "Cassandra Direct Join"
PARTITION = ("client_id", "poller_id", "minute")
"""The partition key of `schedules`, `attempts` and similar tables."""


class WouldScan(Exception):
    """The plan of a read does not go by partition keys; it would cost what the table holds."""


class Tables:
    """Reads of one keyspace."""

    def __init__(self, session: SparkSession, keyspace: str) -> None:
        self.keyspace = keyspace
        self._session = session

    def clients(self) -> DataFrame:
        """Every client. This is the only table that is read whole, with one row for each client."""
        return self._table("clients")

    def by_key(self, keys: DataFrame, table: str, columns: Sequence[str], *, beside: Sequence[str] = ()) -> DataFrame:
        """`keys` joined with their rows. The columns of `keys` are the whole partition key, or that and the key within
        the partition, and those in `beside`, which are carried along. Raises WouldScan."""
        key = [name for name in keys.columns if name not in beside]
        wanted = self._table(table).select(*key, *columns)
        joined = keys.join(wanted, key)
        plan = joined._jdf.queryExecution().executedPlan().toString()
        if _DIRECT not in plan.split(f"{self.keyspace}.{table}")[0].rsplit("\n", 1)[-1]:
            raise WouldScan(f"{table} would be scanned whole: are {', '.join(key)} its partition key?")
        return joined

    def hours(self, clients: Sequence[str], window: Window) -> DataFrame:
        """(client_id, hour) for every hour of the window: the key of `occupied_minutes` and `minute_balance`."""
        names = self._session.createDataFrame([(name,) for name in clients], "client_id string")
        # Not a join of clients with hours: Spark would split it and join each side with the table by itself.
        first, last = (F.timestamp_seconds(F.lit(int(at.timestamp()))) for at in (window.start, window.end - HOUR))
        hours = F.sequence(first, last, F.expr("interval 1 hour"))
        return names.select("client_id", F.explode(hours).alias("hour"))

    def occupied(self, clients: Sequence[str], window: Window) -> DataFrame:
        """The partitions that have rows: client_id, poller_id, minute; in as few tasks as the reads that found them."""
        minutes = self.by_key(self.hours(clients, window), "occupied_minutes", ("minute", "poller_id"))
        return minutes.select(*PARTITION)

    def rows(self, clients: Sequence[str], window: Window, columns: Sequence[str]) -> DataFrame:
        """The rows of `schedules` in the window: the key of their partition, due, schedule_id and `columns`."""
        partitions = self.occupied(clients, window)
        # The minutes of a few clients come in one task; the reads of their rows need many.
        spread = partitions.repartition(8 * self._session.sparkContext.defaultParallelism, *partitions.columns)
        read = ("due", "schedule_id", *columns, *packed_in(columns))
        return unpacked(self.by_key(spread, "schedules", read)).select(
            *partitions.columns, "due", "schedule_id", *columns
        )

    def append(self, frame: DataFrame, table: str) -> None:
        """Write rows, replacing those with the same key."""
        frame.write.format(_FORMAT).options(keyspace=self.keyspace, table=table).mode("append").save()

    def _table(self, name: str) -> DataFrame:
        options = {"keyspace": self.keyspace, "table": name, "directJoinSetting": "on"}
        return self._session.read.format(_FORMAT).options(**options).load()
