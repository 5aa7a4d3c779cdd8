"""Refusals of jobs, and sentences from Spark's errors."""

import re
from typing import Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

SPARK_FAILED: Final = (PySparkException, Py4JJavaError)
"""What Spark raises: its own errors, and those of Java."""
_LAST_LINE = re.compile(r"^(?:\w+\.)*(\w+): (.+)$", re.MULTILINE)
_JAVA_KIND = re.compile(r"^(?:[a-z]\w*\.)+\w+: ")


class JobRefused(Exception):
    """The job can't be done; the message says why and what to do. Nothing was written, or what was written does not
    count as complete."""


def cause_of(error: Exception) -> str:
    """A sentence from one of SPARK_FAILED: the last line of a Python traceback where there is one, else the first of
    Java's without the name of its class."""
    text = str(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    python = text.split("\n\tat ", 1)[0]
    told = _LAST_LINE.findall(python) if "Traceback" in python else []
    line = str(told[-1][1]) if told else _JAVA_KIND.sub("", text.strip().splitlines()[0])
    return line.rstrip(".") + "."
