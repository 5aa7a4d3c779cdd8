"""When nothing may be sent: trust, repeats, the network policy."""

import asyncio

import pytest

from poller_cluster.delivery.engine import DeliveryEngine
from scheduler_service.domain.network import NetworkPolicy
from tests.support.delivery import EngineMaker, Trust, attempt, post
from tests.support.raw_receiver import RawReceiver, answering, closing, writing


class TestTrust:
    async def test_an_attempt_without_trust_opens_no_connection(
        self, engine: DeliveryEngine, receiver: RawReceiver
    ) -> None:
        result = await attempt(engine, post(receiver.url()), Trust(0))
        assert (result.error, result.nothing_sent, result.final) == ("not-trusted", True, False)
        assert receiver.connections == 0

    async def test_trust_lost_before_the_socket_opens_connects_nothing(
        self, engine: DeliveryEngine, receiver: RawReceiver
    ) -> None:
        result = await attempt(engine, post(receiver.url()), Trust(1))
        assert (result.error, result.nothing_sent) == ("not-trusted", True)
        assert receiver.connections == 0

    async def test_trust_lost_after_connecting_sends_nothing(
        self, engine: DeliveryEngine, receiver: RawReceiver
    ) -> None:
        result = await attempt(engine, post(receiver.url()), Trust(2))
        assert (result.error, result.nothing_sent) == ("not-trusted", True)
        assert receiver.requests == []
        assert (await attempt(engine, post(receiver.url()), Trust(3))).succeeded

    async def test_trust_is_checked_on_kept_connections(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        result = await attempt(engine, post(receiver.url()), Trust(1))
        assert (result.error, result.nothing_sent) == ("not-trusted", True)
        assert len(receiver.requests) == 1

    async def test_an_exception_of_the_trust_check_fails_the_attempt(
        self, engine: DeliveryEngine, receiver: RawReceiver
    ) -> None:
        asked = 0

        def failing_later() -> bool:
            nonlocal asked
            asked += 1
            if asked > 1:
                raise LookupError
            return True

        result = await attempt(engine, post(receiver.url()), failing_later)
        assert (result.error, result.nothing_sent) == ("internal", True)
        assert receiver.requests == []


class TestRepeats:
    """The receiver closes a kept connection in the moment it is used."""

    @pytest.fixture
    def closes_the_second(self, receiver: RawReceiver) -> RawReceiver:
        async def answer(request: object, writer: asyncio.StreamWriter) -> None:
            position = receiver.requests[-1].position
            await (answering(200) if position == 1 else closing)(receiver.requests[-1], writer)

        receiver.script["/x"] = answer
        return receiver

    async def test_the_request_is_repeated_on_a_fresh_connection(
        self, engine: DeliveryEngine, closes_the_second: RawReceiver
    ) -> None:
        assert (await attempt(engine, post(closes_the_second.url("/x")))).succeeded
        assert (await attempt(engine, post(closes_the_second.url("/x")))).succeeded
        assert len(closes_the_second.requests) == 3

    async def test_a_request_at_most_once_is_not_repeated(
        self, engine: DeliveryEngine, closes_the_second: RawReceiver
    ) -> None:
        assert (await attempt(engine, post(closes_the_second.url("/x"), at_most_once=True))).succeeded
        result = await attempt(engine, post(closes_the_second.url("/x"), at_most_once=True))
        assert (result.status, result.error, result.nothing_sent) == (None, "reset", False)
        assert len(closes_the_second.requests) == 2

    @pytest.mark.parametrize("begun", [b"H", b"HTTP/1.1 20", b"HTTP/1.1 103 Early\r\n\r\n"])
    async def test_a_request_is_not_repeated_once_an_answer_began(
        self, engine: DeliveryEngine, receiver: RawReceiver, begun: bytes
    ) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        receiver.script["/"] = writing(begun, then=closing)
        result = await attempt(engine, post(receiver.url()))
        assert (result.status, result.error, result.nothing_sent) == (None, "reset", False)
        assert len(receiver.requests) == 2

    async def test_a_repeat_needs_trust_and_is_not_said_to_be_unsent(
        self, engine: DeliveryEngine, closes_the_second: RawReceiver
    ) -> None:
        assert (await attempt(engine, post(closes_the_second.url("/x")))).succeeded
        result = await attempt(engine, post(closes_the_second.url("/x")), Trust(2))
        assert (result.error, result.nothing_sent) == ("not-trusted", False)
        assert len(closes_the_second.requests) == 2


class TestNetworkPolicy:
    @pytest.mark.parametrize(
        "host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0.0.0.0"]
    )
    async def test_loopback_in_every_disguise(self, make_engine: EngineMaker, receiver: RawReceiver, host: str) -> None:
        strict = await make_engine(NetworkPolicy())
        result = await attempt(strict, post(receiver.url(host=host)))
        assert (result.error, result.nothing_sent, result.final) == ("forbidden-address", True, True)
        assert receiver.connections == 0

    async def test_a_name_is_judged_by_what_it_resolves_to(
        self, make_engine: EngineMaker, receiver: RawReceiver
    ) -> None:
        engine = await make_engine(NetworkPolicy.parse(allow=["127.0.0.1/32"], deny=["::1/128"]))
        assert (await attempt(engine, post(receiver.url(host="localhost")))).succeeded
        denied = await make_engine(NetworkPolicy.parse(deny=["127.0.0.0/8", "::1/128"]))
        assert (await attempt(denied, post(receiver.url(host="localhost")))).error == "forbidden-address"

    async def test_ports_and_schemes(self, make_engine: EngineMaker, receiver: RawReceiver) -> None:
        other_port = await make_engine(NetworkPolicy.parse(allow=["127.0.0.0/8"], allow_ports=[1]))
        result = await attempt(other_port, post(receiver.url()))
        assert (result.error, result.final) == ("forbidden-port", True)
        only_tls = await make_engine(NetworkPolicy.parse(allow=["127.0.0.0/8"], schemes=["https"]))
        result = await attempt(only_tls, post(receiver.url()))
        assert (result.error, result.final) == ("bad-url", True)
        assert receiver.connections == 0
