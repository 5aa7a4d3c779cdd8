"""How a program reaches Spark and Cassandra. The only place that knows the connector's settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkConf
from pyspark.sql import SparkSession

from scheduler_service.domain.client_bounds import UNBOUND, ClientBounds
from scheduler_service.domain.network import NetworkPolicy
from spark.io.submitted import submitted_bounds, submitted_policy

_LOGGING = Path(__file__).with_name("log4j2.properties")
_EXTENSIONS = "com.datastax.spark.connector.CassandraSparkExtensions"

PUBLIC_ONLY = NetworkPolicy()
"""What callbacks may reach where the operator has said nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """`master`: None leaves it to spark-submit, and so do `jars` where there are none. `driver_memory` as Java writes
    it. `shuffle_partitions`: how many pieces a frame is cut into where it is regrouped; a few for each core. `policy`
    and `bounds`: what the operator lets callbacks reach, and clients ask for."""

    contact_points: tuple[str, ...]
    port: int
    datacenter: str
    keyspace: str
    username: str | None = None
    password: str | None = None
    master: str | None = None
    jars: Sequence[Path] = ()
    driver_memory: str = "1g"
    shuffle_partitions: int = 8
    policy: NetworkPolicy = PUBLIC_ONLY
    bounds: ClientBounds = UNBOUND


def submitted_settings(conf: SparkConf) -> SparkSettings:
    """What spark-submit was told, in the connector's own words; `spark.minutehand.*` is ours (`io.submitted`)."""
    return SparkSettings(
        contact_points=tuple((conf.get("spark.cassandra.connection.host") or "127.0.0.1").split(",")),
        port=int(conf.get("spark.cassandra.connection.port") or 9042),
        datacenter=conf.get("spark.cassandra.connection.localDC") or "datacenter1",
        keyspace=conf.get("spark.minutehand.keyspace") or "minutehand",
        shuffle_partitions=int(conf.get("spark.sql.shuffle.partitions") or 200),
        policy=submitted_policy(conf),
        bounds=submitted_bounds(conf),
    )


def open_session(settings: SparkSettings, *, name: str) -> SparkSession:
    """A session of this program's own. All instants are UTC; nothing listens beyond loopback in a local one."""
    builder = (
        SparkSession.builder.appName(f"minutehand-{name}")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.extensions", _EXTENSIONS)
        .config("spark.sql.shuffle.partitions", settings.shuffle_partitions)
        .config("spark.cassandra.connection.host", ",".join(settings.contact_points))
        .config("spark.cassandra.connection.port", settings.port)
        .config("spark.cassandra.connection.localDC", settings.datacenter)
        .config("spark.cassandra.input.consistency.level", "LOCAL_QUORUM")
        .config("spark.cassandra.output.consistency.level", "LOCAL_QUORUM")
    )
    if settings.username is not None and settings.password is not None:
        builder = builder.config("spark.cassandra.auth.username", settings.username)
        builder = builder.config("spark.cassandra.auth.password", settings.password)
    if settings.jars:
        builder = builder.config("spark.jars", ",".join(map(str, settings.jars)))
    if settings.master is not None:
        builder = (
            builder.master(settings.master)
            .config("spark.driver.memory", settings.driver_memory)
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={_LOGGING}")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
        )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
