"""The stores of the `cql` room, for what is a row here and there: reports, and what the use cases do."""

from pyspark.sql import SparkSession

from cql.settings import StorageSettings

_TIMEOUT_SECONDS = 10.0


def storage_settings(session: SparkSession, keyspace: str) -> StorageSettings:
    """To where the session's connector reads from. Jobs wait longer for an answer than servers do."""
    conf = session.conf
    return StorageSettings(
        contact_points=tuple((conf.get("spark.cassandra.connection.host", None) or "127.0.0.1").split(",")),
        port=int(conf.get("spark.cassandra.connection.port", None) or 9042),
        local_dc=conf.get("spark.cassandra.connection.localDC", None) or "datacenter1",
        username=conf.get("spark.cassandra.auth.username", None),
        password=conf.get("spark.cassandra.auth.password", None),
        keyspace=keyspace,
        request_timeout_seconds=_TIMEOUT_SECONDS,
    )
