"""Calls as records: against a real broker, one that is away, and one that answers with errors."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from minutehand.local.kafka import EmbeddedKafka, RunningKafka
from minutehand.local.machine import free_ports
from poller_cluster.delivery.request import CallbackRequest, TargetCall
from poller_cluster.delivery.targets.ends import End, TargetEnd
from poller_cluster.delivery.targets.kafka.kind import KafkaKind, Records
from poller_cluster.delivery.targets.kafka.producer import KafkaTarget, record_headers, record_key
from scheduler_service.domain.ids import ClientId
from tests.support.delivery import CLOCK
from tests.support.kafka import make_topic, read_topic

SHOP = ClientId("shop")


@asynccontextmanager
async def opened(brokers: str, **settings: Any) -> AsyncIterator[tuple[KafkaKind, KafkaTarget]]:
    cluster = {"brokers": [brokers], "clients": ["*"], "topic_prefixes": [""], **settings}
    kind = KafkaKind({"clusters": {"main": cluster}})
    target = kind.open(clock=CLOCK, capacity=100)
    await target.start()
    try:
        yield kind, target
    finally:
        await target.stop()


def call(kind: KafkaKind, topic: str, *, key: str | None = None, ordering_key: str | None = None) -> CallbackRequest:
    document = {"cluster": "main", "topic": topic} | ({} if key is None else {"key": key})
    means = kind.judge(document, client_id=SHOP).means
    return CallbackRequest(
        method="POST",
        url=f"kafka://main/{topic}",
        headers=(("x-mine", "ä"), ("Minutehand-Fence", "7")),
        body=b'{"order":17}',
        timeout_seconds=30.0,
        target=TargetCall(kind="kafka", means=means, schedule_id="id-1", ordering_key=ordering_key),
    )


async def ended(
    target: KafkaTarget, request: CallbackRequest, may_start: Callable[[], bool] = lambda: True
) -> TargetEnd:
    end: asyncio.Future[TargetEnd] = asyncio.get_running_loop().create_future()
    target.send(request, end.set_result, may_start=may_start)
    async with asyncio.timeout(120):
        return await end


async def test_a_call_is_a_record(kafka: RunningKafka) -> None:
    topic = make_topic(kafka, "orders")
    async with opened(kafka.bootstrap_servers) as (kind, target):
        assert (await ended(target, call(kind, topic))).end is End.DONE
        assert (await ended(target, call(kind, topic, ordering_key="order-17"))).end is End.DONE
        assert (await ended(target, call(kind, topic, key="fixed", ordering_key="order-17"))).end is End.DONE
    records = await asyncio.to_thread(read_topic, kafka, topic)
    assert [one.key() for one in records] == [b"id-1", b"order-17", b"fixed"]
    assert {one.value() for one in records} == {b'{"order":17}'}
    assert records[0].headers() == [("x-mine", "ä".encode()), ("Minutehand-Fence", b"7")]


@pytest.mark.parametrize(
    ("headers", "key"),
    [((("x-KEY", "order%2017%C3%A4"),), "order 17ä".encode()), ((("x-key", ""),), b"17"), ((), b"17")],
)
def test_a_header_has_the_key(headers: tuple[tuple[str, str], ...], key: bytes) -> None:
    means = Records("main", "orders", None, "x-key")
    target = TargetCall(kind="kafka", means=means, schedule_id="1", ordering_key="17")
    request = CallbackRequest(method="POST", url="", headers=headers, body=b"", timeout_seconds=1, target=target)
    assert record_key(request, means) == key


def test_a_cloudevent_is_as_its_kafka_binding_says() -> None:
    event = CallbackRequest(
        method="POST",
        url="",
        headers=(("Content-Type", "application/json"), ("ce-id", "1"), ("CE-Subject", "%C3%A4%20b"), ("X-Mine", "%20")),
        body=b"",
        timeout_seconds=1,
        target=TargetCall(kind="kafka", means=None, schedule_id="1", cloudevents=True),
    )
    assert record_headers(event) == [
        ("content-type", "application/json"),
        ("ce_id", "1"),
        ("ce_subject", "ä b"),
        ("X-Mine", "%20"),
    ]


async def test_many_at_a_time_each_get_their_own_end(kafka: RunningKafka) -> None:
    topic = make_topic(kafka, "many", partitions=3)
    async with opened(kafka.bootstrap_servers) as (kind, target):
        ends = await asyncio.gather(*(ended(target, call(kind, topic, key=f"k{number}")) for number in range(1000)))
    assert {one.end for one in ends} == {End.DONE}
    records = await asyncio.to_thread(read_topic, kafka, topic)
    assert sorted(one.key() or b"" for one in records) == sorted(f"k{number}".encode() for number in range(1000))


async def test_a_topic_that_is_not_there_gets_nothing(kafka: RunningKafka) -> None:
    async with opened(kafka.bootstrap_servers, message_timeout_seconds=2) as (kind, target):
        end = await ended(target, call(kind, "no-such-topic"))
    assert (end.end, end.nothing_sent) == (End.UNAVAILABLE, True)
    assert end.detail == "the cluster has no such topic"


async def test_a_record_that_is_too_large_is_refused_for_good(kafka: RunningKafka) -> None:
    topic = make_topic(kafka, "small")
    async with opened(kafka.bootstrap_servers, record_bytes=1000) as (kind, target):
        large = call(kind, topic)
        large = CallbackRequest(
            method="POST", url="", headers=(), body=b"x" * 2000, timeout_seconds=30.0, target=large.target
        )
        end = await ended(target, large)
    assert (end.end, end.nothing_sent) == (End.REFUSED, True)


async def test_a_cluster_that_is_away_is_a_time_out() -> None:
    (port,) = free_ports(1)
    async with opened(f"127.0.0.1:{port}", message_timeout_seconds=1) as (kind, target):
        end = await ended(target, call(kind, "orders"))
    assert (end.end, end.nothing_sent) == (End.TIMED_OUT, False)
    assert "the last error of the cluster" in end.detail


async def test_what_waits_is_taken_back_when_trust_is_lost_and_the_rest_waits_on() -> None:
    (port,) = free_ports(1)
    trusted = True
    async with opened(f"127.0.0.1:{port}", message_timeout_seconds=30) as (kind, target):
        others: list[TargetEnd] = []
        target.send(call(kind, "orders"), others.append, may_start=lambda: True)
        lost = asyncio.ensure_future(ended(target, call(kind, "orders"), lambda: trusted))
        await asyncio.sleep(0)
        trusted = False
        # In doubt, if the cluster has failed since it was queued: the library says no more.
        assert (await lost).end in (End.WITHDRAWN, End.STOPPED)
        assert others == []
    assert [one.end for one in others] == [End.STOPPED]


async def test_a_full_buffer_holds_calls_back() -> None:
    (port,) = free_ports(1)
    async with opened(f"127.0.0.1:{port}", buffer_mb=1) as (kind, target):
        ends: list[TargetEnd] = []
        full = call(kind, "orders")
        large = CallbackRequest(
            method="POST", url="", headers=(), body=b"x" * 400_000, timeout_seconds=30.0, target=full.target
        )
        for _ in range(4):
            target.send(large, ends.append, may_start=lambda: True)
        assert [(one.end, one.nothing_sent) for one in ends] == [(End.UNAVAILABLE, True)] * len(ends)
        assert ends
        assert ends[0].detail == "the buffer for this cluster is full"


@pytest.mark.parametrize("stops", [1, 2])
async def test_a_target_that_was_stopped_sends_nothing(stops: int) -> None:
    (port,) = free_ports(1)
    async with opened(f"127.0.0.1:{port}") as (kind, target):
        for _ in range(stops):
            await target.stop()
        end = await ended(target, call(kind, "orders"))
    assert (end.end, end.nothing_sent) == (End.STOPPED, True)


async def test_a_broker_that_is_killed_under_load_loses_and_doubles_nothing(tmp_path: Path) -> None:
    port, controller_port = free_ports(2)
    recipe = EmbeddedKafka(data_dir=tmp_path, port=port, controller_port=controller_port)
    running = await asyncio.to_thread(recipe.start)
    try:
        topic = await asyncio.to_thread(make_topic, running, "killed", partitions=3)
        async with opened(running.bootstrap_servers, message_timeout_seconds=120) as (kind, target):
            await ended(target, call(kind, topic, key="first"))
            names = [f"k{number}" for number in range(3000)]
            ends = [asyncio.ensure_future(ended(target, call(kind, topic, key=name))) for name in names[:2000]]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.to_thread(running.kill)
            ends += [asyncio.ensure_future(ended(target, call(kind, topic, key=name))) for name in names[2000:]]
            running = await asyncio.to_thread(recipe.start)
            assert {(await one).end for one in ends} == {End.DONE}
        records = await asyncio.to_thread(read_topic, running, topic)
        assert sorted((one.key() or b"").decode() for one in records) == sorted(["first", *names])
    finally:
        await asyncio.to_thread(running.kill)
