"""One embedded Cassandra: the recipe (`EmbeddedCassandra`) and the running server (`RunningCassandra`)."""

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from minutehand.errors import LocalError
from minutehand.local.cql_handshake import answers_cql
from minutehand.local.diagnosis import explain_exit, last_complaint, tail
from minutehand.local.errors import DataDirLocked, StartFailed
from minutehand.local.file_lock import FileLock
from minutehand.local.jars import JarStore, cache_directory
from minutehand.local.java import find_java
from minutehand.local.lock_file import read_lock
from minutehand.local.machine import available_memory_mb, check_disk, check_loopback, check_memory, check_port
from minutehand.local.maven import MavenRepository
from minutehand.local.progress import Progress, silent
from minutehand.local.running_server import RunningServer
from minutehand.local.settings import DATACENTER, ServerSettings, java_command, write_configuration
from minutehand.local.stages import StartStages
from minutehand.local.state import ServerState, clear_state, holder_of, lock_path, read_state, write_state
from minutehand.processes.children import Child, DetachedChild, FoundChild, TiedChild

JAR_SET = "cassandra"
_POLL_SECONDS = 0.1
_TIED_GRACE_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedCassandra:
    """How to start one server; it may be started repeatedly, one server at a time.

    `data_dir` keeps data, logs, generated configuration and state. `seeds` are hosts with the same `storage_port`
    (empty: this server is the first). `heap_mb` from 512. `tied` servers end with this process. A `durable` server
    acknowledges a write once it is on the disk, at less than half the speed; else a killed server may lose its last 100
    ms of acknowledged writes, which only replicas make good. `yaml` overrides settings of `cassandra.yaml`,
    `java_options` those of the JVM; `tls` says that `yaml` makes it speak CQL over TLS. The two `…_setting` name in
    messages what to change when a port is taken.
    """

    data_dir: Path
    native_port: int
    storage_port: int
    host: str = "127.0.0.1"
    seeds: tuple[str, ...] = ()
    cluster_name: str = "minutehand"
    heap_mb: int = 1024
    num_tokens: int = 16
    tied: bool = True
    durable: bool = False
    start_seconds: float = 180.0
    yaml: Mapping[str, object] = field(default_factory=dict)
    java_options: tuple[str, ...] = ()
    tls: bool = False
    native_port_setting: str = "--native-port"
    storage_port_setting: str = "--storage-port"
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def start(self, progress: Progress = silent) -> "RunningCassandra":
        """Return when the server answers CQL (and so has joined its cluster). Raises `LocalError`, leaving nothing."""
        directory = self.data_dir.expanduser().absolute()
        check_loopback(self.host)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(lock_path(directory))
        if not lock.try_acquire():
            raise DataDirLocked(data_dir=directory, holder=holder_of(directory))
        try:
            # A server that was started has inherited the lock and keeps it after the release below.
            return self._start(directory, lock, progress)
        finally:
            lock.release()

    def check(self, progress: Progress = silent, *, freed_bytes: int = 0) -> tuple[Path, list[Path]]:
        """Raise `LocalError` for what would keep the server from starting, apart from another one on `data_dir`.

        Returns Java and Cassandra's jars, and downloads those that are missing. `freed_bytes` of disk will be freed
        before the start.
        """
        self._check_ports()
        check_memory(self.heap_mb, available_memory_mb())
        check_disk(self.data_dir.expanduser(), freed_bytes=freed_bytes)
        java = find_java(self.environment)
        store = JarStore(cache_directory(self.environment), MavenRepository.from_environment(self.environment))
        return java, store.ensure(read_lock(JAR_SET), progress)

    def _start(self, directory: Path, lock: FileLock, progress: Progress) -> "RunningCassandra":
        java, jars = self.check(progress)
        settings = self._settings(directory)
        shutil.rmtree(settings.scratch_dir, ignore_errors=True)
        settings.log_file.unlink(missing_ok=True)
        write_configuration(settings)
        # Checked a second time: the download may have taken minutes.
        self._check_ports()
        make = TiedChild if self.tied else DetachedChild
        command = java_command(java, jars, settings)
        child = make(command, console=settings.console_file, directory=directory, lock=lock.fileno())
        state = ServerState(
            pid=child.identity.pid,
            started=child.identity.started,
            tied=self.tied,
            host=self.host,
            native_port=self.native_port,
            storage_port=self.storage_port,
            cluster_name=self.cluster_name,
        )
        try:
            write_state(directory, state)
            self._await_cql(child, settings, progress)
        except BaseException:
            child.end(0.0)
            clear_state(directory)
            raise
        return RunningCassandra(data_dir=directory, state=state, child=child, ours=True, tls=self.tls)

    def _check_ports(self) -> None:
        check_port(self.host, self.native_port, setting=self.native_port_setting)
        check_port(self.host, self.storage_port, setting=self.storage_port_setting)

    def _settings(self, directory: Path) -> ServerSettings:
        return ServerSettings(
            data_dir=directory,
            host=self.host,
            native_port=self.native_port,
            storage_port=self.storage_port,
            seeds=self.seeds or (self.host,),
            cluster_name=self.cluster_name,
            heap_mb=self.heap_mb,
            num_tokens=self.num_tokens,
            durable=self.durable,
            yaml=self.yaml,
            java_options=self.java_options,
        )

    def _await_cql(self, child: Child, settings: ServerSettings, progress: Progress) -> None:
        begun = time.monotonic()
        stages = StartStages(settings.log_file, began=begun)
        what = f"starting Cassandra on {self.host}, port {self.native_port}"
        while not answers_cql(self.host, self.native_port, tls=self.tls):
            waited = time.monotonic() - begun
            code = child.exit_code()
            if code is not None:
                raise explain_exit(
                    settings,
                    code,
                    native_setting=self.native_port_setting,
                    storage_setting=self.storage_port_setting,
                )
            if waited > self.start_seconds:
                said = last_complaint(tail(settings.log_file)) or "it has logged nothing"
                raise StartFailed(
                    reason=f"no answer within {self.start_seconds:.0f} s; last: {said}", log_file=settings.log_file
                )
            progress(stages.percent(time.monotonic()), 100, what)
            time.sleep(_POLL_SECONDS)
        progress(100, 100, what)


class RunningCassandra(RunningServer):
    """A server that has answered. Killed, it flushes nothing (see `durable`)."""

    datacenter = DATACENTER

    def __init__(self, *, data_dir: Path, state: ServerState, child: Child, ours: bool, tls: bool = False) -> None:
        super().__init__(child)
        self._tls = tls
        self.data_dir = data_dir
        self._state = state
        self._ours = ours

    @property
    def contact_points(self) -> tuple[str, ...]:
        return (self._state.host,)

    @property
    def port(self) -> int:
        """The port that speaks CQL."""
        return self._state.native_port

    @property
    def storage_port(self) -> int:
        """The port that the nodes of a cluster use among themselves."""
        return self._state.storage_port

    @property
    def log_file(self) -> Path:
        return self.data_dir / "logs" / "system.log"

    def answers(self, *, timeout_seconds: float = 2.0) -> bool:
        """Whether it speaks CQL now."""
        state = self._state
        return answers_cql(state.host, state.native_port, timeout_seconds=timeout_seconds, tls=self._tls)

    def stop(self, grace_seconds: float = _TIED_GRACE_SECONDS) -> None:
        """Let it flush and end; kill it after the grace. Idempotent.

        Raises `LocalError` for a server that is tied to another program: only that program may stop it.
        """
        if self._state.tied and not self._ours:
            raise LocalError(
                f"The Cassandra on {self.data_dir} (process {self.pid}) belongs to a program that is running.",
                "Stop that program; its Cassandra ends with it.",
            )
        self._child.end(grace_seconds)
        clear_state(self.data_dir)


def find_cassandra(data_dir: Path) -> RunningCassandra | None:
    """The server that runs on `data_dir` now, started by any program; it may still be starting (see `answers`)."""
    directory = data_dir.expanduser().absolute()
    state = read_state(directory)
    if state is None:
        return None
    return RunningCassandra(data_dir=directory, state=state, child=FoundChild(state.identity), ours=False)
