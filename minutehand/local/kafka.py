"""One embedded Kafka: the recipe (`EmbeddedKafka`) and the running broker (`RunningKafka`).

The broker is its own controller (KRaft), so one process is a whole cluster. It is always tied to this process.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from minutehand.errors import LocalError
from minutehand.local.diagnosis import last_complaint, tail
from minutehand.local.errors import DataDirLocked, DiskFull, PortBusy, StartFailed
from minutehand.local.file_lock import FileLock
from minutehand.local.jars import JarStore, cache_directory
from minutehand.local.java import find_java
from minutehand.local.kafka_handshake import answers_kafka
from minutehand.local.kafka_settings import KafkaSettings, format_command, java_command, write_configuration
from minutehand.local.lock_file import read_lock
from minutehand.local.machine import (
    DISK_MB,
    available_memory_mb,
    check_disk,
    check_loopback,
    check_memory,
    check_port,
    free_ports,
)
from minutehand.local.maven import MavenRepository
from minutehand.local.progress import Progress, silent
from minutehand.local.running_server import RunningServer
from minutehand.local.state import lock_path
from minutehand.processes.children import TiedChild

JAR_SETS = ("kafka", "kafka-logging")
SERVER = "Kafka"
LEAST_HEAP_MB = 128
KAFKA_BESIDE_HEAP_MB = 200
"""Memory of a small broker beside its heap: classes, compiled code, threads, buffers, mapped files."""
_POLL_SECONDS = 0.05
_FORMAT_SECONDS = 120.0
_GRACE_SECONDS = 20.0
_CHOICES = 3
_PORT_SETTING = "`port`"
"""The argument, as no command has an option for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedKafka:
    """How to start one broker; it may be started repeatedly, one broker at a time.

    `data_dir` keeps records, logs and generated configuration. `heap_mb` from 128. A topic that is not there is made at
    its first use only with `create_topics`. `properties` override settings of `server.properties`, such as further
    listeners; the one on `host` and `port` stays without TLS and passwords. What the broker acknowledged survives its
    kill, and not the machine's.
    """

    data_dir: Path
    port: int
    controller_port: int
    host: str = "127.0.0.1"
    heap_mb: int = 256
    create_topics: bool = False
    start_seconds: float = 120.0
    properties: Mapping[str, str] = field(default_factory=dict)
    java_options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def start(self, progress: Progress = silent) -> "RunningKafka":
        """Return when the broker serves clients. Raises `LocalError`, leaving nothing."""
        directory = self.data_dir.expanduser().absolute()
        check_loopback(self.host)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(lock_path(directory))
        if not lock.try_acquire():
            raise DataDirLocked(data_dir=directory, holder="", server=SERVER)
        try:
            # A broker that was started has inherited the lock and keeps it after the release below.
            return self._start(directory, lock, progress)
        finally:
            lock.release()

    def check(self, progress: Progress = silent) -> tuple[Path, list[Path]]:
        """Raise `LocalError` for what would keep the broker from starting, apart from another one on `data_dir`.

        Returns Java and Kafka's jars, and downloads those that are missing.
        """
        self._check_ports()
        check_memory(
            self.heap_mb, available_memory_mb(), beside_mb=KAFKA_BESIDE_HEAP_MB, server=SERVER, least_mb=LEAST_HEAP_MB
        )
        check_disk(self.data_dir.expanduser())
        java = find_java(self.environment)
        store = JarStore(cache_directory(self.environment), MavenRepository.from_environment(self.environment))
        return java, [jar for name in JAR_SETS for jar in store.ensure(read_lock(name), progress)]

    def _start(self, directory: Path, lock: FileLock, progress: Progress) -> "RunningKafka":
        java, jars = self.check(progress)
        settings = self._settings(directory)
        shutil.rmtree(settings.scratch_dir, ignore_errors=True)
        settings.log_file.unlink(missing_ok=True)
        write_configuration(settings)
        if not (settings.records_dir / "meta.properties").exists():
            progress(0, 100, f"formatting {settings.records_dir} for Kafka")
            self._format(java, jars, settings)
        # Checked a second time: the download may have taken minutes.
        self._check_ports()
        command = java_command(java, jars, settings)
        child = TiedChild(command, console=settings.console_file, directory=directory, lock=lock.fileno())
        try:
            self._await_service(child, settings, progress)
        except BaseException:
            child.end(0.0)
            raise
        return RunningKafka(data_dir=directory, host=self.host, port=self.port, child=child)

    def _check_ports(self) -> None:
        check_port(self.host, self.port, setting=_PORT_SETTING)
        check_port(self.host, self.controller_port, setting=_PORT_SETTING)

    def _settings(self, directory: Path) -> KafkaSettings:
        return KafkaSettings(
            data_dir=directory,
            host=self.host,
            port=self.port,
            controller_port=self.controller_port,
            heap_mb=self.heap_mb,
            create_topics=self.create_topics,
            properties=self.properties,
            java_options=self.java_options,
        )

    def _format(self, java: Path, jars: list[Path], settings: KafkaSettings) -> None:
        command = format_command(java, jars, settings)
        with settings.console_file.open("wb") as output:
            try:
                done = subprocess.run(command, stdout=output, stderr=output, timeout=_FORMAT_SECONDS, check=False)
            except subprocess.TimeoutExpired as error:
                reason = f"its data directory was not formatted within {_FORMAT_SECONDS:.0f} s"
                raise StartFailed(reason=reason, log_file=settings.console_file, server=SERVER) from error
        if done.returncode != 0:
            raise self._explain(settings, done.returncode)

    def _await_service(self, child: TiedChild, settings: KafkaSettings, progress: Progress) -> None:
        begun = time.monotonic()
        what = f"starting Kafka on {self.host}, port {self.port}"
        progress(0, 100, what)
        while not answers_kafka(self.host, self.port):
            code = child.exit_code()
            if code is not None:
                raise self._explain(settings, code)
            if time.monotonic() - begun > self.start_seconds:
                said = last_complaint(tail(settings.log_file)) or "it has logged nothing"
                raise StartFailed(
                    reason=f"no answer within {self.start_seconds:.0f} s; last: {said}",
                    log_file=settings.log_file,
                    server=SERVER,
                )
            time.sleep(_POLL_SECONDS)
        progress(100, 100, what)

    def _explain(self, settings: KafkaSettings, exit_code: int) -> LocalError:
        """The error that says why Java ended with `exit_code` (128 + signal)."""
        log = tail(settings.log_file)
        text = tail(settings.console_file) + "\n" + log
        if re.search(r"Socket server failed to bind|Address already in use", text):
            port = self.controller_port if re.search(rf"bind to \S*:{self.controller_port}\b", text) else self.port
            return PortBusy(host=self.host, port=port, setting=_PORT_SETTING)
        if re.search(r"No space left on device|[Dd]isk quota exceeded", text):
            return DiskFull(directory=settings.data_dir, available_mb=None, needed_mb=DISK_MB)
        reason = last_complaint(text) or f"it ended with code {exit_code} and without output."
        return StartFailed(reason=reason, log_file=settings.log_file if log else settings.console_file, server=SERVER)


class RunningKafka(RunningServer):
    """A broker that has answered."""

    def __init__(self, *, data_dir: Path, host: str, port: int, child: TiedChild) -> None:
        super().__init__(child)
        self.data_dir = data_dir
        self.host = host
        self.port = port

    @property
    def bootstrap_servers(self) -> str:
        """What clients are told to connect to."""
        return f"{self.host}:{self.port}"

    @property
    def log_file(self) -> Path:
        return self.data_dir / "logs" / "server.log"

    def answers(self, *, timeout_seconds: float = 2.0) -> bool:
        """Whether it serves clients now."""
        return answers_kafka(self.host, self.port, timeout_seconds=timeout_seconds)

    def stop(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Let it close its files and end; kill it after the grace. Idempotent."""
        self._child.end(grace_seconds)


def start_kafka(
    data_dir: Path,
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    heap_mb: int = 256,
    create_topics: bool = False,
    properties: Mapping[str, str] | None = None,
    java_options: tuple[str, ...] = (),
    progress: Progress = silent,
) -> RunningKafka:
    """Start a broker on `data_dir` and return when it serves clients. Blocks; call it from a thread in async code.

    A port of None is chosen, and chosen again when another program takes it first. Everything else is as in
    `EmbeddedKafka`, errors included.
    """
    recipe = EmbeddedKafka(
        data_dir=data_dir,
        port=0,
        controller_port=0,
        host=host,
        heap_mb=heap_mb,
        create_topics=create_topics,
        properties=properties or {},
        java_options=java_options,
    )
    for choice in range(_CHOICES):
        spare, controller_port = free_ports(2, (host,))
        try:
            chosen = replace(recipe, port=spare if port is None else port, controller_port=controller_port)
            return chosen.start(progress)
        except PortBusy as error:
            if error.port == port or choice == _CHOICES - 1:
                raise
    raise AssertionError("unreachable")
