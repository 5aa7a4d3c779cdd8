"""Spark on this machine: its Java, and the jars that it needs beside its own."""

import importlib.util
import os
import sys
from pathlib import Path

from minutehand.local.errors import SparkMissing
from minutehand.local.jars import JarStore, cache_directory
from minutehand.local.java import find_java
from minutehand.local.lock_file import read_lock
from minutehand.local.maven import MavenRepository
from minutehand.local.progress import Progress, silent


def require_spark() -> None:
    """Raises SparkMissing."""
    if importlib.util.find_spec("pyspark") is None:
        raise SparkMissing


def prepare_spark(progress: Progress = silent) -> list[Path]:
    """Set the variables that Spark reads in this process's environment; answer the connector's jars, downloaded and
    verified. Raises LocalError."""
    require_spark()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # Python workers must import the same packages as this program.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["JAVA_HOME"] = str(find_java().parent.parent)
    store = JarStore(cache_directory(), MavenRepository.from_environment())
    return store.ensure(read_lock("spark"), progress)
