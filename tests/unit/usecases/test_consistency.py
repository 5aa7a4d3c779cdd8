"""A client's consistency settings: which requests use them, and which must not."""

from typing import Any

import pytest

from cql.connection import Consistency, Parameters
from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.conditional import APPLIED
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import State
from tests.contract.builders import START, commit, definition, delivered, redelivered, update
from tests.support.api import ApiHarness
from tests.support.api_story import ROUTE, Story

SETTINGS = {"read_consistency": "LOCAL_ONE", "write_consistency": "EACH_QUORUM"}
OF_READS = {
    "schedules.read_row",
    "schedules.read_rows",
    "schedules.read_header",
    "schedules.read_first_lean_page",
    "schedules.read_next_lean_page",
    "schedules.read_content",
    "occupied_minutes.read",
}
OF_CREATES = {"occupied_minutes.insert", "schedules.insert_definition"}
HEEDED = {
    "get_schedule": ("LOCAL_ONE", OF_READS),
    "list_schedules": ("LOCAL_ONE", OF_READS),
    "count_schedules": ("LOCAL_ONE", OF_READS),
    "create_schedule": ("EACH_QUORUM", OF_CREATES),
    "create_batch": ("EACH_QUORUM", OF_CREATES),
    "put_schedule": ("EACH_QUORUM", OF_CREATES),
    "trigger_cron": ("EACH_QUORUM", OF_CREATES),
}
"""The only operations that use the settings: with which consistency, in which statements."""


async def story_of(api: ApiHarness) -> Story:
    """The document's examples, for a client with such settings."""
    await api.add_built_in_clients()
    story = Story(api)
    for before in ("put_client", "create_schedule", "put_cron", "create_key", "create_secret", "create_admin_key"):
        await story.send(before)
    await api.register("shop", settings=SETTINGS)
    api.connection.unusual.clear()
    return story


@pytest.mark.parametrize("id_", ROUTE)
async def test_only_creates_and_reads_use_a_clients_consistency(id_: str) -> None:
    async with ApiHarness() as api:
        story = await story_of(api)
        await story.try_(id_)
        asked = set(api.connection.unusual)
    if id_ not in HEEDED:
        assert asked == set()
        return
    consistency, statements = HEEDED[id_]
    assert asked
    assert {given for _, given in asked} == {consistency}
    assert {name for name, _ in asked} <= statements


class Replicas(InMemoryConnection):
    """Reads at LOCAL_ONE see another store, which the test keeps behind; except for the `fresh` statements."""

    def __init__(self) -> None:
        super().__init__()
        self.one = InMemoryConnection()
        self.fresh: set[str] = set()

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[Any, ...]]:
        answered = await super().select(name, parameters, serial=serial, consistency=consistency)
        if consistency == "LOCAL_ONE" and name not in self.fresh:
            return await self.one.select(name, parameters)
        return answered


SHOP = ClientId("shop")
ROW = definition(SHOP, offset=5_000)
PATH = f"/v1/clients/shop/schedules/{ROW.schedule_id}"


async def test_a_replica_that_has_not_heard_of_a_schedule_does_not_make_it_unknown() -> None:
    connection = Replicas()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", settings=SETTINGS)
        await api.storage.schedules.insert(ROW)
        assert (await api.send("GET", PATH, key=key)).status == 200
        assert (await api.send("GET", PATH[:-1] + "7", key=key)).status == 404


async def test_what_one_replica_says_is_shown_and_not_acted_upon() -> None:
    """It shows a redelivery without its retry row. In truth the retry row exists, and has ended."""
    connection = Replicas()
    ended = delivered(ROW)
    again = redelivered(ROW, START + 90_000, expect=State.DELIVERED, ended_at=ROW.due + 5)
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", settings=SETTINGS)
        replica = Storage.over(connection.one)
        for storage in (api.storage, replica):
            await storage.schedules.insert(ROW)
            assert await storage.schedules.open(ROW.partition, epoch=1, expect_epoch=None) == APPLIED
            assert await storage.schedules.commit(commit(ROW.partition, writes=(ended,))) == APPLIED
        assert (await api.send("GET", PATH, key=key)).json["state"] == "delivered"
        assert await replica.schedules.update(update(ROW.partition, 1, again, version=1)) == APPLIED
        rows = api.connection.rows("schedules")
        assert (await api.send("GET", PATH, key=key)).json["state"] == "delivered"
        assert api.connection.rows("schedules") == rows, "nothing was placed"


async def test_replicas_that_disagree_about_a_page_are_asked_together() -> None:
    connection = Replicas()
    connection.fresh = {"schedules.read_header"}
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", settings=SETTINGS)
        replica = Storage.over(connection.one)
        for storage in (api.storage, replica):
            await storage.schedules.insert(ROW)
            assert await storage.schedules.open(ROW.partition, epoch=1, expect_epoch=None) == APPLIED
            assert await storage.schedules.commit(commit(ROW.partition)) == APPLIED
        second = commit(ROW.partition, version=1, writes=(delivered(ROW),))
        assert await api.storage.schedules.commit(second) == APPLIED
        window = {"from": format_instant(START), "to": format_instant(START + 60_000)}
        reply = await api.send("GET", "/v1/clients/shop/schedules", key=key, params=window)
        assert [item["state"] for item in reply.json["items"]] == ["delivered"]
