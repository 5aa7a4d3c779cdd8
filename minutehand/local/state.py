"""The state of a server in its data directory: the lock, and the state file `server.json`.

The lock (`server.lock`) tells whether a server runs on the directory; the server inherits it, so it can't be stale. The
state file tells which one, and how to reach and stop it; it may be stale, so it counts only while the process that it
identifies is alive.
"""

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from minutehand.processes.identity import ProcessIdentity, is_alive


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """One started server. `tied` servers belong to the program that started them."""

    pid: int
    started: str
    tied: bool
    host: str
    native_port: int
    storage_port: int
    cluster_name: str

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.started)


def lock_path(data_dir: Path) -> Path:
    return data_dir / "server.lock"


def write_state(data_dir: Path, state: ServerState) -> None:
    """Replace the state file atomically."""
    scratch = _path(data_dir).with_suffix(".new")
    scratch.write_text(json.dumps(asdict(state), indent=2) + "\n", encoding="utf-8")
    scratch.replace(_path(data_dir))


def read_state(data_dir: Path) -> ServerState | None:
    """The state of the server that runs on `data_dir`; None when there is no file, or its process is gone."""
    try:
        state = ServerState(**json.loads(_path(data_dir).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return state if is_alive(state.identity) else None


def holder_of(data_dir: Path) -> str:
    """The server that runs on `data_dir`, for a message; empty while its state is not written."""
    state = read_state(data_dir)
    return "" if state is None else f" (process {state.pid}, port {state.native_port})"


def clear_state(data_dir: Path) -> None:
    """Remove the state file, if any."""
    with contextlib.suppress(FileNotFoundError):
        _path(data_dir).unlink()


def _path(data_dir: Path) -> Path:
    return data_dir / "server.json"
