"""The reads that whole jobs send to Cassandra: none scans what grows with a table."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from minutehand.client import Callback
from tests.spark.jobs import run_job
from tests.support.cassandra import SuiteCassandra
from tests.support.processes import Deployment, deployment

HOUR = timedelta(hours=1)
WHOLE = {"clients"}
"""Tables with a row for each client, which are read whole and listed in `spark.io.tables`."""


class Plans:
    """The physical plans that a session has executed since, from Spark's own status store."""

    def __init__(self, spark: SparkSession) -> None:
        self._store = spark._jsparkSession.sharedState().statusStore()
        self._begun = self._store.executionsCount()

    def carried_out(self) -> list[str]:
        found = self._store.executionsList()
        return [found.apply(position).physicalPlanDescription() for position in range(self._begun, found.size())]

    def scanned(self) -> set[str]:
        """Tables that were read whole: a scan is a step of its own in the plan."""
        return self._named(r"^\W*BatchScan (\w+) \(\d+\)$")

    def joined(self) -> set[str]:
        """Tables that were read by key: the plan mentions their scan only as part of a direct join."""
        return self._named(r"BatchScan (\w+)\[")

    def _named(self, pattern: str) -> set[str]:
        return {name for plan in self.carried_out() for name in re.findall(pattern, plan, re.MULTILINE)}


@pytest.fixture(scope="module")
def served(
    cassandra: SuiteCassandra, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Deployment, datetime]]:
    """A client with schedules now, which is today also in a day's last hour, and in and after the two hours that begin
    at this one.
    """
    with deployment(cassandra, tmp_path_factory.mktemp("plans")) as cluster:
        cluster.start_api()
        cluster.start_node("one")
        key = cluster.register("shop", poller_quota=2)
        hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        with cluster.client("shop", key) as client:
            client.schedules.create(Callback(url=cluster.receiver.url), delay_seconds=0)
            for minutes in (0, 70, 130):
                client.schedules.create(Callback(url=cluster.receiver.url), due=hour + timedelta(minutes=61 + minutes))
        yield cluster, hour


@pytest.mark.parametrize(
    ("job", "read"),
    [
        ("audit_books", {"occupied_minutes", "schedules", "minute_balance", "pollers", "nodes"}),
        ("usage", {"occupied_minutes", "schedules", "pollers", "nodes"}),
        ("capacity", {"occupied_minutes", "schedules", "nodes"}),
    ],
)
def test_a_window_of_an_hour_scans_no_table(
    spark: SparkSession, served: tuple[Deployment, datetime], job: str, read: set[str]
) -> None:
    cluster, hour = served
    window = ["--from", f"{hour:%Y-%m-%dT%H:00Z}", "--to", f"{hour + 2 * HOUR:%Y-%m-%dT%H:00Z}"]
    plans = Plans(spark)
    run_job(spark, cluster, job, *([] if job == "usage" else window))
    assert plans.scanned() == WHOLE
    assert plans.joined() >= read
