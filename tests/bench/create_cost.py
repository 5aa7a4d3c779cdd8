"""Measures what creates cost one API process, in its own process: CPU microseconds each, and where they are spent.

    python -m tests.bench.create_cost [--batch N] [--connections N] [--rounds N] [--profile N] [--header "NAME: VALUE"]

Everything of the API is real except the sockets and Cassandra: requests are handed to the connections as bytes, and
rows are acknowledged in the next turn of the loop and not stored. So system calls and the driver are left out, and
nothing else disturbs the measurement: the best of many rounds is the same to 2 % from run to run.
"""

import argparse
import asyncio
import cProfile
import json
import pstats
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any, NamedTuple, cast

import uvloop
from cassandra.cqltypes import lookup_casstype_simple

from cql.binding import Binder
from cql.connection import Consistency, Item
from cql.memory.connection import InMemoryConnection
from minutehand.running import spare_collector
from scheduler_service.domain.ids import HOUR_MS
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.runtime.clock import SystemClock
from tests.bench.load import Dues
from tests.support.api import ApiHarness, ManualClock

REQUESTS = 640
"""Requests in a round of single creates."""
ROWS = 16_000
"""Rows in a round of batches."""
KINDS = {"t": "UTF8Type", "i": "Int32Type", "m": "TimestampType", "u": "UUIDType", "b": "BytesType"}
COLUMNS = {
    "schedules.insert_definition": "timmuttttbttttmummi",
    "schedules.insert_packed": "timmutbtttmummi",
    "occupied_minutes.insert": "tmmi",
}
"""Types of the parameters of the writes of new rows."""


class Column(NamedTuple):
    name: str
    type: Any


class Prepared:
    """The driver's form of a prepared statement."""

    query_id = b"0123456789abcdef"

    def __init__(self, columns: str) -> None:
        self.column_metadata = [Column(kind, lookup_casstype_simple(KINDS[kind])) for kind in columns]


class InstantConnection(InMemoryConnection):
    """Encodes new rows as bytes, acknowledges them a turn of the loop later, and discards them."""

    def __init__(self) -> None:
        super().__init__()
        self._binders = {name: Binder(cast(Any, Prepared(columns))) for name, columns in COLUMNS.items()}

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        if (binder := self._binders.get(items[0][0])) is None:
            await super().write_batch(items, consistency=consistency)
            return
        b"".join([binder.row(parameters) for _, parameters in items])
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(answer.set_result, None)
        await answer


class Loopback(asyncio.Transport):
    """The other end of a connection: sends the next request when the last one was answered."""

    def __init__(self, answered: Callable[["Loopback", bytes], None]) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.protocol: Any = None
        self._answered = answered
        self._answer = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._answer += data
        head, found, body = self._answer.partition(b"\r\n\r\n")
        if not found:
            return
        start = head.lower().index(b"content-length: ") + 16
        if len(body) >= int(head[start:].split(b"\r\n", 1)[0]):
            whole, self._answer = self._answer, b""
            self._answered(self, whole)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close


def requests(key: str, *, batch: int, headers: Sequence[str]) -> Iterator[bytes]:
    """Requests like those of the load generator."""
    start = int(time.time() * 1000) + HOUR_MS
    dues, callback = Dues(start, start + HOUR_MS), {"url": "http://127.0.0.1:8080/callbacks", "body": "x" * 200}
    lines = ["Host: bench", f"Authorization: Bearer {key}", "Content-Type: application/json", *headers]
    verb = ":batch" if batch else ""

    def item() -> dict[str, object]:
        seconds, milliseconds = divmod(dues.next(), 1000)
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        return {"due": f"{text}.{milliseconds:03d}Z", "callback": callback}

    while True:
        body = json.dumps({"items": [item() for _ in range(batch)]} if batch else item()).encode()
        head = "\r\n".join([f"POST /v1/clients/bench/schedules{verb} HTTP/1.1", *lines, f"Content-Length: {len(body)}"])
        yield head.encode() + b"\r\n\r\n" + body


class Load:
    """A closed loop over connections of a server."""

    def __init__(self, protocols: Sequence[Any], prepared: Sequence[bytes]) -> None:
        self._prepared = cycle(prepared)
        self._loop = asyncio.get_running_loop()
        self._left = self._unanswered = 0
        self._done: asyncio.Future[None]
        self._connections = []
        for protocol in protocols:
            transport = Loopback(self._answered)
            transport.protocol = protocol
            protocol.connection_made(transport)
            self._connections.append(transport)

    async def round(self, count: int) -> float:
        """CPU seconds that so many requests took."""
        self._left = self._unanswered = count
        self._done = self._loop.create_future()
        began = time.thread_time()
        for connection in self._connections[:count]:
            self._ask(connection)
        await self._done
        return time.thread_time() - began

    def _ask(self, connection: Loopback) -> None:
        self._left -= 1
        # Some turns later, as over a socket: before aiohttp's task waits for it, a request is none of `plain_creates`.
        soon = self._loop.call_soon
        soon(soon, soon, connection.protocol.data_received, next(self._prepared))

    def _answered(self, connection: Loopback, answer: bytes) -> None:
        assert answer.startswith(b"HTTP/1.1 20"), answer
        self._unanswered -= 1
        if self._left:
            self._ask(connection)
        elif not self._unanswered:
            self._done.set_result(None)


async def measure(arguments: argparse.Namespace) -> None:
    batch = arguments.batch
    loopback = NetworkPolicy.parse(allow=["127.0.0.0/8"])
    clock = cast(ManualClock, SystemClock())
    async with ApiHarness(connection=InstantConnection(), clock=clock, network=loopback) as api:
        key = await api.register("bench", quota=64, settings={"create_rate_per_second": 1_000_000})
        made = requests(key, batch=batch, headers=arguments.header)
        prepared = [next(made) for _ in range(3 * ROWS // batch if batch else 10_000)]
        count = ROWS // batch if batch else REQUESTS
        assert api.server is not None
        assert api.server._runner is not None
        accept = cast(Callable[[], Any], api.server._runner.server)
        connections = arguments.connections or (8 if batch else 64)
        load = Load([accept() for _ in range(connections)], prepared)
        spare_collector()
        await load.round(len(prepared))
        taken = sorted([await load.round(count) for _ in range(arguments.rounds)])
        each = count * (batch or 1) / 1e6
        best, usual = taken[0] / each, statistics.median(taken) / each
        print(f"{best:6.2f} us a create at best, {usual:.2f} in the median of {len(taken)} rounds of {count} requests")
        if arguments.profile:
            profile = cProfile.Profile()
            profile.enable()
            await load.round(10 * count)
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(arguments.profile)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--connections", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--profile", type=int, default=0, metavar="N", help="also print the N dearest functions")
    parser.add_argument("--header", action="append", default=[], metavar="LINE", help="one more of every request")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure(arguments))


if __name__ == "__main__":
    main()
