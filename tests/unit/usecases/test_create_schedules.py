from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from cql.connection import Item
from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import ClientSuspended, Conflict, ContentTooLarge, FieldError, Invalid
from scheduler_service.domain.ids import ClientId, due_of, is_schedule_id, key_of, minute_of, partition_of, poller_of
from scheduler_service.domain.quotas import pinned_poller
from scheduler_service.domain.schedules import Definition
from scheduler_service.usecases.schedule_request import ScheduleRequest
from tests.support.api import NOW, ApiHarness, callback, schedule

SHOP = ClientId("shop")


async def registered(world: ApiHarness, quota: int = 4) -> Client:
    return (await world.services.clients.register(SHOP, poller_quota=quota, settings=None)).client


def request(**fields: object) -> ScheduleRequest:
    return msgspec.convert(schedule(**fields), ScheduleRequest)


async def test_the_id_says_where_the_row_is(world: ApiHarness) -> None:
    client = await registered(world)
    made = await world.services.schedules.create.one(client, request(delay_seconds=3600, label="order-17"))
    assert is_schedule_id(made.schedule_id)
    assert (due_of(made.schedule_id), made.due) == (NOW + 3_600_000, NOW + 3_600_000)
    assert poller_of(made.schedule_id) == made.poller_id < 4
    _, rows = await world.storage.schedules.read_rows(partition_of(SHOP, made.schedule_id), [key_of(made.schedule_id)])
    row = rows[key_of(made.schedule_id)]
    assert (row.url, row.method, row.label, row.created_at, row.state) == (
        "https://receiver.example/hook",
        "POST",
        "order-17",
        NOW,
        None,
    )
    occupied = await world.storage.schedules.occupied(SHOP, first=minute_of(made.due), last=minute_of(made.due))
    assert list(occupied.values()) == [[made.poller_id]]


async def test_only_near_ones_are_hinted(world: ApiHarness) -> None:
    client = await registered(world)
    near = await world.services.schedules.create.one(client, request(delay_seconds=1))
    await world.services.schedules.create.one(client, request(delay_seconds=3600))
    assert world.hints.hints == [(near.partition, near.key)]


async def test_an_ordering_key_pins_the_poller(world: ApiHarness) -> None:
    client = await registered(world, quota=16)
    pollers = {
        (await world.services.schedules.create.one(client, request(delay_seconds=delay, ordering_key="a"))).poller_id
        for delay in range(60, 600, 60)
    }
    assert pollers == {pinned_poller(SHOP, "a", quota=16)}


async def test_a_batch_fills_pollers_evenly(world: ApiHarness) -> None:
    client = await registered(world)
    made = await world.services.schedules.create.many(client, [request(delay_seconds=90)] * 800)
    pollers = Counter(item.poller_id for item in made if isinstance(item, Definition))
    assert pollers == {0: 200, 1: 200, 2: 200, 3: 200}
    assert len({item.schedule_id for item in made if isinstance(item, Definition)}) == 800


@pytest.mark.parametrize("delay", [1, 3600])
async def test_each_item_of_a_batch_fails_for_itself(
    world: ApiHarness, monkeypatch: pytest.MonkeyPatch, delay: int
) -> None:
    client = await registered(world)
    write = world.connection.write_batch

    async def write_but_b(items: Sequence[Item], **options: Any) -> None:
        if any("b" in values for _, values in items):
            raise ContentTooLarge("too large")
        await write(items, **options)

    monkeypatch.setattr(world.connection, "write_batch", write_but_b)
    unread = Invalid([FieldError("/callback", "is required")])
    wrong = request(callback=callback(url="ftp://x"))
    made = await world.services.schedules.create.many(
        client,
        [
            request(label="a", delay_seconds=delay),
            wrong,
            unread,
            request(label="b", delay_seconds=delay),
            request(label="c", delay_seconds=delay),
        ],
    )
    assert [type(item) for item in made] == [Definition, Invalid, Invalid, ContentTooLarge, Definition]
    assert made[2] is unread
    assert sorted(row["label"] for row in world.connection.rows("schedules")) == ["a", "c"]


async def test_nothing_is_created_for_a_suspended_client(world: ApiHarness) -> None:
    await registered(world)
    client = await world.services.clients.suspend(SHOP)
    with pytest.raises(ClientSuspended):
        await world.services.schedules.create.one(client, request())
    with pytest.raises(ClientSuspended):
        await world.services.schedules.create.many(client, [request()])
    assert world.connection.rows("schedules") == []


async def test_nothing_is_created_for_a_built_in_client(world: ApiHarness) -> None:
    client = msgspec.structs.replace(await registered(world), client_id=ClientId("$cron"))
    with pytest.raises(Conflict):
        await world.services.schedules.create.one(client, request())


async def test_a_create_without_answer_is_not_acknowledged(world: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await registered(world)

    async def lost(items: Sequence[Item], **options: Any) -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(world.connection, "write_batch", lost)
    with pytest.raises(StoreUnavailable):
        await world.services.schedules.create.one(client, request())
    with pytest.raises(StoreUnavailable):
        await world.services.schedules.create.many(client, [request(), request(label="b"), Invalid([])])
