"""Tokens fetched over loopback from servers that behave, and from those that don't."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from poller_cluster.delivery import token_fetcher
from poller_cluster.delivery.token_fetcher import ANSWER_BYTES, TokenFetcher
from poller_cluster.delivery.token_request import Grant, TokenFailure
from scheduler_service.domain.destinations import TokenSource
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.network import NetworkPolicy
from tests.support.certificates import Authority
from tests.support.delivery import CLOCK, LOOPBACK, DeliverySettings
from tests.support.http2_receiver import Http2Receiver
from tests.support.raw_receiver import (
    Answer,
    RawReceiver,
    RawRequest,
    answering,
    closing,
    flooding,
    hanging,
    resetting,
    writing,
)

SHOP = ClientId("shop")
SECRET = "the-secret-of-shop"
DISCOVERY = "/.well-known/openid-configuration"
GRANTED = {"access_token": "abc123", "token_type": "Bearer", "expires_in": 600}
GRANT = Grant(token="abc123", lifetime_seconds=600.0)


def saying(status: int, **fields: object) -> Answer:
    return answering(status, json.dumps(fields).encode(), headers=("Content-Type: application/json",))


async def fetcher(policy: NetworkPolicy = LOOPBACK, **settings: Any) -> TokenFetcher:
    made = TokenFetcher(clock=CLOCK, policy=policy, settings=DeliverySettings(**settings), version="9")
    await made.start()
    return made


@pytest.fixture
async def fetching() -> AsyncIterator[TokenFetcher]:
    made = await fetcher()
    yield made
    await made.stop()


async def fetched(fetcher: TokenFetcher, **source: Any) -> Grant | TokenFailure:
    ended: asyncio.Future[Grant | TokenFailure] = asyncio.get_running_loop().create_future()
    fetcher.fetch(SHOP, TokenSource(client_id="shop", client_secret=SECRET, **source), ended.set_result)
    assert not ended.done()
    return await asyncio.wait_for(ended, 15)


async def failure(fetcher: TokenFetcher, **source: Any) -> TokenFailure:
    found = await fetched(fetcher, **source)
    assert isinstance(found, TokenFailure)
    assert SECRET not in repr(found)
    assert "abc123" not in repr(found)
    return found


async def test_a_token(fetching: TokenFetcher, receiver: RawReceiver) -> None:
    receiver.script["/token"] = saying(200, **GRANTED)
    assert await fetched(fetching, token_url=receiver.url("/token"), scope="call") == GRANT
    (request,) = receiver.requests
    assert request.method == "POST"
    assert request.body == b"grant_type=client_credentials&scope=call"
    assert request.values("Authorization")[0].startswith("Basic ")


async def test_over_http2_too(tmp_path: Any) -> None:
    authority = Authority(tmp_path)
    async with Http2Receiver(tls=authority.server_context("127.0.0.1")) as server:
        server.script["/token"] = lambda stream: stream.answer(200, json.dumps(GRANTED).encode())
        made = await fetcher(ca_file=str(authority.bundle))
        assert await fetched(made, token_url=server.url("/token")) == GRANT
        await made.stop()


async def test_the_endpoint_that_an_issuer_names(fetching: TokenFetcher, receiver: RawReceiver) -> None:
    issuer = receiver.url("/realm")
    receiver.script[f"/realm{DISCOVERY}"] = saying(200, issuer=issuer, token_endpoint=receiver.url("/t?x=1"))
    receiver.script["/t?x=1"] = saying(200, **GRANTED)
    assert await fetched(fetching, issuer=issuer) == GRANT
    assert [request.method for request in receiver.requests] == ["GET", "POST"]
    assert receiver.requests[0].values("Authorization") == []


@pytest.mark.parametrize("document", [{"issuer": "http://other"}, {"issuer": "", "token_endpoint": "x"}, {}])
async def test_an_issuer_that_names_another_gets_no_secret(
    fetching: TokenFetcher, receiver: RawReceiver, document: dict[str, str]
) -> None:
    receiver.script[DISCOVERY] = saying(200, **{"token_endpoint": receiver.url("/t"), **document})
    assert (await failure(fetching, issuer=receiver.url(""))).code == "bad-answer"
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("endpoint", ["http://10.0.0.1/t", "http://169.254.169.254/t", "file:///etc/passwd", "/t"])
async def test_an_issuer_may_not_name_a_forbidden_endpoint(
    fetching: TokenFetcher, receiver: RawReceiver, endpoint: str
) -> None:
    receiver.script[DISCOVERY] = saying(200, issuer=receiver.url(""), token_endpoint=endpoint)
    assert (await failure(fetching, issuer=receiver.url(""))).code == "no-answer"


async def test_a_forbidden_address_is_not_connected_to(receiver: RawReceiver) -> None:
    made = await fetcher(policy=NetworkPolicy.parse())
    found = await failure(made, token_url=receiver.url("/token"))
    assert (found.code, receiver.connections) == ("no-answer", 0)
    assert "127.0.0.1" not in found.detail
    await made.stop()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(fetching: TokenFetcher, receiver: RawReceiver, status: int) -> None:
    receiver.script["/token"] = answering(status, headers=(f"Location: {receiver.url('/there')}",))
    assert (await failure(fetching, token_url=receiver.url("/token"))).detail == f"the token endpoint answered {status}"
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (answering(500, b"oops"), "refused"),
        (saying(401, error="invalid_client", error_description="no such client"), "refused"),
        (answering(200, b"{"), "bad-answer"),
        (answering(200, b"\xff\xfe"), "bad-answer"),
        (answering(200, b"[" * 60_000), "bad-answer"),
        (answering(200, b""), "bad-answer"),
        (saying(200, **{**GRANTED, "access_token": "x" * ANSWER_BYTES}), "bad-answer"),
        (saying(200, **{**GRANTED, "token_type": "mac"}), "bad-answer"),
        (saying(200, **{**GRANTED, "expires_in": 0}), "bad-answer"),
        (saying(200, **{**GRANTED, "expires_in": -600}), "bad-answer"),
        (saying(200, **{**GRANTED, "expires_in": "later"}), "bad-answer"),
        (flooding, "bad-answer"),
        (writing(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", then=closing), "bad-answer"),
        (writing(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08"), "bad-answer"),
        (writing(b"no HTTP\r\n\r\n", then=closing), "no-answer"),
        (closing, "no-answer"),
        (resetting, "no-answer"),
    ],
)
async def test_answers_without_a_token_are_failures(
    fetching: TokenFetcher, receiver: RawReceiver, answer: Answer, code: str
) -> None:
    receiver.script["/token"] = answer
    assert (await failure(fetching, token_url=receiver.url("/token"))).code == code


async def test_what_the_server_says_and_asks_for(fetching: TokenFetcher, receiver: RawReceiver) -> None:
    body = json.dumps({"error": "temporarily_unavailable", "error_description": f"not for {SECRET}"}).encode()
    receiver.script["/token"] = answering(503, body, headers=("Retry-After: 9",))
    found = await failure(fetching, token_url=receiver.url("/token"))
    assert (found.said, found.retry_after_seconds) == ("", 9.0)
    receiver.script["/token"] = saying(400, error="invalid_scope", error_description="no scope 'call'")
    found = await failure(fetching, token_url=receiver.url("/token"))
    assert found.said == "invalid_scope: no scope 'call'"


@pytest.mark.parametrize("slow", ["discovery", "token"])
async def test_a_slow_server_is_given_up(
    fetching: TokenFetcher, receiver: RawReceiver, slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bound for both requests."""
    monkeypatch.setattr(token_fetcher, "FETCH_SECONDS", 0.4)
    document = saying(200, issuer=receiver.url(""), token_endpoint=receiver.url("/t"))
    receiver.script = {DISCOVERY: hanging if slow == "discovery" else document, "/t": hanging}
    began = time.monotonic()
    found = await failure(fetching, issuer=receiver.url(""))
    assert (found.code, time.monotonic() - began < 1.0) == ("no-answer", True)


async def test_a_server_that_drips_is_given_up(receiver: RawReceiver) -> None:
    async def drip(request: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    receiver.script["/token"] = drip
    made = await fetcher(answer_seconds=0.3)
    assert (await failure(made, token_url=receiver.url("/token"))).code == "bad-answer"
    await made.stop()


async def test_a_stopped_fetcher_ends_its_fetches(receiver: RawReceiver) -> None:
    came = asyncio.Event()

    async def hang(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        came.set()
        await hanging(request, writer)

    receiver.script["/token"] = hang
    made = await fetcher()
    waiting = asyncio.ensure_future(failure(made, token_url=receiver.url("/token")))
    await came.wait()
    await made.stop()
    assert (await waiting).code == "no-answer"
    assert (await failure(made, token_url=receiver.url("/token"))).code == "no-answer"
