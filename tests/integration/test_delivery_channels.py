"""Client certificates and forward proxies: what receivers and proxies see, and that no connection serves another
channel."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from poller_cluster.delivery import client_contexts
from poller_cluster.delivery.channel import Channel
from scheduler_service.domain.destination_access import ClientCertificate, ForwardProxy
from scheduler_service.domain.network import NetworkPolicy
from tests.support import forward_proxy
from tests.support.certificates import Authority
from tests.support.delivery import EngineMaker, attempt, begin, post
from tests.support.http2_receiver import Http2Receiver, Stream
from tests.support.raw_receiver import RawReceiver, RawRequest, answering


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def proxy() -> AsyncIterator[forward_proxy.ForwardProxy]:
    async with forward_proxy.ForwardProxy() as made:
        yield made


def certificate(authority: Authority, name: str) -> ClientCertificate:
    chain, key = authority.issue(authority.bundle.parent / "clients", name=name, stem=name)
    return ClientCertificate(chain=chain.read_text(), key=key.read_text())


def asking(authority: Authority, *, optional: bool = False) -> ssl.SSLContext:
    """A receiver that asks for client certificates."""
    context = authority.server_context("127.0.0.1")
    context.load_verify_locations(str(authority.bundle))
    context.verify_mode = ssl.CERT_OPTIONAL if optional else ssl.CERT_REQUIRED
    return context


def presented(transport: Any) -> str:
    """The name in the client's certificate; empty without one."""
    subject = (transport.get_extra_info("ssl_object").getpeercert() or {}).get("subject", ())
    return next((value for part in subject for key, value in part if key == "commonName"), "")


class Names:
    """Who called, by target, over HTTP/1.1 or HTTP/2."""

    def __init__(self) -> None:
        self.came: list[tuple[str, str, int]] = []

    async def http1(self, request: RawRequest, writer: asyncio.StreamWriter) -> None:
        self.came.append((request.target, presented(writer), request.connection))
        await answering(200, b"ok")(request, writer)

    def http2(self, stream: Stream) -> None:
        self.came.append((stream.target, presented(stream.session._transport), stream.connection))
        stream.answer(200, b"ok")


class TestClientCertificates:
    async def test_the_receiver_sees_it(self, make_engine: EngineMaker, authority: Authority) -> None:
        engine, names = await make_engine(ca_file=str(authority.bundle)), Names()
        async with RawReceiver(tls=asking(authority)) as receiver:
            receiver.script["/"] = names.http1
            shop = Channel(certificate=certificate(authority, "shop"))
            for _ in range(2):
                assert (await attempt(engine, post(receiver.url(), channel=shop))).succeeded
            assert names.came == [("/", "shop", 1)] * 2
            await engine.stop()

    async def test_a_receiver_that_requires_a_certificate_gets_no_call_without_one(
        self, make_engine: EngineMaker, authority: Authority
    ) -> None:
        engine = await make_engine(ca_file=str(authority.bundle))
        async with RawReceiver(tls=asking(authority)) as receiver:
            result = await attempt(engine, post(receiver.url()))
            assert result.error in ("reset", "tls-failed")
            assert receiver.requests == []

    async def test_connections_of_one_are_used_by_no_other(
        self, make_engine: EngineMaker, authority: Authority
    ) -> None:
        engine, names = await make_engine(ca_file=str(authority.bundle)), Names()
        async with RawReceiver(tls=asking(authority, optional=True)) as receiver:
            first, second = certificate(authority, "first"), certificate(authority, "second")
            wanted = [("first", Channel(certificate=first)), ("second", Channel(certificate=second)), ("", None)]
            for _ in range(3):
                for name, channel in wanted:
                    receiver.script[f"/{name}"] = names.http1
                    assert (await attempt(engine, post(receiver.url(f"/{name}"), channel=channel))).succeeded
            assert [(target.strip("/"), name) for target, name, _ in names.came] == [
                (name, name) for _ in range(3) for name, _ in wanted
            ]
            assert receiver.connections == 3
            # The same certificate in another receiver's document is the same channel.
            assert (await attempt(engine, post(receiver.url("/first"), channel=Channel(certificate=first)))).succeeded
            assert receiver.connections == 3
            # Another client's connection is its own.
            theirs = post(receiver.url("/first"), channel=Channel(certificate=first), client_id="other")
            assert (await attempt(engine, theirs)).succeeded
            assert receiver.connections == 4
            await engine.stop()

    async def test_streams_of_one_are_used_by_no_other(self, make_engine: EngineMaker, authority: Authority) -> None:
        engine, names = await make_engine(ca_file=str(authority.bundle)), Names()
        async with Http2Receiver(tls=asking(authority, optional=True)) as receiver:
            channels: list[tuple[str, Channel | None]] = [
                (name, Channel(certificate=certificate(authority, name))) for name in ("first", "second")
            ]
            channels.append(("", None))
            for name, _ in channels:
                receiver.script[f"/{name}"] = names.http2
            for _ in range(3):
                calls = [begin(engine, post(receiver.url(f"/{name}"), channel=channel)) for name, channel in channels]
                assert all(result.succeeded for result in await asyncio.gather(*calls))
            assert {(target.strip("/"), name) for target, name, _ in names.came} == {
                ("first", "first"), ("second", "second"), ("", ""),
            }  # fmt: skip
            assert (len(names.came), receiver.connections) == (9, 3)
            await engine.stop()

    async def test_a_certificate_with_a_foreign_key_fails_the_attempt(
        self, make_engine: EngineMaker, authority: Authority
    ) -> None:
        engine = await make_engine(ca_file=str(authority.bundle))
        mixed = ClientCertificate(chain=certificate(authority, "a").chain, key=certificate(authority, "b").key)
        async with RawReceiver(tls=asking(authority)) as receiver:
            result = await attempt(engine, post(receiver.url(), channel=Channel(certificate=mixed)))
            assert (result.error, result.nothing_sent, receiver.requests) == ("tls-failed", True, [])
            assert result.detail == "the client certificate is not usable: KEY_VALUES_MISMATCH"

    def test_contexts_are_few(self, authority: Authority) -> None:
        made: list[ssl.SSLContext] = []

        def make() -> ssl.SSLContext:
            made.append(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
            return made[-1]

        one, contexts = certificate(authority, "one"), client_contexts.ClientContexts(make)
        channels = [Channel(certificate=one, proxy=ForwardProxy(url=f"http://p:{port}")) for port in range(1, 70)]
        kept = contexts.of("quiet", channels[0])
        for channel in channels:
            contexts.of("busy", channel)
        assert contexts.of("quiet", channels[0]) is kept
        assert contexts.of("busy", channels[-1]) is made[-1]
        for number in range(client_contexts.CONTEXTS_KEPT):
            contexts.of(f"client {number}", channels[0])
        assert contexts.of("quiet", channels[0]) is not kept

    def test_one_of_a_temporary_file(self, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr("os.memfd_create")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client_contexts.present(context, certificate(authority, "one"))
        assert context.cert_store_stats()["x509"] == 0


class TestForwardProxies:
    async def test_https_goes_through_a_tunnel(
        self, make_engine: EngineMaker, authority: Authority, proxy: forward_proxy.ForwardProxy
    ) -> None:
        policy = NetworkPolicy.parse(proxies=[proxy.address])
        engine, names = await make_engine(policy, ca_file=str(authority.bundle)), Names()
        files = authority.issue(authority.bundle.parent, name="receiver.test", stem="receiver")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        context.load_verify_locations(str(authority.bundle))
        context.verify_mode = ssl.CERT_REQUIRED
        channel = Channel(
            certificate=certificate(authority, "shop"),
            proxy=ForwardProxy(url=proxy.url, username="shop", password="secret"),
        )
        async with RawReceiver(tls=context) as receiver:
            receiver.script["/"] = names.http1
            for _ in range(2):
                result = await attempt(engine, post(receiver.url(host="receiver.test"), channel=channel))
                assert result.succeeded, result
            assert names.came == [("/", "shop", 1)] * 2
            authority_of = f"receiver.test:{receiver.port}"
            assert [heard.first for heard in proxy.heard] == [f"CONNECT {authority_of} HTTP/1.1"]
            assert proxy.heard[0].headers == {
                "host": authority_of, "proxy-authorization": "Basic c2hvcDpzZWNyZXQ=",
            }  # fmt: skip
            assert receiver.requests[0].values("proxy-authorization") == []
            await engine.stop()

    async def test_http2_goes_through_a_tunnel(
        self, make_engine: EngineMaker, authority: Authority, proxy: forward_proxy.ForwardProxy
    ) -> None:
        policy = NetworkPolicy.parse(allow=["127.0.0.0/8"], proxies=[proxy.address])
        engine = await make_engine(policy, ca_file=str(authority.bundle))
        channel = Channel(proxy=ForwardProxy(url=proxy.url))
        async with Http2Receiver(tls=authority.server_context("127.0.0.1")) as receiver:
            for number, given in enumerate([channel, channel, None], start=1):
                assert (await attempt(engine, post(receiver.url(), channel=given))).succeeded
                assert (len(proxy.heard), receiver.connections) == (1, 1 + (number == 3))
            await engine.stop()

    async def test_http_is_sent_with_the_whole_url(
        self, make_engine: EngineMaker, proxy: forward_proxy.ForwardProxy, receiver: RawReceiver
    ) -> None:
        engine = await make_engine(NetworkPolicy.parse(proxies=[proxy.address]))
        channel = Channel(proxy=ForwardProxy(url=proxy.url, username="a", password="b"))
        url = receiver.url("/path?a=1", host="receiver.test")
        assert (await attempt(engine, post(url, b"body", channel=channel))).succeeded
        assert proxy.heard[0].first == f"POST {url} HTTP/1.1"
        assert proxy.heard[0].headers["proxy-authorization"] == "Basic YTpi"
        request = receiver.requests[0]
        assert (request.method, request.target, request.body) == ("POST", "/path?a=1", b"body")
        assert request.values("host") == [f"receiver.test:{receiver.port}"]

    @pytest.mark.parametrize(
        ("answer", "detail"),
        [
            (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "answered 407"),
            (b"HTTP/1.1 502 Bad Gateway\r\n\r\nno route", "answered 502"),
            (b"HTTP/1.1 200 OK\r\n\r\nmore than that", "not valid HTTP"),
            (b"SSH-2.0-whatever\r\n\r\n", "not valid HTTP"),
            (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 9_000, "too long"),
            (b"HTTP/1.1 200 OK\r\n", "closed the connection"),
        ],
    )
    async def test_no_tunnel(
        self, make_engine: EngineMaker, proxy: forward_proxy.ForwardProxy, answer: bytes, detail: str
    ) -> None:
        engine = await make_engine(NetworkPolicy.parse(proxies=[proxy.address]))
        proxy.refusal = answer
        call = post("https://receiver.test/", channel=Channel(proxy=ForwardProxy(url=proxy.url)))
        result = await attempt(engine, call)
        assert (result.error, result.nothing_sent, result.final) == ("proxy-failed", True, False)
        assert detail in result.detail

    async def test_a_proxy_that_says_nothing(self, make_engine: EngineMaker, proxy: forward_proxy.ForwardProxy) -> None:
        engine = await make_engine(NetworkPolicy.parse(proxies=[proxy.address]), connect_timeout_seconds=0.2)
        proxy.refusal = b""
        call = post("https://receiver.test/", channel=Channel(proxy=ForwardProxy(url=proxy.url)))
        result = await attempt(engine, call)
        assert (result.error, result.nothing_sent) == ("timeout", True)

    async def test_a_proxy_that_is_not_there(self, make_engine: EngineMaker) -> None:
        async with forward_proxy.ForwardProxy() as gone:
            pass
        engine = await make_engine(NetworkPolicy.parse(proxies=[gone.address]))
        result = await attempt(engine, post("http://receiver.test/", channel=Channel(proxy=ForwardProxy(url=gone.url))))
        assert (result.error, result.nothing_sent) == ("proxy-failed", True)

    @pytest.mark.parametrize(
        ("url", "error"),
        [
            ("http://127.0.0.1:{port}/", "forbidden-address"),
            ("http://localhost:{port}/", "forbidden-address"),
            ("https://10.0.0.1/", "forbidden-address"),
            ("https://[::ffff:169.254.169.254]/", "forbidden-address"),
            ("http://receiver.test:22/", "forbidden-port"),
        ],
    )
    async def test_the_policy_judges_the_text_of_the_url(
        self,
        make_engine: EngineMaker,
        proxy: forward_proxy.ForwardProxy,
        receiver: RawReceiver,
        url: str,
        error: str,
    ) -> None:
        ports = [443, receiver.port]
        engine = await make_engine(NetworkPolicy.parse(proxies=[proxy.address], allow_ports=ports))
        call = post(url.format(port=receiver.port), channel=Channel(proxy=ForwardProxy(url=proxy.url)))
        result = await attempt(engine, call)
        assert (result.error, result.nothing_sent, result.final) == (error, True, True)
        assert proxy.heard == []

    async def test_only_proxies_that_the_operator_lists(
        self, make_engine: EngineMaker, proxy: forward_proxy.ForwardProxy, receiver: RawReceiver
    ) -> None:
        engine = await make_engine()
        result = await attempt(engine, post(receiver.url(), channel=Channel(proxy=ForwardProxy(url=proxy.url))))
        assert (result.error, result.nothing_sent, result.final) == ("forbidden-address", True, True)
        assert (proxy.heard, receiver.requests) == ([], [])

    async def test_connections_through_a_proxy_are_used_for_its_own_calls(
        self, make_engine: EngineMaker, proxy: forward_proxy.ForwardProxy, receiver: RawReceiver
    ) -> None:
        policy = NetworkPolicy.parse(allow=["127.0.0.0/8"], proxies=[proxy.address])
        engine = await make_engine(policy)
        plain, paid = (
            Channel(proxy=ForwardProxy(url=proxy.url)),
            Channel(proxy=ForwardProxy(url=proxy.url, username="a")),
        )
        for channel in (plain, paid, None, plain, paid, None):
            assert (await attempt(engine, post(receiver.url(), channel=channel))).succeeded
        assert receiver.connections == 3
        assert len({request.connection for request in receiver.requests[2::3]}) == 1
