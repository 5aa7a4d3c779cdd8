"""Names are looked up without threads, and one client's dead names do not delay the others."""

import asyncio
import errno
import ssl
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NoReturn

import pycares
import pytest

from poller_cluster.delivery.connection import Connection
from scheduler_service.domain.network import NetworkPolicy
from tests.support.certificates import Authority
from tests.support.delivery import EngineMaker, Trust, attempt, begin, post
from tests.support.name_server import SERVER_FAILED, NameServer
from tests.support.raw_receiver import RawReceiver, answering
from tests.support.turns import until

DEAD_AT_ONCE = 300
CALLS = 41


@pytest.fixture
async def names() -> AsyncIterator[NameServer]:
    async with NameServer() as server:
        server.answers["receiver.test"] = ("127.0.0.1",)
        yield server


async def test_a_client_with_dead_names_delays_no_other(
    make_engine: EngineMaker, receiver: RawReceiver, names: NameServer
) -> None:
    """The others' names are answered while any number of dead ones are pending."""
    engine = await make_engine(nameservers=(names.name,), lookups_at_once=100, lookups_per_client=60)
    dead = [
        begin(engine, post(f"http://n{number}.silent.test/", client_id="dead", timeout_seconds=8))
        for number in range(DEAD_AT_ONCE)
    ]
    threads = threading.active_count()
    for number in range(CALLS):
        name = f"n{number}.receiver.test"
        names.answers[name] = ("127.0.0.1",)
        assert (await attempt(engine, post(receiver.url(host=name), client_id="quiet"))).succeeded
        assert not any(each.done() for each in dead)
    assert threading.active_count() == threads
    assert engine.in_flight == DEAD_AT_ONCE
    own = await asyncio.gather(
        *(
            begin(engine, post(f"http://m{number}.silent.test/", client_id="own", timeout_seconds=0.3))
            for number in "ab"
        )
    )
    assert {(each.error, each.nothing_sent, each.detail) for each in own} == {
        ("timeout", True, "no connection within 0.3 s")
    }


async def test_a_name_is_asked_for_once_and_remembered(
    make_engine: EngineMaker, receiver: RawReceiver, names: NameServer
) -> None:
    engine = await make_engine(nameservers=(names.name,))
    url = receiver.url(host="receiver.test")
    results = await asyncio.gather(*(begin(engine, post(url)) for _ in range(20)))
    assert all(each.succeeded for each in results)
    assert (await attempt(engine, post(receiver.url(host="RECEIVER.test")))).succeeded
    assert names.asked_for("receiver.test") == 1


async def test_a_name_without_an_address_and_one_whose_servers_fail(
    make_engine: EngineMaker, names: NameServer
) -> None:
    engine = await make_engine(nameservers=(names.name,))
    names.codes["failing.test"] = SERVER_FAILED
    unknown = await attempt(engine, post("http://unknown.test/"))
    failing = await attempt(engine, post("http://failing.test/"))
    again = await attempt(engine, post("http://unknown.test/"))
    assert [(each.error, each.nothing_sent, each.final) for each in (unknown, failing, again)] == [
        ("resolve-failed", True, False)
    ] * 3
    assert [each.detail for each in (unknown, failing)] == ["the name has no address", "no name server answered"]


@pytest.mark.parametrize("error", [pycares.AresError("no channel"), RuntimeError("can't start new thread")])
async def test_a_name_is_asked_for_again_after_it_could_not_be(
    make_engine: EngineMaker,
    receiver: RawReceiver,
    names: NameServer,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    """A resource that c-ares needs was unavailable for a moment."""
    engine = await make_engine(nameservers=(names.name,), dns_cache_seconds=0, lookups_at_once=2, lookups_per_client=1)

    def refused(**options: object) -> NoReturn:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(pycares, "Channel", refused)
        for _ in range(3):
            result = await attempt(engine, post(receiver.url(host="receiver.test")))
            assert (result.error, result.detail) == ("resolve-failed", "no name server answered")
    assert (await attempt(engine, post(receiver.url(host="receiver.test")))).succeeded
    assert engine.in_flight == 0


async def test_what_a_name_resolves_to_is_judged_and_all_its_addresses_are_tried(
    make_engine: EngineMaker, receiver: RawReceiver, names: NameServer
) -> None:
    policy = NetworkPolicy.parse(allow=["127.0.0.1/32"])
    engine = await make_engine(policy, nameservers=(names.name,))
    names.answers["inside.test"] = ("127.0.0.2", "10.0.0.1", "::ffff:127.0.0.9")
    names.answers["both.test"] = ("127.0.0.2", "127.0.0.1")
    inside = await attempt(engine, post(receiver.url(host="inside.test")))
    assert (inside.error, inside.nothing_sent, inside.final) == ("forbidden-address", True, True)
    assert (await attempt(engine, post(receiver.url(host="both.test")))).succeeded


@pytest.mark.parametrize("fail", [0, 1, 2])
async def test_no_address_is_given_up_for_another_while_it_may_still_answer(
    fail: int, make_engine: EngineMaker, names: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A distant receiver takes longer than the pause between addresses; two are tried at a time, more after one has
    failed.
    """
    opened: list[Connection[Any]] = []
    monkeypatch.setattr(Connection, "connect", lambda connection: opened.append(connection))
    names.answers["far.test"] = tuple(f"127.0.0.{number}" for number in range(1, 7))
    engine = await make_engine(nameservers=(names.name,), connect_timeout_seconds=0.9)
    called = begin(engine, post("http://far.test:1/"))
    await until(lambda: len(opened) == 2)
    for number in range(fail):
        engine.on_connected(opened[number], OSError(errno.ECONNREFUSED, ""))
    assert [connection.closed for connection in opened] == [True] * fail + [False] * 2
    result = await called
    assert (result.error, result.detail, len(opened)) == ("timeout", "no connection within 0.9 s", fail + 2)
    assert all(connection.closed for connection in opened)


async def test_the_addresses_of_the_last_attempt_are_not_taken_for_the_next_ones(
    make_engine: EngineMaker, receiver: RawReceiver, names: NameServer
) -> None:
    """A name that moves is followed, and a handle that called one name keeps no address for another."""
    engine = await make_engine(nameservers=(names.name,), dns_cache_seconds=0)
    url = receiver.url(host="moving.test")
    receiver.script["/"] = answering(200, headers=("Connection: close",))
    for _ in range(2):
        names.answers["moving.test"] = ("127.0.0.1",)
        assert (await attempt(engine, post(url))).succeeded
        assert (await attempt(engine, post("http://unknown.test/"))).error == "resolve-failed"
        names.answers["moving.test"] = ("10.0.0.1",)
        assert (await attempt(engine, post(url))).error == "forbidden-address"


async def test_a_kept_connection_is_used_only_while_the_name_leads_there(
    make_engine: EngineMaker, receiver: RawReceiver, names: NameServer
) -> None:
    engine = await make_engine(nameservers=(names.name,), dns_cache_seconds=0)
    url = receiver.url(host="receiver.test")
    assert (await attempt(engine, post(url))).succeeded
    names.answers["receiver.test"] = ("10.0.0.1",)
    assert (await attempt(engine, post(url))).error == "forbidden-address"
    names.answers["receiver.test"] = ("10.0.0.1", "127.0.0.1")
    assert (await attempt(engine, post(url))).succeeded
    assert receiver.connections == 1


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "a.localhost", "127.0.0.1", "2130706433", "0x7f.1"])
async def test_hosts_that_no_name_server_is_asked_for(
    make_engine: EngineMaker, receiver: RawReceiver, names: NameServer, host: str
) -> None:
    engine = await make_engine(nameservers=(names.name,))
    assert (await attempt(engine, post(receiver.url(host=host)))).succeeded
    assert names.asked == []


async def test_a_name_that_is_complete_by_its_dot(
    make_engine: EngineMaker, receiver: RawReceiver, names: NameServer
) -> None:
    engine = await make_engine(nameservers=(names.name,))
    assert (await attempt(engine, post(receiver.url(host="receiver.test.")))).succeeded
    assert {name for name, _ in names.asked} == {"receiver.test"}


async def test_trust_is_asked_when_the_name_is_known(
    make_engine: EngineMaker, receiver: RawReceiver, names: NameServer
) -> None:
    engine = await make_engine(nameservers=(names.name,))
    result = await attempt(engine, post(receiver.url(host="receiver.test")), Trust(1))
    assert (result.error, result.nothing_sent) == ("not-trusted", True)
    assert receiver.connections == 0


async def test_stop_ends_attempts_whose_names_are_looked_up(make_engine: EngineMaker, names: NameServer) -> None:
    engine = await make_engine(nameservers=(names.name,))
    waiting = [begin(engine, post(f"http://n{number}.silent.test/")) for number in range(3)]
    await engine.stop(0)
    assert {(each.result().error, each.result().nothing_sent) for each in waiting} == {("stopped", True)}
    assert engine.in_flight == 0


async def test_certificates_are_for_the_name(make_engine: EngineMaker, names: NameServer, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue(tmp_path, name="receiver.test"))
    async with RawReceiver(tls=context) as receiver:
        engine = await make_engine(nameservers=(names.name,), ca_file=str(authority.bundle))
        names.answers["other.test"] = ("127.0.0.1",)
        assert (await attempt(engine, post(receiver.url(host="receiver.test")))).succeeded
        assert (await attempt(engine, post(receiver.url(host="other.test")))).error == "tls-failed"
