"""A destination's calls as a receiver gets them, read by the library that CloudEvents publishes."""

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.v1.event import CloudEvent

from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.destinations import served
from poller_cluster.dispatch.request import Prepared, prepare
from scheduler_service.domain.destinations import CloudEvents, Destination, TokenSource, named_url
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.domain.schedule_keys import KeyMark
from tests.support.delivery import CLOCK, attempt
from tests.support.raw_receiver import RawReceiver, RawRequest
from tests.unit.poller_cluster.claimed import EPOCH, SENDER, claim, client

EVENTS = CloudEvents(type="test.shop.order expired", source="https://shop.test/orders?region=K%C3%B6ln")
TOKEN = TokenSource(client_id="shop", client_secret="secret", token_url="https://tokens.test/")


async def received(
    engine: DeliveryEngine, receiver: RawReceiver, *, events: CloudEvents = EVENTS, **row: Any
) -> RawRequest:
    """The call of a row due now."""
    now = CLOCK.wall_ms()
    plain = client()
    called = Destination(url=receiver.url("/hook"), cloudevents=events, token=TOKEN)
    orders = served("orders", called, plain.settings, channel=None)
    made = prepare(
        claim(due=now, url=named_url("orders", "/17"), **{"method": "POST", "headers": "[]", **row}),
        client=dataclasses.replace(plain, destinations={"orders": orders}),
        epoch=EPOCH,
        sender=SENDER,
        now=now,
        bearer=lambda client_id, source: "abc123",
    )
    assert isinstance(made, Prepared)
    assert (await attempt(engine, made.request)).status == 200
    (request,) = receiver.requests
    return request


def read(request: RawRequest) -> CloudEvent:
    event = from_http_event(HTTPMessage(dict(request.headers), request.body))
    assert isinstance(event, CloudEvent)
    return event


async def test_the_published_library_reads_the_event(engine: DeliveryEngine, receiver: RawReceiver) -> None:
    options = encode_options(
        ScheduleOptions(key=KeyMark(name='order "17", 100%', revision=1, put_at=UnixMillis(1), kept_days=1))
    )
    request = await received(
        engine,
        receiver,
        body=b'{"order": 17}',
        headers='[["content-type","application/json"],["ce-traceparent","00-1-2-01"]]',
        options=options,
    )
    event = read(request)
    assert request.target == "/hook/17"
    assert (event.get_specversion(), event.get_id()) == ("1.0", dict(request.headers)["webhook-id"])
    assert (event.get_type(), event.get_source()) == (EVENTS.type, EVENTS.source)
    due = datetime.fromisoformat(dict(request.headers)["Minutehand-Due"])
    assert event.get_time() == due
    assert due.tzinfo == UTC
    assert event.get_subject() == 'order "17", 100%'
    assert (event.get_datacontenttype(), event.get_data()) == ("application/json", {"order": 17})
    assert event.get_extension("traceparent") == "00-1-2-01"
    assert request.values("Authorization") == ["Bearer abc123"]


async def test_attributes_of_the_callback_do_not_count(engine: DeliveryEngine, receiver: RawReceiver) -> None:
    headers = '[["ce-id","mine"],["CE_Type","mine"],["ce-subject","mine"],["ce-datacontenttype","x/y"]]'
    event = read(await received(engine, receiver, body=b"{}", headers=headers))
    assert (event.get_type(), event.get_subject()) == (EVENTS.type, "mine")
    assert event.get_id() != "mine"
    assert event.get_datacontenttype() is None


@pytest.mark.parametrize("body", [b"", b"\xff\x00", "grüße".encode()])
async def test_the_body_is_as_it_is(engine: DeliveryEngine, receiver: RawReceiver, body: bytes) -> None:
    headers = '[["content-type","application/octet-stream"]]'
    options = encode_options(ScheduleOptions(empty_body=True))
    request = await received(engine, receiver, body=body, headers=headers, options=options)
    data = read(request).get_data() or b""
    assert (request.body, data.encode() if isinstance(data, str) else data) == (body, body)


async def test_a_call_without_a_body_is_an_event_too(engine: DeliveryEngine, receiver: RawReceiver) -> None:
    request = await received(engine, receiver, body=b"")
    event = read(request)
    assert event.get_datacontenttype() == "application/json"
    assert event.get_data()["schedule_id"] == event.get_id()
