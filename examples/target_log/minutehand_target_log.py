"""A kind of target: calls are lines of a file, one JSON object each, durable before they count as delivered.

    [log]                                       in the file that targets.file names
    directory = "/var/lib/minutehand/calls"

    {"kind": "log", "target": {"file": "orders"}}        what a destination says

Each node appends to its own disk. The docstring of `poller_cluster.delivery.targets` says what a target promises.
"""

import asyncio
import base64
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.targets.ends import DONE, STOPPED, WITHDRAWN, End, TargetEnd
from poller_cluster.delivery.targets.port import MayStart, OnEnd
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.targets import JudgedTarget
from scheduler_service.runtime.clock import Clock


class LogKind:
    """What the entry point loads. Raises ValueError for settings that can't be."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        if settings.keys() != {"directory"}:
            raise ValueError("give directory, and nothing else")
        self._directory = Path(settings["directory"])
        if not self._directory.is_dir():
            raise ValueError(f"directory: {self._directory} is not there")

    def judge(self, document: Mapping[str, Any], *, client_id: ClientId) -> JudgedTarget:
        faults = [FieldError(f"/{name}", "is not known: use file") for name in document if name != "file"]
        name = document.get("file")
        if not isinstance(name, str) or re.fullmatch(r"[a-z0-9-]{1,64}", name) is None:
            faults.append(FieldError("/file", "must be 1 to 64 lower-case letters, digits or '-'"))
        if faults:
            raise Invalid(faults)
        # Clients never share a file: its name begins with the client's id.
        return JudgedTarget(f"log:{name}", means=self._directory / f"{client_id}.{name}.jsonl")

    def open(self, *, clock: Clock, capacity: int) -> "LogTarget":
        return LogTarget()


class LogTarget:
    """Writes what waits as one batch, in a thread, while the next batch gathers."""

    def __init__(self) -> None:
        self._waiting: list[tuple[CallbackRequest, OnEnd, MayStart]] = []
        self._writer: asyncio.Task[None] | None = None
        self._stopped = False

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        self._stopped = True
        if self._writer is not None:
            await self._writer

    def send(self, request: CallbackRequest, on_end: OnEnd, *, may_start: MayStart) -> None:
        self._waiting.append((request, on_end, may_start))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            lines: dict[Path, list[str]] = {}
            ends = []
            for request, on_end, may_start in batch:
                if self._stopped:
                    on_end(STOPPED._replace(nothing_sent=True))
                elif not may_start():  # it waited for the batch before it, and the lease may have gone meanwhile
                    on_end(WITHDRAWN)
                else:
                    assert request.target is not None
                    lines.setdefault(request.target.means, []).append(_line(request))
                    ends.append(on_end)
            try:
                await asyncio.to_thread(_append, lines)
                end = DONE
            except Exception as error:
                # Some lines may be there: `nothing_sent` would be a lie. Any error ends its batch, but not
                # the task: later calls would wait in vain.
                why = os.strerror(error.errno or 0) if isinstance(error, OSError) else type(error).__name__
                end = TargetEnd(End.UNAVAILABLE, f"the file can't be written: {why}")
            for on_end in ends:
                on_end(end)
        self._writer = None


def _line(request: CallbackRequest) -> str:
    try:
        body = {"body": request.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(request.body).decode()}
    return json.dumps({"headers": dict(request.headers), **body})


def _append(lines: Mapping[Path, list[str]]) -> None:
    for path, some in lines.items():
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in some))
            file.flush()
            os.fsync(file.fileno())
