"""A lean receiver as a process, for benches and acceptance tests: it answers 204 and records the calls.

    python -m tests.support.receiver --port PORT [--hosts N] [--tls-port PORT --certificate FILE --private-key FILE]

It listens at 127.0.0.1, over TLS too if a port for that is given, and at N further addresses of this machine
(`host_address`), which are as many hosts to the callers. A callback is any POST. A path that ends in `/flaky` is
answered 500 at the first attempt, one that ends in `/down` always. A callback with `Minutehand-Ack-Url` is answered
202, and that address is told `done`. A call costs a few microseconds, so that a bench measures its sender. The same
port answers questions: `GET /report` (counts and lateness), `GET /calls` (every call), `GET /words` (what was told, by
the status of the answer), `POST /forget`, and `GET /livez` with 200. Lateness is arrival minus `Minutehand-Due`, by
this machine's clock.
"""

import argparse
import asyncio
import calendar
import json
import ssl
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
_ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
_ACK_URL = b"\r\nminutehand-ack-url: "
_WORD = b'{"result":"done"}'
_SPEAKERS = 16
"""Connections to the API for words. One takes a second when a word comes before its 202 is recorded."""
_REFUSAL = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
_HEAD_END = b"\r\n\r\n"


class Calls:
    """The calls received."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.ids: list[bytes] = []
        self.attempts: list[bytes] = []
        self.fences: list[bytes] = []
        self.redeliveries: list[bool] = []
        self.due = array("d")
        self.arrived = array("d")
        self._unique: set[bytes] = set()
        self._seconds: dict[bytes, int] = {}

    @property
    def unique(self) -> int:
        """How many different schedules were called."""
        return len(self._unique)

    def add(self, head: bytes, at: float) -> None:
        """Record a call. `head` is in lower case."""
        id_ = _header(head, b"\r\nwebhook-id: ")
        self.ids.append(id_)
        self._unique.add(id_)
        self.attempts.append(_header(head, b"\r\nminutehand-attempt: "))
        self.fences.append(_header(head, b"\r\nminutehand-fence: "))
        self.redeliveries.append(b"\r\nminutehand-redelivery: true" in head)
        due = _header(head, b"\r\nminutehand-due: ")
        second = self._seconds.get(due[:19])
        if second is None:
            second = calendar.timegm(time.strptime(due[:19].decode(), "%Y-%m-%dt%H:%M:%S"))
            self._seconds[due[:19]] = second
        self.due.append(second + int(due[20:23]) / 1000)
        self.arrived.append(at)

    def report(self) -> dict[str, Any]:
        """Counts; lateness in milliseconds, of first attempts only; the greatest lateness of any schedule's first call,
        whichever attempt it was; and the times of the first and last call.
        """
        first: dict[bytes, float] = {}
        for id_, at, due in zip(self.ids, self.arrived, self.due, strict=True):
            first.setdefault(id_, at - due)
        lateness = sorted(
            (at - due) * 1000
            for at, due, attempt in zip(self.arrived, self.due, self.attempts, strict=True)
            if attempt == b"1"
        )
        return {
            "calls": len(self.ids),
            "unique": self.unique,
            "repeated": len(self.ids) - self.unique,
            "redeliveries": sum(self.redeliveries),
            "early": sum(late < 0 for late in lateness),
            "lateness_ms": {
                "p50": percentile(lateness, 0.50),
                "p99": percentile(lateness, 0.99),
                "max": percentile(lateness, 1.0),
            },
            "latest_ms": percentile(sorted(late * 1000 for late in first.values()), 1.0),
            "first_at": min(self.arrived, default=None),
            "last_at": max(self.arrived, default=None),
        }

    def every(self) -> list[dict[str, Any]]:
        columns = (self.ids, self.due, self.arrived, self.attempts, self.fences, self.redeliveries)
        return [
            {
                "id": id_.decode(),
                "due": due,
                "arrived": at,
                "attempt": int(attempt),
                "fence": int(fence or 0),
                "redelivery": again,
            }
            for id_, due, at, attempt, fence, again in zip(*columns, strict=True)
        ]


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The nearest-rank percentile; None if there are no values."""
    return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 2) if ordered else None


def _header(head: bytes, name: bytes) -> bytes:
    start = head.find(name)
    if start < 0:
        return b""
    start += len(name)
    return head[start : head.find(b"\r\n", start)]


class Words:
    """Tells `done` to the addresses of calls that were taken."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self._addresses: asyncio.Queue[str] = asyncio.Queue()
        self._speakers: list[asyncio.Task[None]] = []

    def take(self, address: str) -> None:
        self._addresses.put_nowait(address)
        if not self._speakers:
            self._speakers = [asyncio.create_task(self._speak()) for _ in range(_SPEAKERS)]

    async def _speak(self) -> None:
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        while True:
            parts = urlsplit(await self._addresses.get())
            if streams is None:
                streams = await asyncio.open_connection(parts.hostname, parts.port)
            reader, writer = streams
            head = f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
            writer.write(head.encode() + b"Content-Length: %d\r\n\r\n%b" % (len(_WORD), _WORD))
            answer = await reader.readuntil(_HEAD_END)
            await reader.readexactly(int(_header(answer.lower(), b"\r\ncontent-length: ") or 0))
            self.statuses[answer[9:12].decode()] += 1


class _Connection(asyncio.Protocol):
    def __init__(self, calls: Calls, words: Words) -> None:
        self._calls = calls
        self._words = words
        self._buffer = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        while (end := buffer.find(_HEAD_END)) >= 0:
            head = buffer[: end + 2].lower()
            length = int(_header(head, b"\r\ncontent-length: ") or 0)
            whole = end + 4 + length
            if len(buffer) < whole:
                break
            if (at := head.find(_ACK_URL)) >= 0:
                # The token of the address heeds case.
                self._words.take(buffer[at + len(_ACK_URL) : head.find(b"\r\n", at + 2)].decode())
            buffer = buffer[whole:]
            self._transport.write(self._answer(head))
        self._buffer = buffer

    def _answer(self, head: bytes) -> bytes:
        if b"\r\nwebhook-id: " in head:
            self._calls.add(head, time.time())
            if _ACK_URL in head:
                return _ACCEPTED
            path = head.split(b" ", 2)[1]
            first = b"\r\nminutehand-attempt: 1\r\n" in head
            return _REFUSAL if path.endswith(b"/down") or (path.endswith(b"/flaky") and first) else _ANSWER
        path = head.split(b" ", 2)[1]
        if path == b"/forget":
            self._calls.forget()
            return _ANSWER
        calls = self._calls
        answers: dict[bytes, Callable[[], Any]] = {
            b"/report": calls.report,
            b"/calls": calls.every,
            b"/count": lambda: calls.unique,
            b"/words": lambda: self._words.statuses,
            b"/livez": dict,
        }
        answer = answers.get(path)
        if answer is None:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        body = json.dumps(answer()).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def host_address(number: int) -> str:
    """One of the 65,536 further loopback addresses of a Linux machine."""
    return f"127.1.{number >> 8}.{number & 255}"


async def _serve(arguments: argparse.Namespace) -> None:
    calls, words, loop = Calls(), Words(), asyncio.get_running_loop()
    hosts = ["127.0.0.1", *map(host_address, range(arguments.hosts))]
    server = await loop.create_server(lambda: _Connection(calls, words), hosts, arguments.port, backlog=1024)
    if arguments.tls_port is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(arguments.certificate, arguments.private_key)
        await loop.create_server(
            lambda: _Connection(calls, words), "127.0.0.1", arguments.tls_port, backlog=1024, ssl=tls
        )
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="A receiver that remembers who called.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--tls-port", type=int)
    parser.add_argument("--certificate")
    parser.add_argument("--private-key")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
