"""The load generator as a process: prebuilt requests over raw connections, so that it measures the API and not itself.

    python -m tests.bench.load --url URL --key KEY --client ID --receiver URL --out FILE
        [--connections N] [--batch N] [--count N | --seconds S] --due-from MS --due-to MS
        [--scattered | --whole-seconds] [--keyed | --once POLLERS | --own-keys N]
        [--body-bytes N] [--ack-seconds N] [--targets FILE]

Closed loop: every connection sends its next request when the last one was answered. Dues are spread evenly over the
window, one after the other; with `--seconds` they wrap around in it. `--scattered`: in no order, so that schedules
created together are far apart. `--whole-seconds`: rounded down to one. `--keyed`: every request has an Idempotency-Key
of its own; `--once`: a once token, for a client of so many pollers. `--own-keys`: schedules are put under so many keys
of the client's, in turn; 0: each under a new one. `--ack-seconds`: callbacks may be acknowledged so much later. FILE of
`--targets` names several clients, which take turns by request, and several receivers, by schedule: `{"clients": [[ID,
KEY], ...], "receivers": [URL, ...]}`. The result is one JSON object in FILE of `--out`.
"""

import argparse
import asyncio
import json
import os
import time
import uuid
from array import array
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

from scheduler_service.domain.quotas import RUN_LENGTH
from tests.support.receiver import percentile

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
BODY_BYTES = 200
SPREAD = 10_000
"""The number of dues in the window if the number of schedules is not given."""
SCATTERED, STRIDE = 604_800, 373_787
"""The number of dues in the window without order, and the step to the next one: their golden section, so that any few
thousand in a row are about evenly apart. The two have no common divisor."""


class Dues:
    """Successive dues of schedules, in Unix milliseconds, in [start, end)."""

    def __init__(
        self, start: int, end: int, *, spread: int = SPREAD, scattered: bool = False, whole_seconds: bool = False
    ) -> None:
        self._start = start
        self._span = end - start
        self._spread, self._stride = (SCATTERED, STRIDE) if scattered else (spread, 1)
        self._writer = 0
        self._unit = 1000 if whole_seconds else 1

    def next(self) -> int:
        due = self._start + self._span * self._writer // self._spread
        self._writer = (self._writer + self._stride) % self._spread
        return due - due % self._unit


class Plan:
    """Chooses the next request, and when to stop."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._batch: int = arguments.batch
        self._count: int | None = arguments.count
        self._keyed: bool = arguments.keyed
        self._pollers: int = arguments.once
        self._own_keys: int | None = arguments.own_keys
        self._prefix = os.urandom(6).hex()
        self._dues = Dues(
            arguments.due_from,
            arguments.due_to,
            spread=arguments.count or SPREAD,
            scattered=arguments.scattered,
            whole_seconds=arguments.whole_seconds,
        )
        self._prefixes: dict[int, bytes] = {}
        self._made = 0
        self._requests = 0
        clients, receivers = [(arguments.client, arguments.key)], [arguments.receiver]
        if arguments.targets:
            targets = json.loads(arguments.targets.read_bytes())
            clients, receivers = targets["clients"], targets["receivers"]
        body = "x" * arguments.body_bytes
        ack = {} if arguments.ack_seconds is None else {"ack": {"within_seconds": arguments.ack_seconds}}
        self._tails = [
            b'Z","callback":' + json.dumps({"url": receiver, "body": body, **ack}).encode() + b"}"
            for receiver in receivers
        ]
        puts = self._own_keys is not None
        method = "PUT" if puts else "POST"
        verb = "/by-key/" if puts else (":batch" if self._batch else "") + ("?once=" if self._pollers else "")
        self._heads = [
            (
                f"{method} /v1/clients/{client}/schedules{verb} HTTP/1.1\r\nHost: bench\r\n"
                f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
            ).encode()
            for client, key in clients
        ]

    def next(self) -> bytes | None:
        if self._count is not None and self._made >= self._count:
            return None
        head = self._heads[self._requests % len(self._heads)]
        self._requests += 1
        if self._keyed:
            head = b"%bIdempotency-Key: %b\r\n" % (head, str(uuid.uuid4()).encode())
        if self._pollers:
            poller = self._requests // RUN_LENGTH % self._pollers
            token = b"%d.%d.%d.%b" % (time.time() * 1000, self._pollers, poller, os.urandom(12).hex().encode())
            head = head.replace(b"?once=", b"?once=" + token, 1)
        if self._own_keys is not None:
            number = self._requests % self._own_keys if self._own_keys else self._requests
            head = head.replace(b"/by-key/", b"/by-key/%b-%d" % (self._prefix.encode(), number), 1)
        if not self._batch:
            body = self._item()
        else:
            size = self._batch if self._count is None else min(self._batch, self._count - self._made)
            body = b'{"items":[' + b",".join([self._item() for _ in range(size)]) + b"]}"
        return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)

    def _item(self) -> bytes:
        tail = self._tails[self._made % len(self._tails)]
        self._made += 1
        second, millisecond = divmod(self._dues.next(), 1000)
        prefix = self._prefixes.get(second)
        if prefix is None:
            text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S.")
            prefix = self._prefixes[second] = b'{"due":"' + text.encode()
        return b"%b%03d%b" % (prefix, millisecond, tail)


class Results:
    """What the connections recorded."""

    def __init__(self, *, puts: bool) -> None:
        self.seconds = array("d")
        self.statuses: Counter[bytes] = Counter()
        self.created = 0
        self._puts = puts

    def add(self, status: bytes, answer: bytes) -> None:
        self.statuses[status] += 1
        if status == b"201" or (self._puts and status == b"200"):
            self.created += 1
        elif status == b"200":
            self.created += answer.count(b'{"status":201')

    def summary(self, elapsed: float, cpu_seconds: float) -> dict[str, Any]:
        """`cpu_seconds`: what this process used during the load, without its start."""
        ordered = sorted(second * 1000 for second in self.seconds)
        return {
            "requests": len(ordered),
            "created": self.created,
            "elapsed_seconds": round(elapsed, 3),
            "cpu_seconds": round(cpu_seconds, 4),
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
        results.add(answer[9:12], answer)
        self.send()


async def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    address = urlsplit(arguments.url)
    plan, results = Plan(arguments), Results(puts=arguments.own_keys is not None)
    loop = asyncio.get_running_loop()
    began, used = time.perf_counter(), time.process_time()
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
    return results.summary(time.perf_counter() - began, time.process_time() - used)


def parser() -> argparse.ArgumentParser:
    """The arguments shared by the load generators."""
    made = argparse.ArgumentParser(description="Creates schedules as fast as they are answered.")
    for name in ("url", "key", "client", "receiver", "out"):
        made.add_argument(f"--{name}", required=True)
    made.add_argument("--connections", type=int, default=64)
    made.add_argument("--seconds", type=float)
    made.add_argument("--due-from", type=int, required=True)
    made.add_argument("--due-to", type=int, required=True)
    return made


def main() -> None:
    plain = parser()
    plain.add_argument("--batch", type=int, default=0)
    plain.add_argument("--count", type=int)
    for name in ("scattered", "whole-seconds", "keyed"):
        plain.add_argument(f"--{name}", action="store_true")
    plain.add_argument("--once", type=int, default=0)
    plain.add_argument("--own-keys", type=int)
    plain.add_argument("--body-bytes", type=int, default=BODY_BYTES)
    plain.add_argument("--ack-seconds", type=int)
    plain.add_argument("--targets", type=Path)
    arguments = plain.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(_run(arguments))
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
