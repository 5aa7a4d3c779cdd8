"""How a program reaches Spark and Cassandra. Only this and `spark.secured` know the connector's settings."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkConf
from pyspark.sql import SparkSession

from cql.settings import StorageSettings
from scheduler_service.domain.client_bounds import UNBOUND, ClientBounds
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.usecases.secret_encryption import SecretSettings
from spark import secured
from spark.io.submitted import submitted_bounds, submitted_policy, submitted_secrets, submitted_storage

_LOGGING = Path(__file__).with_name("log4j2.properties")
_EXTENSIONS = "com.datastax.spark.connector.CassandraSparkExtensions"

PUBLIC_ONLY = NetworkPolicy()
"""What callbacks may reach unless the operator configures something else."""
IN_THE_CLEAR = SecretSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """`storage`: where Cassandra is and how to log in, for Spark's connector and for our own stores. `master` None
    leaves it to spark-submit, and so do empty `jars`. `driver_memory` as Java writes it. `shuffle_partitions`: into how
    many pieces a frame is cut where it is regrouped; a few for each core. `policy` and `bounds`: the operator's limits
    on what callbacks may reach and clients may request. `secrets`: how headers are encrypted."""

    storage: StorageSettings
    master: str | None = None
    jars: Sequence[Path] = ()
    driver_memory: str = "1g"
    shuffle_partitions: int = 8
    policy: NetworkPolicy = PUBLIC_ONLY
    bounds: ClientBounds = UNBOUND
    secrets: SecretSettings = IN_THE_CLEAR


def submitted_settings(conf: SparkConf) -> SparkSettings:
    """The settings of spark-submit, under the connector's own names; `spark.minutehand.*` are ours (`io.submitted`).
    Raises ValueError for invalid ones."""
    return SparkSettings(
        storage=submitted_storage(conf),
        shuffle_partitions=int(conf.get("spark.sql.shuffle.partitions") or 200),
        policy=submitted_policy(conf),
        bounds=submitted_bounds(conf),
        secrets=submitted_secrets(conf),
    )


@contextmanager
def open_session(settings: SparkSettings, *, name: str) -> Iterator[SparkSession]:
    """A session for this program, closed at the end. All instants are UTC; in a local session nothing listens beyond
    loopback.

    A local session speaks TLS by files that are made here and removed with it. On a cluster's machines they would be
    missing, so there the connector's own settings name such files. Raises FilesUnusable, and with TLS what
    `Session.open` raises.
    """
    storage = settings.storage
    with ExitStack() as open_:
        conf = secured.login(storage)
        if settings.master is not None:
            conf |= open_.enter_context(secured.tls(storage))
        session = _builder(settings, name).getOrCreate()
        open_.callback(session.stop)
        session.sparkContext.setLogLevel("ERROR")
        for key, value in conf.items():
            # Settings of the builder become part of Java's command line; these may be secret.
            session.conf.set(key, value)
        yield session


def _builder(settings: SparkSettings, name: str) -> SparkSession.Builder:
    storage = settings.storage
    builder = (
        SparkSession.builder.appName(f"minutehand-{name}")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.extensions", _EXTENSIONS)
        .config("spark.sql.shuffle.partitions", settings.shuffle_partitions)
        .config("spark.cassandra.connection.host", ",".join(storage.contact_points))
        .config("spark.cassandra.connection.port", storage.port)
        .config("spark.cassandra.connection.localDC", storage.local_dc)
        .config("spark.cassandra.input.consistency.level", "LOCAL_QUORUM")
        .config("spark.cassandra.output.consistency.level", "LOCAL_QUORUM")
    )
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
    return builder
