"""The demo's directory, readable by its user only.

.minutehand/cassandra/     the data: the next demo continues with it
.minutehand/demo.toml      the settings of its API and nodes
.minutehand/targets.toml   what calls may go to beside HTTP, if anything
.minutehand/demo.json      while it runs: addresses, keys and process ids, for scripts
.minutehand/ports.json     the ports of the last run
.minutehand/keys.json      the keys of the last run, which the next one takes again
.minutehand/logs/          output of the processes

Folders of these names that hold anything else are refused (`folders`).
"""

import json
import secrets
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from cql.settings import StorageSettings
from minutehand.errors import LocalError
from minutehand.local.demo.folders import DemoFolder
from minutehand.local.errors import DataDirLocked
from minutehand.local.file_lock import FileLock
from minutehand.local.machine import check_port, free_ports
from minutehand.local.state import holder_of, lock_path
from minutehand.profiles import write_private
from minutehand.reference_pages import toml

CLIENT_ID: Final = "demo"
GOSCHEDULER_APPS = ("test", "Athena=athena")
"""The apps of GoScheduler's README."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoProcesses:
    """Process ids of the running demo."""

    cassandra: int
    api: tuple[int, ...]
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoState:
    """The content of `demo.json`."""

    api_url: str
    admin_key: str
    client_id: str
    client_key: str
    signing_secret: str
    receiver_url: str
    pids: DemoProcesses


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoKeys:
    """The content of `keys.json`: what is shown once only, with the ids under which the API lists it."""

    admin_key: str = field(repr=False)
    client_key_id: str
    client_key: str = field(repr=False)
    secret_id: str
    signing_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """Ports and secrets of one run. `bigben`, `goscheduler`: its API also serves programs that were written for these,
    without a key: it listens on this machine only. `targets`: API and nodes read the directory's file of targets."""

    cassandra_port: int
    api_port: int
    receiver_port: int
    node_ports: tuple[int, ...]
    bigben: bool = False
    goscheduler: bool = False
    targets: bool = False
    admin_key: str = field(default_factory=lambda: secrets.token_hex(24), repr=False)
    token: str = field(default_factory=lambda: secrets.token_hex(24), repr=False)

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def receiver_url(self) -> str:
        return f"http://127.0.0.1:{self.receiver_port}/callbacks"


class DemoDirectory:
    """The directory and its files. `outputs` are folders beside the usual ones that this demo fills."""

    def __init__(self, path: Path, *, outputs: Sequence[str] = ()) -> None:
        self.path = path.expanduser().absolute()
        self.cassandra = self.path / "cassandra"
        self._data = DemoFolder(self.cassandra, keeps=(lock_path(self.cassandra).name,))
        self._logs = DemoFolder(self.path / "logs")
        self._outputs = [DemoFolder(self.path / name) for name in outputs]
        self.settings = self.path / "demo.toml"
        self.targets = self.path / "targets.toml"
        self.state = self.path / "demo.json"
        self.ports = self.path / "ports.json"
        self.keys = self.path / "keys.json"

    def claim(self, running: ExitStack) -> None:
        """Create the directory and keep other demos out of it while `running`. Raises LocalError when one is in it, and
        when it holds what no demo made."""
        foreign = [str(folder.path) for folder in self._folders if folder.foreign]
        if foreign:
            raise LocalError(
                f"A demo would write to {' and '.join(foreign)}, which no demo of this version has made.",
                "Choose another directory with --dir, or delete by hand what is there.",
            )
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(self.path / "demo.lock")
        if not lock.try_acquire():
            raise LocalError(f"Another demo runs in {self.path}.", "Stop it, or choose another directory with --dir.")
        running.callback(lock.release)
        # A demo that was killed could not remove its state.
        self.clear_state()

    @property
    def _folders(self) -> tuple[DemoFolder, ...]:
        return (self._data, self._logs, *self._outputs)

    def mark(self) -> None:
        """Make the folders that the demo is about to fill. The caller has claimed the directory."""
        for folder in self._folders:
            folder.mark()

    @property
    def has_data(self) -> bool:
        """Whether an earlier demo got as far as storing something here."""
        return self._data.marked and (self.cassandra / "data" / StorageSettings().keyspace).is_dir()

    def delete_data(self, check: Callable[[int], None]) -> None:
        """Delete what an earlier demo stored. The caller has claimed the directory. `check(freed_bytes)` raises
        LocalError when the next start would fail although so much disk is freed; then nothing is deleted.

        Raises DataDirLocked while the earlier demo's Cassandra runs, and LocalError for what only the user may delete.
        """
        filled = [folder for folder in (self._data, *self._outputs) if folder.marked and folder.content()]
        for folder in filled:
            folder.check_deletable()
        if not filled:
            return
        with ExitStack() as held:
            if self._data in filled:
                lock = FileLock(lock_path(self.cassandra))
                if not lock.try_acquire():
                    raise DataDirLocked(data_dir=self.cassandra, holder=holder_of(self.cassandra))
                held.callback(lock.release)
            check(sum(folder.size_bytes() for folder in filled))
            for folder in filled:
                folder.empty()
            for log in (self.log_file("api"), *self._logs.path.glob("node-[0-9].log")):
                log.unlink(missing_ok=True)

    def log_file(self, name: str) -> Path:
        return self._logs.path / f"{name}.log"

    def choose_ports(self, *, api: int | None, receiver: int | None, nodes: int) -> tuple[int, int, list[int]]:
        """Ports for API, receiver and nodes: the requested ones, else the last run's where they are free, so that calls
        left from it find their receiver. Raises PortBusy for a requested port that is taken."""
        for port, setting in ((api, "--api-port"), (receiver, "--receiver-port")):
            if port is not None:
                check_port("127.0.0.1", port, setting=setting)
        before = self._last_ports()
        api, receiver = api or _if_free(before.get("api")), receiver or _if_free(before.get("receiver"))
        spare = [port for port in free_ports(nodes + 4) if port not in (api, receiver)]
        api, receiver = api or spare.pop(), receiver or spare.pop()
        return api, receiver, spare[:nodes]

    def _last_ports(self) -> Mapping[str, Any]:
        try:
            known = json.loads(self.ports.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def write_targets(self, text: str) -> None:
        """Write the file of targets that API and nodes are started with; it is named by the settings of a plan that
        has targets."""
        write_private(self.targets, "# Written by `minutehand demo` at every start.\n\n" + text)

    def write_settings(self, plan: DemoPlan) -> None:
        """Write the file that API and nodes are started with, and remember the ports. Loopback receivers are allowed:
        the demo's is one. Receivers may acknowledge long work."""
        tables: dict[str, dict[str, Any]] = {
            "cluster": {"token": plan.token},
            "cassandra": {"port": plan.cassandra_port},
            "api": {"admin_key": plan.admin_key, "port": plan.api_port},
            "acknowledgements": {"base_url": plan.api_url},
            "network": {"allow": ("127.0.0.0/8", "::1/128")},
            "logging": {"format": "json"},
        }
        if plan.targets:
            tables["targets"] = {"file": str(self.targets)}
        if plan.bigben:
            tables["bigben"] = {"client": CLIENT_ID, "keyless": "manage"}
        if plan.goscheduler:
            tables["goscheduler"] = {"apps": GOSCHEDULER_APPS}
        lines = ["# Written by `minutehand demo` at every start."]
        for name, values in tables.items():
            lines += ["", f"[{name}]", *(f"{key} = {toml(value)}" for key, value in values.items())]
        text = "\n".join(lines) + "\n"
        tomllib.loads(text)
        write_private(self.settings, text)
        write_private(self.ports, json.dumps({"api": plan.api_port, "receiver": plan.receiver_port}))

    def last_keys(self) -> DemoKeys | None:
        """The keys of an earlier demo here, if they can be read."""
        try:
            known = json.loads(self.keys.read_text(encoding="utf-8"))
            keys = DemoKeys(**known)
        except (OSError, ValueError, TypeError):
            return None
        return keys if all(isinstance(value, str) and value for value in asdict(keys).values()) else None

    def write_keys(self, keys: DemoKeys) -> None:
        write_private(self.keys, json.dumps(asdict(keys), indent=2) + "\n")

    def write_state(self, state: DemoState) -> None:
        write_private(self.state, json.dumps(asdict(state), indent=2) + "\n")

    def clear_state(self) -> None:
        self.state.unlink(missing_ok=True)


def _if_free(port: object) -> int | None:
    if not isinstance(port, int):
        return None
    try:
        check_port("127.0.0.1", port, setting="")
    except LocalError:
        return None
    return port
