"""The demo's directory, readable by its user only.

.minutehand/cassandra/     the data: the next demo continues with it
.minutehand/demo.toml      the settings of its API and nodes
.minutehand/demo.json      while it runs: addresses, keys and process ids, for scripts
.minutehand/ports.json     the ports of the last run
.minutehand/logs/          output of the processes
"""

import json
import os
import secrets
import shutil
import tomllib
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from minutehand.errors import LocalError
from minutehand.local.errors import DataDirLocked
from minutehand.local.file_lock import FileLock
from minutehand.local.machine import check_port, free_ports
from minutehand.local.state import holder_of, lock_path
from minutehand.reference_pages import toml


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
class DemoPlan:
    """Ports and secrets of one run."""

    cassandra_port: int
    api_port: int
    receiver_port: int
    node_ports: tuple[int, ...]
    admin_key: str = field(default_factory=lambda: secrets.token_hex(24), repr=False)
    token: str = field(default_factory=lambda: secrets.token_hex(24), repr=False)

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.api_port}"

    @property
    def receiver_url(self) -> str:
        return f"http://127.0.0.1:{self.receiver_port}/callbacks"


class DemoDirectory:
    """The directory and its files."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        self.cassandra = self.path / "cassandra"
        self.settings = self.path / "demo.toml"
        self.state = self.path / "demo.json"
        self.ports = self.path / "ports.json"

    def claim(self, running: ExitStack) -> None:
        """Create the directory and keep other demos out of it while `running`. Raises LocalError when one is in it."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(self.path / "demo.lock")
        if not lock.try_acquire():
            raise LocalError(f"Another demo runs in {self.path}.", "Stop it, or choose another directory with --dir.")
        running.callback(lock.release)
        # A demo that was killed could not remove its state.
        self.clear_state()

    @property
    def has_data(self) -> bool:
        """Whether an earlier demo has stored something here."""
        return self.ports.exists() and self.cassandra.exists()

    def delete_data(self) -> None:
        """Delete what an earlier demo stored. Raises DataDirLocked while its Cassandra runs. The caller has claimed
        the directory."""
        # A directory without ports is not a demo's, whatever is in it.
        if not self.has_data:
            return
        lock = FileLock(lock_path(self.cassandra))
        if not lock.try_acquire():
            raise DataDirLocked(data_dir=self.cassandra, holder=holder_of(self.cassandra))
        try:
            shutil.rmtree(self.cassandra)
            shutil.rmtree(self.path / "logs", ignore_errors=True)
        finally:
            lock.release()

    def log_file(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

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
        _write(self.ports, json.dumps({"api": api, "receiver": receiver}))
        return api, receiver, spare[:nodes]

    def _last_ports(self) -> Mapping[str, Any]:
        try:
            known = json.loads(self.ports.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}

    def write_settings(self, plan: DemoPlan) -> None:
        """Write the file that API and nodes are started with. Loopback receivers are allowed: the demo's is one."""
        tables: dict[str, dict[str, Any]] = {
            "cluster": {"token": plan.token},
            "cassandra": {"port": plan.cassandra_port},
            "api": {"admin_key": plan.admin_key, "port": plan.api_port},
            "network": {"allow": ("127.0.0.0/8", "::1/128")},
            "logging": {"format": "json"},
        }
        lines = ["# Written by `minutehand demo` at every start."]
        for name, values in tables.items():
            lines += ["", f"[{name}]", *(f"{key} = {toml(value)}" for key, value in values.items())]
        text = "\n".join(lines) + "\n"
        tomllib.loads(text)
        _write(self.settings, text)

    def write_state(self, state: DemoState) -> None:
        _write(self.state, json.dumps(asdict(state), indent=2) + "\n")

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


def _write(path: Path, text: str) -> None:
    """Replace a file atomically; only its owner may read it."""
    scratch = path.with_name(path.name + ".new")
    scratch.unlink(missing_ok=True)
    # O_EXCL: an existing file would keep its owner and mode, and a link would be followed.
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    scratch.replace(path)
