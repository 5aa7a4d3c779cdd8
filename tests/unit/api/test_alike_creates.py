"""Creates with known headers skip parsing: they are answered as if parsed, and all others are parsed."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from scheduler_service.api import plain_creates
from tests.support.api import NOW, schedule
from tests.unit.api.plain import SCHEDULES, Held, create


@pytest.fixture
async def held() -> AsyncIterator[Held]:
    async with Held.open() as world:
        yield world


async def test_headers_that_were_plain_before_are_not_parsed_again(held: Held) -> None:
    request = create(held.key, msgspec.json.encode(schedule()))
    assert [await held.ask(request) for _ in range(3)] == [b"201"] * 3
    assert (held.begun, held.alike) == (3, 2)
    other = create(held.key, msgspec.json.encode(schedule()), path=f"{SCHEDULES}?once={NOW}.3.1.{16 * 'a'}")
    assert await held.ask(other) == b"201"
    assert held.alike == 3


async def test_what_is_refused_is_judged_once_before_it_goes_the_long_way(held: Held) -> None:
    right = msgspec.json.encode(schedule())
    assert await held.ask(create(held.key, right)) == b"201"
    held.judged = 0
    assert await held.ask(create(held.key, b"x" * len(right))) == b"400"
    assert held.judged == 1


async def test_a_body_is_waited_for_to_its_end(held: Held) -> None:
    request = create(held.key, msgspec.json.encode(schedule()) + b"  ")
    assert await held.ask(request) == b"201"
    await held.parsed(request[:-2])
    assert held.begun == 1
    assert await held.ask(b"  ") == b"201"


@pytest.mark.parametrize("begun", [b"X", b"GET /v1/clients HTTP/1.1\r\nX-A: "])
async def test_a_create_behind_an_unfinished_request_is_not_answered_as_one(held: Held, begun: bytes) -> None:
    request = create(held.key, msgspec.json.encode(schedule()))
    assert await held.ask(request) == b"201"
    assert await held.ask(begun, request) != b"201"
    assert held.begun == 1


async def test_what_follows_a_request_in_its_piece_is_not_forgotten(held: Held) -> None:
    body = msgspec.json.encode(schedule())
    request = create(held.key, body)
    assert await held.ask(request) == b"201"
    assert await held.ask(create(held.key, body, "X-Request-Id: 2") + b"P") == b"201"
    assert await held.ask(request) == b"400"


async def test_headers_in_several_pieces_are_not_remembered(held: Held) -> None:
    request = create(held.key, msgspec.json.encode(schedule()))
    assert await held.ask(f"POST {SCHEDULES} HTTP/1.1\r\nX-A: ".encode(), request) == b"201"
    assert await held.ask(request) == b"201"
    assert held.plain._remembered == {}


async def test_what_is_remembered_of_headers_is_bounded(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_creates, "REMEMBERED_HEADERS", 3)
    body = msgspec.json.encode(schedule())
    kept = []
    for number in range(5):
        assert await held.ask(create(held.key, body, f"X-Request-Id: {number}")) == b"201"
        kept.append(len(held.plain._remembered))
    assert kept == [1, 2, 3, 1, 2]
    assert await held.ask(create(held.key, body, f"X-Long: {plain_creates.REMEMBERED_BYTES * 'x'}")) == b"201"
    assert await held.ask(create(held.key + "x", body)) == b"401"
    assert len(held.plain._remembered) == 2


@pytest.mark.parametrize(
    "asked",
    [
        {"version": "1.0"},
        {"path": f"{SCHEDULES}?"},
        {"path": f"{SCHEDULES}#x"},
        {"path": f"http://api{SCHEDULES}"},
        {"path": "/v1/clients/%73hop/schedules"},
    ],
)
async def test_an_unusual_line_is_parsed(held: Held, asked: dict[str, str]) -> None:
    body = msgspec.json.encode(schedule())
    assert await held.ask(create(held.key, body)) == b"201"
    await held.ask(create(held.key, body, **asked))
    assert held.alike == 0


async def test_a_connection_may_begin_with_headers_that_are_remembered(held: Held) -> None:
    request = create(held.key, msgspec.json.encode(schedule()))
    assert await held.ask(request) == b"201"
    assert held.api.server is not None
    held.writer.close()
    held.reader, held.writer = await asyncio.open_connection("127.0.0.1", held.api.server.port)
    assert await held.ask(request) == b"201"
    assert held.alike == 1
    held.api.clock.advance(held.api.settings.head_timeout_seconds)
    assert await held.ask(request) == b"201"
