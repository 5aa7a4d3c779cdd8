"""Connections that are too many, too slow, or do not read their answers. The sockets are raw, and the test moves the
clock.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Literal

import msgspec
import pytest
import uvloop
from structlog.testing import capture_logs

from scheduler_service.api.http.connections import TURN_SECONDS, UNREAD_SECONDS, Parsing
from tests.support.api import ADMIN_KEY, ApiHarness, callback, schedule
from tests.support.turns import until
from tests.unit.cql.gate import Gate

SCHEDULES = "/v1/clients/shop/schedules"
LIVE = b"GET /livez HTTP/1.1\r\nHost: api\r\n\r\n"
LIMIT = 5


@dataclass(slots=True)
class Caller:
    """The other end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def of(cls, api: ApiHarness, data: bytes = b"", *, receive_buffer: int | None = None) -> "Caller":
        assert api.server is not None
        plain = socket.socket()
        plain.setblocking(False)
        if receive_buffer is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", api.server.port))
        caller = cls(*await asyncio.open_connection(sock=plain))
        caller.writer.write(data)
        await caller.writer.drain()
        return caller

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, headers, body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        return int(status.split(" ")[1]), headers, await self.reader.readexactly(int(headers["Content-Length"]))

    async def closed(self) -> bytes:
        """What is received until the other side closes the connection."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


def opened(api: ApiHarness) -> int:
    assert api.server is not None
    return api.server.connections


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness(max_connections=LIMIT) as made:
        yield made


async def test_a_connection_that_says_nothing_is_closed(api: ApiHarness) -> None:
    silent = await Caller.of(api)
    await until(lambda: opened(api) == 1)
    api.clock.advance(9.9)
    assert opened(api) == 1
    api.clock.advance(0.1)
    assert await silent.closed() == b""
    await until(lambda: opened(api) == 0)
    await silent.close()


async def test_headers_that_trickle_in_are_given_up(api: ApiHarness) -> None:
    slow = await Caller.of(api, LIVE[:10])
    await until(lambda: opened(api) == 1)
    for number in range(9):
        api.clock.advance(1.0)
        slow.writer.write(LIVE[10 + number : 11 + number])
        await slow.writer.drain()
    ready = await Caller.of(api, LIVE)
    assert (await ready.answer())[0] == 200, "others are served meanwhile"
    api.clock.advance(1.1)
    status, headers, body = await slow.answer()
    assert (status, msgspec.json.decode(body)["type"]) == (408, "/problems/request-timeout")
    assert headers["Connection"] == "close"
    assert headers["X-Request-Id"]
    assert await slow.closed() == b""
    for caller in (slow, ready):
        await caller.close()


async def test_headers_of_a_later_request_have_as_long_from_their_first_byte(api: ApiHarness) -> None:
    caller = await Caller.of(api, LIVE)
    assert (await caller.answer())[0] == 200
    api.clock.advance(60)
    caller.writer.write(LIVE)
    assert (await caller.answer())[0] == 200, "idle is not slow"
    caller.writer.write(LIVE[:-2])
    await caller.writer.drain()
    await until(lambda: waited_for(api, "heads") == 1)
    api.clock.advance(9)
    caller.writer.write(LIVE[-2:])
    assert (await caller.answer())[0] == 200
    caller.writer.write(LIVE[:-2])
    await caller.writer.drain()
    await until(lambda: waited_for(api, "heads") == 1)
    api.clock.advance(10)
    assert (await caller.answer())[0] == 408
    assert await caller.closed() == b""
    await caller.close()


def waited_for(api: ApiHarness, what: Literal["heads", "answers"]) -> int:
    assert api.server is not None
    assert api.server._kept is not None
    return sum(wait.at_end is not None for wait in getattr(api.server._kept, what)._queue)


async def test_a_long_body_is_not_taken_for_the_head_of_what_follows(api: ApiHarness) -> None:
    key = await api.register("shop")
    before = waited_for(api, "heads")
    item = schedule(callback=callback(body="x" * 3_000))
    body = msgspec.json.encode({"items": [item] * 80})
    caller = await Caller.of(api, begun(key, length=len(body)) + body)
    assert (await caller.answer())[0] == 200
    assert waited_for(api, "heads") == before
    await caller.close()


async def test_headers_that_grow_too_long_are_refused_before_they_end(api: ApiHarness) -> None:
    caller = await Caller.of(api, LIVE[:-2])
    for number in range(6):
        caller.writer.write(f"X-{number}: ".encode() + b"y" * 15_000 + b"\r\n")
        await caller.writer.drain()
    status, _, body = await caller.answer()
    assert (status, msgspec.json.decode(body)["type"]) == (400, "/problems/malformed")
    assert b"yyy" not in body
    await caller.closed()
    await caller.close()


async def test_too_many_headers_are_refused(api: ApiHarness) -> None:
    few, many = (b"".join(b"X-%d: y\r\n" % number for number in range(count)) for count in (99, 101))
    for more, status in ((few, 200), (many, 400)):
        caller = await Caller.of(api, LIVE[:-2] + more + b"\r\n")
        assert (await caller.answer())[0] == status
        await caller.close()


async def test_the_one_that_waits_longest_makes_room(api: ApiHarness) -> None:
    callers = [await Caller.of(api, LIVE) for _ in range(LIMIT)]
    for caller in callers:
        assert (await caller.answer())[0] == 200
    callers[0].writer.write(LIVE)
    assert (await callers[0].answer())[0] == 200
    with capture_logs() as logs:
        for _ in range(2):
            callers.append(await Caller.of(api, LIVE))
            assert (await callers[-1].answer())[0] == 200
    assert opened(api) == LIMIT
    assert [line["event"] for line in logs] == ["connections-full"]
    for lost in callers[1:3]:
        assert await lost.closed() == b""
    for caller in (callers[0], *callers[3:]):
        caller.writer.write(LIVE)
        assert (await caller.answer())[0] == 200
    for caller in callers:
        await caller.close()
    await until(lambda: opened(api) == 0)


async def test_without_waiting_connections_a_new_one_is_refused_and_the_others_are_answered() -> None:
    connection = Gate()
    async with ApiHarness(connection=connection, max_connections=LIMIT) as api:
        await api.register("shop")
        await Caller.close(await Caller.of(api))
        connection.hold = True
        body = msgspec.json.encode(schedule())
        head = (
            f"POST {SCHEDULES} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {ADMIN_KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        busy = [await Caller.of(api, head.encode() + body) for _ in range(LIMIT)]
        await until(lambda: api.storage.group_commit.rows == LIMIT)
        refused = await Caller.of(api)
        status, headers, problem = await refused.answer()
        assert (status, msgspec.json.decode(problem)["type"]) == (503, "/problems/overloaded")
        assert headers["Retry-After"] == "1"
        assert await refused.closed() == b""
        assert opened(api) == LIMIT
        connection.hold = False
        for gate in connection.held:
            gate.set_result(None)
        for caller in busy:
            assert (await caller.answer())[0] == 201
        for caller in (*busy, refused):
            await caller.close()


async def test_a_flood_never_exceeds_the_limit_and_locks_no_caller_out(api: ApiHarness) -> None:
    most = 0
    flood: list[Caller] = []
    for number in range(60):
        flood.append(await Caller.of(api, LIVE[: number % 20]))
        most = max(most, opened(api))
        if number % 20 == 0:
            caller = await Caller.of(api, LIVE)
            assert (await caller.answer())[0] == 200
            await caller.close()
    assert most == LIMIT
    caller = await Caller.of(api, LIVE)
    assert (await caller.answer())[0] == 200
    for one in (*flood, caller):
        await one.close()
    await until(lambda: opened(api) == 0)


@pytest.mark.parametrize("closing", [False, True], ids=["kept", "closing"])
async def test_an_answer_that_is_not_taken_is_broken_off(api: ApiHarness, closing: bool) -> None:
    key = await api.register("shop", settings={"payload_bytes": 900_000})
    for _ in range(5):
        large = schedule(callback=callback(body="x" * 900_000))
        assert (await api.send("POST", SCHEDULES, key=key, json=large)).status == 201
    head = f"GET {SCHEDULES} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {key}\r\n".encode()
    before = opened(api)
    caller = await Caller.of(api, receive_buffer=4096)
    caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
    caller.writer.write(head + b"Connection: close\r\n" * closing + b"\r\n")
    await until(lambda: waited_for(api, "answers") == 1)
    assert api.server is not None
    assert api.server._kept is not None
    limits = {connection._socket.get_write_buffer_limits() for connection in api.server._kept._open}  # type: ignore
    assert limits == {(0, 0)}, "the last bytes are waited for too"
    api.clock.advance(59)
    assert waited_for(api, "answers") == 1
    assert opened(api) == before + 1
    api.clock.advance(1)
    await until(lambda: opened(api) == before)
    await caller.close()


async def stalled(api: ApiHarness) -> Caller:
    """A caller without a key whose answers exceed a socket's buffer, and who reads none of them."""
    caller = await Caller.of(api, receive_buffer=4096)
    caller.writer.transport.pause_reading()  # type: ignore[attr-defined]
    caller.writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: api\r\n\r\n" * 100)
    return caller


async def test_without_waiting_connections_the_answer_unread_for_longest_makes_room(api: ApiHarness) -> None:
    assert api.server is not None
    assert api.server._kept is not None
    there, slow = api.server._kept._open, []
    for number in range(1, LIMIT + 1):
        slow.append(await stalled(api))
        await until(lambda number=number: waited_for(api, "answers") == number)
        api.clock.advance(0.1)
    first, *others = list(there)
    early = await Caller.of(api, LIVE)
    assert (await early.answer())[0] == 503, "everybody has a second"
    api.clock.advance(UNREAD_SECONDS - 0.5)
    slow.append(await Caller.of(api, LIVE))
    assert (await slow[-1].answer())[0] == 200
    assert list(there)[:-1] == others
    assert first.transport is None
    slow.append(await stalled(api))
    await until(lambda: waited_for(api, "answers") == LIMIT)
    assert list(there)[:-1] == others, "who waits goes first"
    late = await Caller.of(api, LIVE)
    assert (await late.answer())[0] == 503, "the others have their second"
    api.clock.advance(UNREAD_SECONDS)
    for left in range(len(others) - 1, -1, -1):
        slow.append(await stalled(api))
        await until(lambda left=left: (len({*there} & {*others}), waited_for(api, "answers")) == (left, LIMIT))
    assert opened(api) == LIMIT
    for one in (*slow, early, late):
        await one.close()
    await until(lambda: opened(api) == 0)


async def test_an_answer_that_is_taken_slowly_but_in_time_comes_whole(api: ApiHarness) -> None:
    caller = await Caller.of(api, receive_buffer=4096)
    caller.writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: api\r\n\r\n" * 40)
    await caller.writer.drain()
    for _ in range(40):
        status, _, body = await caller.answer()
        assert (status, msgspec.json.decode(body)["openapi"]) == (200, "3.1.1")
    api.clock.advance(61)
    caller.writer.write(LIVE)
    assert (await caller.answer())[0] == 200
    await caller.close()


UNENDED = (
    b"POST " + SCHEDULES.encode() + b" HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n%s\r\n"
)
SHORT_CHUNKS = b"1\r\n \r\n" * 20_000


@dataclass(slots=True)
class Parsed:
    """Counts the bytes that an API's connections have parsed."""

    size: int = 0

    @classmethod
    def of(cls, api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> "Parsed":
        assert api.server is not None
        assert api.server._kept is not None
        parsed, parsing = cls(), api.server._kept.parsing
        spend = parsing.spend

        def counted(parse: Callable[[bytes], None], data: bytes) -> None:
            parsed.size += len(data)
            spend(parse, data)

        monkeypatch.setattr(parsing, "spend", counted)
        return parsed


async def test_what_is_left_of_an_answered_request_is_dropped(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request has no key, because such requests cost an attacker least."""
    parsed = Parsed.of(api, monkeypatch)
    caller = await Caller.of(api, UNENDED % b"")
    status, headers, _ = await caller.answer()
    assert (status, headers["Connection"]) == (401, "close")
    before = parsed.size
    with contextlib.suppress(ConnectionError):
        for _ in range(100):  # 12 MB
            caller.writer.write(SHORT_CHUNKS)
            await caller.writer.drain()
    assert await caller.closed() == b""
    assert parsed.size == before
    await caller.close()


async def test_a_short_rest_of_an_answered_request_keeps_its_connection(api: ApiHarness) -> None:
    head = f"POST {SCHEDULES} HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\nContent-Length: 30000\r\n\r\n"
    caller = await Caller.of(api, head.encode())
    assert (await caller.answer())[0] == 401
    caller.writer.write(b" " * 30_000 + LIVE)
    assert (await caller.answer())[0] == 200
    await caller.close()


async def test_a_body_of_short_chunks_is_refused(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    key = await api.register("shop")
    parsed = Parsed.of(api, monkeypatch)
    caller = await Caller.of(api, UNENDED % f"Authorization: Bearer {key}\r\n".encode() + 10 * SHORT_CHUNKS)
    status, _, body = await caller.answer()
    assert (status, msgspec.json.decode(body)["detail"]) == (
        400,
        "the chunks of the body are too short: send longer chunks",
    )
    assert parsed.size < 3 * len(SHORT_CHUNKS)
    await caller.close()


async def test_hanging_up_amid_a_body_is_no_crash_of_ours(api: ApiHarness) -> None:
    key = await api.register("shop")
    before = opened(api)
    with capture_logs() as logs:
        caller = await Caller.of(api, UNENDED % f"Authorization: Bearer {key}\r\n".encode() + b"1\r\n{\r\n")
        await until(lambda: opened(api) == before + 1)
        await caller.close()
        await until(lambda: opened(api) == before)
    assert [line for line in logs if line["log_level"] == "error"] == []


def held_bytes(api: ApiHarness) -> int:
    assert api.server is not None
    return sum(api.server._services.body_capacity._held.values())


def unended(key: str, size: int) -> bytes:
    head = UNENDED % f"Authorization: Bearer {key}\r\n".encode()
    return head + f"{size:x}\r\n".encode() + b" " * size + b"\r\n"


async def test_bodies_that_do_not_end_hold_bounded_memory_until_they_are_given_up() -> None:
    async with ApiHarness(held_body_bytes=300_000, max_body_bytes=200_000) as api:
        key, other = await api.register("shop"), await api.register("other")
        first, second = [await Caller.of(api, unended(key, 120_000)) for _ in range(2)]
        await until(lambda: held_bytes(api) == 240_000)
        refused = await Caller.of(api, unended(key, 120_000))
        status, headers, body = await refused.answer()
        assert (status, headers["Retry-After"]) == (429, "1")
        assert "300000 bytes" in msgspec.json.decode(body)["detail"]
        assert (await api.send("POST", SCHEDULES.replace("shop", "other"), key=other, json=schedule())).status == 201
        second.writer.write(b"0\r\n\r\n")
        assert (await second.answer())[0] == 400, "it is read, and no JSON"
        await first.close()

        await until(lambda: held_bytes(api) == 0)
        for one in (second, refused):
            await one.close()


def begun(key: str | None, client: str = "shop", *, length: int = 100) -> bytes:
    """The head of a batch whose body does not arrive with it."""
    lines = [f"POST /v1/clients/{client}/schedules:batch HTTP/1.1", "Host: api", "Content-Type: application/json"]
    lines += [f"Content-Length: {length}"] + [f"Authorization: Bearer {key}"] * (key is not None)
    return "\r\n".join([*lines, "", ""]).encode()


async def test_one_caller_waits_to_send_no_more_than_a_quarter_of_the_connections_bodies() -> None:
    async with ApiHarness(max_connections=12) as api:
        key, other = await api.register("shop"), await api.register("other")
        slow = [await Caller.of(api, begun(key)) for _ in range(3)]
        await until(lambda: sum(api.services.body_capacity._awaited.values()) == 3)
        for _ in range(20):
            refused = await Caller.of(api, begun(key))
            status, headers, body = await refused.answer()
            assert (status, headers["Retry-After"], headers["Connection"]) == (429, "1", "close")
            assert msgspec.json.decode(body)["type"] == "/problems/too-many-requests"
            slow.append(refused)
        path = SCHEDULES.replace("shop", "other")
        assert (await api.send("POST", path, key=other, json=schedule())).status == 201
        assert (await api.send("POST", SCHEDULES, key=key, json=schedule())).status == 201, "its body comes at once"
        theirs = await Caller.of(api, begun(other, "other"))
        theirs.writer.write(b" " * 100)
        assert (await theirs.answer())[0] == 400, "read, and empty"
        slow[0].writer.write(b" " * 100)
        assert (await slow[0].answer())[0] == 400
        await slow[1].close()
        await until(lambda: sum(api.services.body_capacity._awaited.values()) == 1)
        again = await Caller.of(api, begun(key))
        await until(lambda: sum(api.services.body_capacity._awaited.values()) == 2)
        for caller in (*slow, theirs, again):
            await caller.close()
        await until(lambda: not api.services.body_capacity._awaited)


async def test_a_request_answered_before_its_body_arrived_makes_room(api: ApiHarness) -> None:
    """Without a key: each would keep its connection for the two seconds for which the API waits for its body."""
    callers = [await Caller.of(api, begun(None)) for _ in range(4 * LIMIT)]
    assert {(await caller.answer())[0] for caller in callers} == {401}
    callers.append(await Caller.of(api, begun(None)))
    assert (await callers[-1].answer())[0] == 401
    callers[-1].writer.write(b" " * 100 + LIVE)
    assert (await callers[-1].answer())[0] == 200
    for caller in callers:
        await caller.close()


async def test_no_task_outlives_a_closed_connection() -> None:
    async with ApiHarness() as api:
        before = asyncio.all_tasks()
        caller = await Caller.of(api, begun(None))
        assert (await caller.answer())[0] == 401
        await caller.close()
        await until(lambda: opened(api) == 0)
    assert asyncio.all_tasks() <= before


async def test_a_request_that_follows_a_late_rest_is_not_closed_for_another() -> None:
    gate = Gate()
    async with ApiHarness(connection=gate, max_connections=LIMIT) as api:
        key = await api.register("shop")
        await Caller.close(await Caller.of(api))
        body = msgspec.json.encode(schedule())
        create = f"POST {SCHEDULES} HTTP/1.1\r\nHost: api\r\nAuthorization: Bearer {key}\r\n"
        create += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        caller = await Caller.of(api, begun(None))
        assert (await caller.answer())[0] == 401
        gate.hold = True
        caller.writer.write(b" " * 100 + create.encode() + body)
        await until(lambda: api.storage.group_commit.rows == 1)
        others = [await Caller.of(api, LIVE) for _ in range(2 * LIMIT)]
        assert (await others[-1].answer())[0] == 200
        gate.hold = False
        for held in gate.held:
            held.set_result(None)
        assert (await caller.answer())[0] == 201
        for one in (caller, *others):
            await one.close()


async def test_a_body_in_chunks_is_paid_for_as_it_comes() -> None:
    async with ApiHarness(client_budget_per_second=1) as api:
        key = await api.register("shop")
        caller = await Caller.of(api, unended(key, 2_000_000))
        assert (await caller.answer())[0] == 429, "2 MB cost 18 units, and there are 10"
        await caller.close()


class Piled:
    """A connection with pieces to parse, each of which takes a while."""

    def __init__(self, parsing: Parsing, pieces: int, parse: Callable[[bytes], None]) -> None:
        self.parsing, self.pieces, self.parse = parsing, pieces, parse

    def parse_next(self) -> bool:
        self.pieces -= 1
        self.parsing.spend(self.parse, b"")
        return self.pieces > 0


async def test_a_turn_of_the_loop_parses_for_a_bounded_time_whatever_waits() -> None:
    now = 0.0
    turns: list[float] = []

    def parse(data: bytes) -> None:
        nonlocal now
        now += TURN_SECONDS / 2.5

    parsing = Parsing(monotonic=lambda: now)
    piled = [Piled(parsing, 3, parse) for _ in range(50)]
    assert parsing.at_once()
    for one in piled:
        parsing.wait(one)  # type: ignore[arg-type]
    assert not parsing.at_once()
    while any(one.pieces for one in piled):
        began = now
        await asyncio.sleep(0)
        turns.append(now - began)
        left = {one.pieces for one in piled}
        assert max(left) - min(left) <= 1, "each gets its turn before anybody gets another"
    assert max(turns) == pytest.approx(3 * TURN_SECONDS / 2.5)
    await asyncio.sleep(0)
    assert parsing.at_once()


def test_requests_are_read_on_the_loop_that_programs_run_on() -> None:
    """Including long requests, which are parsed in pieces, and several in a row on one connection."""

    async def scenario() -> None:
        async with ApiHarness() as api:
            key = await api.register("shop")
            item = {"delay_seconds": 90, "callback": {"url": "https://a.example/", "body": "x" * 3_000}}
            for _ in range(2):
                reply = await api.send(
                    "POST", "/v1/clients/shop/schedules:batch", key=key, json={"items": [item] * 200}
                )
                assert [one["status"] for one in reply.json["items"]] == [201] * 200

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
