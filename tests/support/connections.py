"""Creates over kept connections, as behind a load balancer: the result of each request, without retries.

A request is answered, refused (the connection could not be made, or was closed before its first request was read), or
lost (a connection that had answered before took it and gave no answer). A refused create was certainly not stored; a
lost one may have been.
"""

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.processes import Deployment

_PAUSE_SECONDS = 0.02
_LOOK_SECONDS = 0.05


@dataclass(slots=True)
class Kept:
    """The results. `acknowledged`: schedule ids by label; `slowest`: the longest wait for an answer, in seconds."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    refused: int = 0
    lost: list[str] = field(default_factory=list)
    closed_politely: int = 0
    slowest: float = 0.0
    unready_at: float | None = None
    """When `/readyz` first answered 503, in monotonic seconds."""
    reasons: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        return (
            f"answered {dict(self.statuses)}, refused {self.refused}, lost {len(self.lost)}, closed with an answer "
            f"{self.closed_politely}, the slowest answer {self.slowest:.3f} s"
        )


class KeptConnections:
    """Keeps `connections` connections, each of which sends one create after the other. With `obeys`, none is opened
    while the API says that it is not ready, as behind a load balancer.
    """

    def __init__(
        self, cluster: Deployment, client_id: str, key: str, *, connections: int, obeys: bool, port: int | None
    ) -> None:
        self.kept = Kept()
        self._port = port or cluster.api_port
        self._path = f"/v1/clients/{client_id}/schedules"
        self._key = key
        self._url = cluster.receiver.url
        self._connections = connections
        self._obeys = obeys
        self._over = threading.Event()
        self._serial = 0

    def run(self) -> None:
        asyncio.run(self._run())

    def stop(self) -> None:
        self._over.set()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            for number in range(self._connections):
                tasks.create_task(self._ask(pause=_PAUSE_SECONDS * (1 + number % 8)))

    async def _watch(self) -> None:
        while not self._over.is_set():
            status, reasons = await self._readiness()
            if status == 503 and self.kept.unready_at is None:
                self.kept.unready_at = time.monotonic()
            self.kept.reasons |= reasons
            await asyncio.sleep(_LOOK_SECONDS)

    async def _readiness(self) -> tuple[int, set[str]]:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: api\r\nConnection: close\r\n\r\n")
            status, _, body = await _read_answer(reader)
            writer.close()
            return status, {one["reason"] for one in json.loads(body)["reasons"]}
        except (OSError, EOFError):
            return 0, set()

    async def _ask(self, *, pause: float) -> None:
        """Open one connection after the other and send creates on it."""
        while not self._over.is_set():
            if self._obeys and self.kept.unready_at is not None:
                await asyncio.sleep(pause)
                continue
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:
                self.kept.refused += 1
                await asyncio.sleep(pause)
                continue
            try:
                await self._ask_on(reader, writer, pause=pause)
            finally:
                writer.close()

    async def _ask_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, pause: float) -> None:
        asked = 0
        while not self._over.is_set():
            self._serial += 1
            label = f"{self._serial:06}"
            began = time.monotonic()
            try:
                writer.write(self._request(label))
                status, head, body = await _read_answer(reader)
            except (OSError, EOFError) as error:
                if asked:
                    self.kept.lost.append(f"{label}, the {asked + 1}. on its connection: {error!r}")
                else:
                    self.kept.refused += 1
                return
            asked += 1
            self.kept.slowest = max(self.kept.slowest, time.monotonic() - began)
            self.kept.statuses[status] += 1
            if status == 201:
                self.kept.acknowledged[label] = json.loads(body)["schedule_id"]
            if b"connection: close" in head.lower():
                self.kept.closed_politely += 1
                return
            await asyncio.sleep(pause)

    def _request(self, label: str) -> bytes:
        wanted = {"callback": {"url": self._url}, "delay_seconds": 3, "label": label}
        body = json.dumps(wanted).encode()
        lines = [
            f"POST {self._path} HTTP/1.1",
            "Host: api",
            f"Authorization: Bearer {self._key}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:"))
    return int(head.split(b" ", 2)[1]), head, await reader.readexactly(length)


@contextmanager
def kept_connections(
    cluster: Deployment,
    client_id: str,
    key: str,
    *,
    connections: int = 24,
    obeys: bool = False,
    port: int | None = None,
) -> Iterator[Kept]:
    """Send creates until the end of the block. `port` defaults to that of the deployment's API."""
    load = KeptConnections(cluster, client_id, key, connections=connections, obeys=obeys, port=port)
    thread = threading.Thread(target=load.run)
    thread.start()
    try:
        yield load.kept
    finally:
        load.stop()
        thread.join()
