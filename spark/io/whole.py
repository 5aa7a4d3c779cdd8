"""Output that is there whole, or not at all."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark.errors import JobRefused


def refuse_existing(session: SparkSession, path: str) -> None:
    """Raises JobRefused where there is something already: nothing is replaced."""
    if _files(session, path).exists(_path(session, path)):
        raise JobRefused(f"{path} exists; name a place where there is nothing yet")


def write_whole(frame: DataFrame, path: str) -> None:
    """As Parquet, in a directory that gets its name when it is complete. Raises JobRefused."""
    session, partial = frame.sparkSession, f"{path.rstrip('/')}.partial"
    frame.write.mode("overwrite").parquet(partial)
    refuse_existing(session, path)
    if not _files(session, path).rename(_path(session, partial), _path(session, path)):
        raise JobRefused(f"{partial} is complete, and could not be renamed to {path}")


def _path(session: SparkSession, path: str) -> Any:
    return session._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]


def _files(session: SparkSession, path: str) -> Any:
    return _path(session, path).getFileSystem(session._jsc.hadoopConfiguration())
