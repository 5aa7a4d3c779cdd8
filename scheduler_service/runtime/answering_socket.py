"""A Unix socket over which one process tells another something, such as its health or its metrics."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.logging import get_logger

_log = get_logger("minutehand")


class AnsweringSocket:
    """A `Service`: writes what `answer` returns to each connection, and closes it. `name`: of its tasks."""

    def __init__(self, path: str | Path, answer: Callable[[], Awaitable[bytes]], *, name: str) -> None:
        self._path = Path(path)
        self._answer = answer
        self._name = name
        self._server: asyncio.Server | None = None
        self._answers = Tasks(report_crash)

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._connected, self._path)

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            with suppress(FileNotFoundError):
                self._path.unlink()
        await self._answers.close()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # asyncio holds tasks weakly: one that waits for long could be collected and its socket left open.
        self._answers.spawn(self._tell(writer), name=self._name)

    async def _tell(self, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(await self._answer())
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


def report_crash(name: str, error: BaseException) -> None:
    _log.error("task-crashed", task=name, exc_info=error)
