"""TLS: which certificates the engine trusts, and the error of the others."""

import asyncio
import ssl
import warnings
from pathlib import Path

import pytest

from poller_cluster.delivery.result import AttemptResult
from tests.support.certificates import Authority
from tests.support.delivery import EngineMaker, Trust, attempt, post
from tests.support.raw_receiver import RawReceiver


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def assert_untrusted(result: AttemptResult) -> None:
    assert (result.status, result.error, result.nothing_sent, result.final) == (None, "tls-failed", True, False)


async def test_a_trusted_receiver(make_engine: EngineMaker, authority: Authority) -> None:
    engine = await make_engine(ca_file=str(authority.bundle))
    async with RawReceiver(tls=authority.server_context("127.0.0.1")) as receiver:
        for _ in range(3):
            assert (await attempt(engine, post(receiver.url()))).succeeded
        assert receiver.connections == 1
        result = await attempt(engine, post(receiver.url()), Trust(1))
        assert (result.error, result.nothing_sent, len(receiver.requests)) == ("not-trusted", True, 3)
        await engine.stop()


async def test_an_unknown_authority(make_engine: EngineMaker, authority: Authority) -> None:
    engine = await make_engine()
    async with RawReceiver(tls=authority.server_context("127.0.0.1")) as receiver:
        assert_untrusted(await attempt(engine, post(receiver.url())))
        assert receiver.requests == []


async def test_a_certificate_for_another_name(make_engine: EngineMaker, authority: Authority) -> None:
    engine = await make_engine(ca_file=str(authority.bundle))
    async with RawReceiver(tls=authority.server_context("127.0.0.2")) as receiver:
        assert_untrusted(await attempt(engine, post(receiver.url())))


async def test_a_bundle_may_hold_a_receiver_s_certificate_alone(make_engine: EngineMaker, authority: Authority) -> None:
    context = authority.server_context("127.0.0.1")
    engine = await make_engine(ca_file=str(authority.bundle.parent / "127.0.0.1.crt"))
    async with RawReceiver(tls=context) as receiver:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        await engine.stop()


async def test_old_versions_are_refused(make_engine: EngineMaker, authority: Authority) -> None:
    context = authority.server_context("127.0.0.1")
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    engine = await make_engine(ca_file=str(authority.bundle))
    async with RawReceiver(tls=context) as receiver:
        assert_untrusted(await attempt(engine, post(receiver.url())))


async def test_an_authorities_bundle_that_cannot_be_read(make_engine: EngineMaker, tmp_path: Path) -> None:
    for content in (None, b"nonsense"):
        if content is not None:
            (tmp_path / "bundle").write_bytes(content)
        with pytest.raises(OSError, match=r"No such file|PEM|NO_CERT|no start line|certificate"):
            await make_engine(ca_file=str(tmp_path / "bundle"))


async def test_a_receiver_that_speaks_no_tls(make_engine: EngineMaker) -> None:
    async def complain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 The plain HTTP request was not sent\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    engine = await make_engine()
    async with await asyncio.start_server(complain, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert_untrusted(await attempt(engine, post(f"https://127.0.0.1:{port}/")))
