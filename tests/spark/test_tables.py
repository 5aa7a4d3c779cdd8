"""Reads go by partition key, so that they cost what the window holds."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from minutehand.client import Callback
from spark.io.tables import Tables, WouldScan
from spark.window import Window
from tests.support.processes import Deployment


def test_a_window_of_hours_leads_to_its_rows_by_key(spark: SparkSession, cluster: Deployment) -> None:
    cluster.start_api()
    cluster.start_node("one")
    start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    dues = [start + timedelta(minutes=minute) for minute in (0, 59, 60, 119, 120)]
    key = cluster.register("shop", poller_quota=4)
    with cluster.client("shop", key) as client:
        for due in dues:
            client.schedules.create(Callback(url=cluster.receiver.url), due=due)
    tables = Tables(spark, cluster.storage.keyspace)
    window = Window(start, start + timedelta(hours=2))
    rows = tables.rows(["shop"], window, ("state",))
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Cassandra Direct Join") == 2
    assert "BatchScan" not in plan
    # One task finds the partitions, and many read them.
    assert tables.occupied(["shop"], window).rdd.getNumPartitions() < rows.rdd.getNumPartitions()
    assert rows.columns == ["client_id", "poller_id", "minute", "due", "schedule_id", "state"]
    assert [row.at for row in rows.select(F.unix_millis("due").alias("at")).orderBy("at").collect()] == [
        round(due.timestamp() * 1000) for due in dues[:4]
    ]


def test_a_read_that_would_scan_is_refused(spark: SparkSession, cluster: Deployment) -> None:
    tables = Tables(spark, cluster.storage.keyspace)
    keys = spark.createDataFrame([("shop",)], "client_id string")
    with pytest.raises(WouldScan, match="schedules would be scanned whole"):
        tables.by_key(keys, "schedules", ("poller_id",))
