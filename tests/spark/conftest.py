"""One Spark session for all tests: alone for transforms, over the suite's Cassandra for jobs."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from py4j.java_gateway import JavaPackage, JVMView
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


@contextmanager
def names_looked_up_once() -> Iterator[None]:
    """Keep what py4j finds under the name of a class or package. Otherwise each call of one of Spark's functions makes
    Java look for it in 300 archives, package by package: an eighth of the CPU time of these tests.
    """
    with pytest.MonkeyPatch.context() as patched:
        for holder in (JVMView, JavaPackage):
            patched.setattr(holder, "__getattr__", _kept(holder.__getattr__))
        yield


def _kept(look_up: Callable[[object, str], object]) -> Callable[[object, str], object]:
    def found(self: object, name: str) -> object:
        result = look_up(self, name)
        vars(self)[name] = result
        return result

    return found


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
        open_.enter_context(names_looked_up_once())
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
