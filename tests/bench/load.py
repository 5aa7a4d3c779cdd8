"""The load generator as a process: prebuilt requests over raw connections, so that it measures the API and not itself.

    python -m tests.bench.load --url URL --key KEY --client ID --receiver URL --out FILE
        [--connections N] [--batch N] [--count N | --seconds S] --due-from MS --due-to MS

Closed loop: every connection sends its next request when the last one was answered. Dues are spread evenly over the
window; with `--seconds` they go round in it. The result is one JSON object in FILE.
"""

import argparse
import asyncio
import json
import time
from array import array
from collections import Counter
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

from tests.support.receiver import percentile

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
PAYLOAD = "x" * 200


class Plan:
    """Which request comes next, and when it is enough."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._batch: int = arguments.batch
        self._count: int | None = arguments.count
        self._spread: int = arguments.count or 10_000
        self._from: int = arguments.due_from
        self._span: int = arguments.due_to - arguments.due_from
        self._prefixes: dict[int, bytes] = {}
        self._made = 0
        callback = json.dumps({"url": arguments.receiver, "body": PAYLOAD}).encode()
        self._tail = b'Z","callback":' + callback + b"}"
        verb = ":batch" if self._batch else ""
        self._head = (
            f"POST /v1/clients/{arguments.client}/schedules{verb} HTTP/1.1\r\nHost: bench\r\n"
            f"Authorization: Bearer {arguments.key}\r\nContent-Type: application/json\r\nContent-Length: "
        ).encode()

    def next(self) -> bytes | None:
        if self._count is not None and self._made >= self._count:
            return None
        if not self._batch:
            body = self._item()
        else:
            size = self._batch if self._count is None else min(self._batch, self._count - self._made)
            body = b'{"items":[' + b",".join([self._item() for _ in range(size)]) + b"]}"
        return b"%b%d\r\n\r\n%b" % (self._head, len(body), body)

    def _item(self) -> bytes:
        due = self._from + self._span * (self._made % self._spread) // self._spread
        self._made += 1
        second, millisecond = divmod(due, 1000)
        prefix = self._prefixes.get(second)
        if prefix is None:
            text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.")
            prefix = self._prefixes[second] = b'{"due":"' + text.encode()
        return b"%b%03d%b" % (prefix, millisecond, self._tail)


class Results:
    """What the connections saw."""

    def __init__(self) -> None:
        self.seconds = array("d")
        self.statuses: Counter[bytes] = Counter()
        self.created = 0

    def summary(self, elapsed: float) -> dict[str, Any]:
        ordered = sorted(second * 1000 for second in self.seconds)
        return {
            "requests": len(ordered),
            "created": self.created,
            "elapsed_seconds": round(elapsed, 3),
            "created_per_second": round(self.created / elapsed, 1),
            "p50_ms": percentile(ordered, 0.50),
            "p99_ms": percentile(ordered, 0.99),
            "max_ms": percentile(ordered, 1.0),
            "statuses": {status.decode(): count for status, count in self.statuses.items()},
        }


class _Connection(asyncio.Protocol):
    def __init__(self, plan: Plan, results: Results, *, until: float | None) -> None:
        self._plan = plan
        self._results = results
        self._until = until
        self._parts: list[bytes] = []
        self._needed = 0
        self._sent_at = 0.0
        self._transport: asyncio.Transport
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the API closed a connection"))

    def send(self) -> None:
        now = time.perf_counter()
        request = None if self._until is not None and now >= self._until else self._plan.next()
        if request is None:
            self.done.set_result(None)
            self._transport.close()
            return
        self._sent_at = now
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._needed -= len(data)
        if self._needed > 0:
            return
        answer = data if len(self._parts) == 1 else b"".join(self._parts)
        end = answer.find(_HEAD_END)
        if end < 0:
            self._parts = [answer]
            return
        start = answer[:end].lower().find(_LENGTH)
        length = int(answer[start + len(_LENGTH) : answer.find(b"\r\n", start)]) if start >= 0 else 0
        self._needed = end + 4 + length - len(answer)
        if self._needed > 0:
            self._parts = [answer]
            return
        self._parts = []
        self._needed = 0
        results = self._results
        results.seconds.append(time.perf_counter() - self._sent_at)
        status = answer[9:12]
        results.statuses[status] += 1
        if status == b"201":
            results.created += 1
        elif status == b"200":
            results.created += answer.count(b'{"status":201')
        self.send()


async def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    address = urlsplit(arguments.url)
    plan, results = Plan(arguments), Results()
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    until = None if arguments.seconds is None else began + arguments.seconds
    connections: list[_Connection] = []
    for _ in range(arguments.connections):
        _, connection = await loop.create_connection(
            lambda: _Connection(plan, results, until=until), address.hostname, address.port
        )
        connections.append(connection)
    for connection in connections:
        connection.send()
    await asyncio.gather(*(connection.done for connection in connections))
    return results.summary(time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description="Creates schedules as fast as they are answered.")
    for name in ("url", "key", "client", "receiver", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--due-from", type=int, required=True)
    parser.add_argument("--due-to", type=int, required=True)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(_run(arguments))
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
