"""Files and directories wherever Hadoop reaches (a path, or a URL such as s3a://bucket/path), and output that is
complete or absent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from spark.errors import JobRefused


class Listed(NamedTuple):
    """`size` in bytes; meaningless for a directory."""

    name: str
    size: int
    directory: bool


class Files:
    """The file system of one directory. Failures raise JobRefused with the file system's own message."""

    def __init__(self, session: SparkSession, directory: str) -> None:
        jvm: Any = session._jvm
        java_session: Any = session._jsc
        self._jvm = jvm
        with _refused(directory, "can't be used"):
            path = jvm.org.apache.hadoop.fs.Path(directory)
            self._system = path.getFileSystem(java_session.hadoopConfiguration())
            self.root = str(self._system.makeQualified(path).toString())
            """The directory as a URL."""

    def list(self, path: str) -> list[Listed]:
        """The entries by name; empty where the directory does not exist."""
        with _refused(path, "can't be read"):
            where = self._path(path)
            if not self._system.exists(where):
                return []
            found = self._system.listStatus(where)
        listed = [Listed(str(one.getPath().getName()), int(one.getLen()), bool(one.isDirectory())) for one in found]
        return sorted(listed)

    def exists(self, path: str) -> bool:
        with _refused(path, "can't be read"):
            return bool(self._system.exists(self._path(path)))

    def make(self, path: str) -> None:
        """Make a directory and its parents."""
        with _refused(path, "can't be written"):
            if not self._system.mkdirs(self._path(path)):
                raise JobRefused(f"{path} can't be written")

    def move(self, source: str, target: str) -> None:
        """Rename a directory or file; the target must not exist."""
        self.make(target.rpartition("/")[0])
        with _refused(target, "can't be written"):
            where = self._path(target)
            # If the target is a directory, some file systems would move into it.
            if self._system.exists(where) or not self._system.rename(self._path(source), where):
                raise JobRefused(f"{source} can't be renamed to {target}")

    def delete(self, path: str) -> None:
        """Delete a path with its contents; does nothing where it does not exist."""
        with _refused(path, "can't be deleted"):
            self._system.delete(self._path(path), True)

    def read(self, path: str) -> bytes | None:
        """Read a small file; None where it does not exist."""
        with _refused(path, "can't be read"):
            where = self._path(path)
            if not self._system.exists(where):
                return None
            stream = self._system.open(where)
            try:
                return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

    def write(self, path: str, data: bytes) -> None:
        """Write a small file, replacing an existing one."""
        with _refused(path, "can't be written"):
            stream = self._system.create(self._path(path), True)
            try:
                stream.write(bytearray(data))
            finally:
                stream.close()

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)


@contextmanager
def _refused(path: str, why: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        said = str(error.java_exception.getMessage() or error.java_exception.getClass().getSimpleName())
        raise JobRefused(f"{path} {why}: {said.splitlines()[0]}") from error


def refuse_existing(session: SparkSession, path: str) -> None:
    """Raises JobRefused where the path exists: nothing is replaced."""
    if _files(session, path).exists(_path(session, path)):
        raise JobRefused(f"{path} exists; name a place where there is nothing yet")


def write_whole(frame: DataFrame, path: str) -> None:
    """Write Parquet into a directory that gets its name when it is complete. Raises JobRefused."""
    session, partial = frame.sparkSession, f"{path.rstrip('/')}.partial"
    frame.write.mode("overwrite").parquet(partial)
    refuse_existing(session, path)
    if not _files(session, path).rename(_path(session, partial), _path(session, path)):
        raise JobRefused(f"{partial} is complete, and could not be renamed to {path}")


def _path(session: SparkSession, path: str) -> Any:
    return session._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]


def _files(session: SparkSession, path: str) -> Any:
    return _path(session, path).getFileSystem(session._jsc.hadoopConfiguration())
