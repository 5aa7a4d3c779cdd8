"""Redelivery of a client's notices that failed for good, over REST."""

from typing import Any

import pytest

from scheduler_service.domain.books import DeadLetter
from scheduler_service.domain.end_notices import EndNotice
from scheduler_service.domain.events import Block, Event, derived_event_id
from scheduler_service.domain.ids import ClientId, PollerId, UnixMillis, key_of, partition_of
from scheduler_service.domain.notices import (
    EVENTS_CLIENT,
    NoticeContent,
    end_notice_row,
    event_row,
    notice_row,
)
from scheduler_service.domain.schedules import Definition, Outcome, Row, State
from scheduler_service.usecases.clients import create_built_in_clients
from tests.support.api import NOW, ApiHarness
from tests.support.outcomes import SHOP, record

BLOCK = Block("0000", 1, 0)
EVENT = Event(event_id=derived_event_id(SHOP, "x"), type="schedule.failed", at=UnixMillis(NOW))
RANGE = NoticeContent(client_id=SHOP, subscription="all", track="0000", epoch=1, block=0, first=3, last=5)
OWN = EndNotice(client_id=SHOP, on="failure", url="https://book.example/x", event=EVENT, letter_poller=PollerId(0))


@pytest.fixture
async def shop(api: ApiHarness) -> ApiHarness:
    await create_built_in_clients(api.services.clients.register)
    return api


async def failed(api: ApiHarness, definition: Definition) -> str:
    """Store the row of `$events`, let it fail after ten attempts, and return the id of its letter."""
    await api.storage.schedules.insert(definition)
    api.clock.advance(100)
    at = UnixMillis(api.clock.now)
    end = Outcome(state=State.FAILED, attempts=10, finished_at=at, last_status=503, reason="exhausted")
    await record(api, definition.schedule_id, end, client_id=EVENTS_CLIENT)
    letter = DeadLetter(
        client_id=SHOP,
        poller_id=PollerId(0),
        failed_at=at,
        schedule_id=definition.schedule_id,
        reason="exhausted",
        last_error=None,
        last_status=503,
        attempts=10,
        label="$events/all",
    )
    await api.storage.dead_letters.insert([letter])
    return f"{definition.schedule_id}@{at}"


async def redrive(api: ApiHarness, key: str, client: str = "shop", **body: object) -> list[tuple[Any, ...]]:
    reply = await api.send("POST", f"/v1/clients/{client}/dead-letters:redeliver", key=key, json=body)
    assert reply.status == 200, reply.body
    return [(item["letter_id"], item["status"], item["state"], item["reason"]) for item in reply.json["items"]]


async def listed(api: ApiHarness) -> list[tuple[str, str]]:
    reply = await api.send("GET", "/v1/clients/shop/dead-letters")
    return [(item["letter_id"], item["state"]) for item in reply.json["items"]]


async def row_of(api: ApiHarness, definition: Definition) -> Row:
    home, key = partition_of(EVENTS_CLIENT, definition.schedule_id), key_of(definition.schedule_id)
    return (await api.storage.schedules.find_rows(home, [key], serial=True))[key]


async def test_a_schedules_own_notice_is_sent_again_by_its_letter_or_a_window(shop: ApiHarness, key: str) -> None:
    row = end_notice_row(OWN, quota=16)
    letter = await failed(shop, row)
    assert await listed(shop) == [(letter, "failed")]
    assert await redrive(shop, key) == [(letter, 202, "retrying", None)]
    assert await listed(shop) == [(letter, "retrying")]
    assert (await row_of(shop, row)).redelivered_at == shop.clock.now + 1
    assert [hint[0].client_id for hint in shop.hints.hints][-1] == EVENTS_CLIENT
    assert await redrive(shop, key, letter_ids=[letter]) == [(letter, 409, "retrying", None)]


async def test_a_subscriptions_notice_is_sent_again_while_its_events_are_kept(shop: ApiHarness, key: str) -> None:
    row = notice_row(RANGE, due=UnixMillis(NOW), quota=16)
    letter = await failed(shop, row)
    await shop.storage.events.append(SHOP, BLOCK, first_seq=6, events=[EVENT])
    assert await redrive(shop, key) == [(letter, 409, "failed", "events-gone")], "events behind it are others'"
    await shop.storage.events.append(SHOP, BLOCK, first_seq=5, events=[EVENT])
    assert await redrive(shop, key, letter_ids=[letter]) == [(letter, 202, "retrying", None)]


async def test_no_client_reaches_anothers_notice(shop: ApiHarness, key: str) -> None:
    thief = await shop.register("thief")
    await shop.storage.events.append(SHOP, BLOCK, first_seq=3, events=[EVENT])
    for row in (end_notice_row(OWN, quota=16), notice_row(RANGE, due=UnixMillis(NOW), quota=16)):
        letter = await failed(shop, row)
        before = await row_of(shop, row)
        assert await redrive(shop, thief, "thief", letter_ids=[letter]) == [(letter, 404, None, None)]
        assert await row_of(shop, row) == before


async def test_other_rows_of_the_built_in_client_are_not_redelivered(shop: ApiHarness, key: str) -> None:
    letter = await failed(shop, event_row(ClientId("shop"), EVENT, quota=16))
    assert await redrive(shop, key, letter_ids=[letter]) == [(letter, 404, None, None)]
