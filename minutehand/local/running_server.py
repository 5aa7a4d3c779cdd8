"""What all embedded servers that have answered have in common."""

import signal
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from minutehand.processes.children import Child
from minutehand.processes.identity import freeze, send_signal


class RunningServer(ABC):
    """One server's process. As a context manager it stops at the end of the block."""

    def __init__(self, child: Child) -> None:
        self._child = child

    @property
    def pid(self) -> int:
        """The pid of the Java process itself."""
        return self._child.identity.pid

    @abstractmethod
    def stop(self, grace_seconds: float = 0.0) -> None:
        """Let it close its files and end; kill it after the grace. Idempotent."""

    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._child.exit_code() is None

    def kill(self) -> None:
        """Kill it. Idempotent."""
        self.stop(0.0)

    def pause(self) -> None:
        """Freeze it. Once this returns, connections stay open and nothing is answered."""
        freeze(self._child.identity)

    def resume(self) -> None:
        """Resume a paused server."""
        send_signal(self._child.identity, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
