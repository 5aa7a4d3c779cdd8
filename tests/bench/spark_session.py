"""The ground on which jobs are measured: a Cassandra of their own, and Spark on two cores of this machine."""

import logging
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from cql.settings import StorageSettings
from minutehand.local.spark import prepare_spark
from spark.session import SparkSettings, open_session
from tests.support.cassandra import SuiteCassandra, embedded_cassandra


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSpark:
    """`session` reads and writes `cassandra`, whose process is `cassandra_pid`; callers create the keyspaces they need.
    `directory` is empty at first and deleted afterwards.
    """

    session: SparkSession
    cassandra: SuiteCassandra
    cassandra_pid: int
    directory: Path


def add_memory(parser: ArgumentParser) -> None:
    """`--memory`, as `local_spark` takes it."""
    parser.add_argument("--memory", default="1g", help="of Spark's Java heap")


@contextmanager
def local_spark(*, memory: str) -> Iterator[LocalSpark]:
    """`memory`: of Spark's heap, in Java's notation. Only warnings are logged."""
    logging.basicConfig(level=logging.WARNING)
    with (
        tempfile.TemporaryDirectory(prefix="minutehand-bench-") as directory,
        embedded_cassandra(heap_mb=1024) as server,
    ):
        suite = SuiteCassandra(server.contact_points, server.port, server.datacenter, server)
        settings = SparkSettings(
            storage=StorageSettings(contact_points=suite.contact_points, port=suite.port, local_dc=suite.datacenter),
            master="local[2]",
            jars=prepare_spark(),
            driver_memory=memory,
        )
        with open_session(settings, name="bench") as session:
            yield LocalSpark(session=session, cassandra=suite, cassandra_pid=server.pid, directory=Path(directory))
