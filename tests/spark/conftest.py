"""One Spark session for all tests: alone for transforms, over the suite's Cassandra for jobs."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cql.settings import StorageSettings
from minutehand.local.spark import prepare_spark
from spark.session import SparkSettings, open_session
from tests.support.cassandra import SuiteCassandra
from tests.support.processes import Deployment, deployment

# What pays off only after minutes, or over many rows: Java's second compiler, its parallel collector, and the classes
# that Spark generates for each plan.
SHORT_LIVED = (
    '--conf "spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" '
    "--conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN pyspark-shell"
)


@pytest.fixture(scope="session")
def spark(cassandra: SuiteCassandra) -> Iterator[SparkSession]:
    """A session that reads and writes the suite's Cassandra."""
    settings = SparkSettings(
        storage=StorageSettings(
            contact_points=cassandra.contact_points, port=cassandra.port, local_dc=cassandra.datacenter
        ),
        master="local[2]",
        jars=prepare_spark(),
        shuffle_partitions=2,
    )
    with ExitStack() as open_:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("PYSPARK_SUBMIT_ARGS", SHORT_LIVED)
            session = open_.enter_context(open_session(settings, name="tests"))
        yield session


@pytest.fixture
def cluster(cassandra: SuiteCassandra, tmp_path: Path) -> Iterator[Deployment]:
    """A keyspace of its own and a receiver; the test starts the API and nodes."""
    with deployment(cassandra, tmp_path) as built:
        yield built


@pytest.fixture(scope="module")
def shop(cassandra: SuiteCassandra, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """One client without schedules, for tests that change nothing."""
    with deployment(cassandra, tmp_path_factory.mktemp("shop")) as built:
        built.start_api()
        built.register("shop", poller_quota=2)
        yield built
