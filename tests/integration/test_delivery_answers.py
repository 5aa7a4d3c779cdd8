"""Answers that do not end: the engine bounds what it reads in bytes and in time, and their status decides."""

import asyncio
from pathlib import Path

import pytest

from poller_cluster.delivery.engine import DeliveryEngine
from tests.support.certificates import Authority
from tests.support.delivery import EngineMaker, attempt, begin, post
from tests.support.http2_receiver import Http2Receiver, Stream, answered
from tests.support.raw_receiver import Answer, RawReceiver, RawRequest, writing

CHUNKED = b"HTTP/1.1 %d Whatever\r\nTransfer-Encoding: chunked\r\n\r\n"
MOST_SENT = 48 * 1024 * 1024
"""The bytes that a receiver can send before its connection is closed: the bound, and the sockets' buffers."""


def endless(*pieces: bytes, piece: bytes, sent: list[int]) -> Answer:
    """Writes `piece` until the connection is closed; `sent` counts the bytes."""

    async def answer(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        for each in pieces:
            writer.write(each)
        try:
            while sum(sent) < 4 * MOST_SENT:
                writer.write(piece)
                await writer.drain()
                sent.append(len(piece))
        except ConnectionError:
            sent.append(0)

    return answer


@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize(
    ("begun", "piece"),
    [
        pytest.param(b"5;", b"a" * 65_536, id="chunk extension"),
        pytest.param(b"0\r\n", b"X-Trailer: " + b"a" * 50_000 + b"\r\n", id="trailers"),
        pytest.param(b"", b"1;" + b"a" * 60_000 + b"\r\na\r\n", id="many extensions"),
    ],
)
async def test_an_answer_without_an_end_is_cut_off(
    engine: DeliveryEngine, receiver: RawReceiver, status: int, begun: bytes, piece: bytes
) -> None:
    sent: list[int] = []
    receiver.script["/x"] = endless(CHUNKED % status, begun, piece=piece, sent=sent)
    result = await attempt(engine, post(receiver.url("/x"), timeout_seconds=60))
    assert (result.status, result.error) == (status, None)
    await receiver.idle()
    assert sum(sent) < MOST_SENT
    assert sent[-1] == 0, "the connection was closed"
    assert (await attempt(engine, post(receiver.url()))).succeeded


async def test_headers_without_an_end_are_no_answer(engine: DeliveryEngine, receiver: RawReceiver) -> None:
    sent: list[int] = []
    receiver.script["/x"] = endless(piece=b"HTTP/1.1 103 Early\r\nX: " + b"a" * 900 + b"\r\n\r\n", sent=sent)
    result = await attempt(engine, post(receiver.url("/x"), timeout_seconds=60))
    assert result.error in ("bad-response", "reset")
    assert (result.status, result.nothing_sent) == (None, False)
    assert sum(sent) < MOST_SENT


@pytest.mark.parametrize("piece", [b"", b"1\r\na\r\n"])
async def test_an_answer_that_takes_too_long_is_cut_off(
    make_engine: EngineMaker, receiver: RawReceiver, piece: bytes
) -> None:
    engine = await make_engine(answer_seconds=0.1)

    async def slow(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED % 200)
        while not writer.is_closing():
            writer.write(piece)
            await asyncio.sleep(0.05)

    receiver.script["/x"] = slow
    result = await attempt(engine, post(receiver.url("/x"), timeout_seconds=60))
    assert result.succeeded
    assert result.duration_seconds < 30


async def test_a_receiver_may_take_its_time_before_the_status(make_engine: EngineMaker, receiver: RawReceiver) -> None:
    engine = await make_engine(answer_seconds=0.1)

    async def slow(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2.5)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    receiver.script["/x"] = slow
    under_way = begin(engine, post(receiver.url("/x"), timeout_seconds=60))
    assert (await asyncio.wait_for(under_way, 10)).succeeded
    assert (await attempt(engine, post(receiver.url()))).succeeded
    assert receiver.connections == 1


async def test_long_answers_in_small_chunks_keep_their_connection(
    engine: DeliveryEngine, receiver: RawReceiver
) -> None:
    """Many answers in a row, each within its bounds."""
    receiver.script["/x"] = writing(CHUNKED % 500, *[b"8\r\n12345678\r\n" * 100] * 80, b"0\r\n\r\n")
    for _ in range(20):
        result = await attempt(engine, post(receiver.url("/x")))
        assert (result.status, result.detail) == (500, "")
    assert receiver.connections == 1


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def test_frames_without_an_end_are_cut_off(make_engine: EngineMaker, authority: Authority) -> None:
    """HTTP/2 lets a receiver send frames of unknown types."""
    engine = await make_engine(ca_file=str(authority.bundle))
    unknown = (16_000).to_bytes(3, "big") + b"\xee\0\0\0\0\0" + b"a" * 16_000
    sent: list[int] = []

    def flood(stream: Stream) -> None:
        stream.answer(200, b"begun", ends=False)
        transport = stream.session._transport

        async def write() -> None:
            while sum(sent) < 4 * MOST_SENT and not transport.is_closing():
                if transport.get_write_buffer_size() < 1_000_000:
                    transport.write(unknown)
                    sent.append(len(unknown))
                await asyncio.sleep(0)

        tasks.append(asyncio.ensure_future(write()))

    tasks: list[asyncio.Future[None]] = []
    async with Http2Receiver(tls=authority.server_context("127.0.0.1")) as receiver:
        receiver.script["/x"] = flood
        receiver.script["/y"] = answered
        result = await attempt(engine, post(receiver.url("/x"), timeout_seconds=60))
        assert result.succeeded
        await asyncio.gather(*tasks)
        assert sum(sent) < MOST_SENT
        assert (await attempt(engine, post(receiver.url("/y")))).succeeded
