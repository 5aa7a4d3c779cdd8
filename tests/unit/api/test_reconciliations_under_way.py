"""GET /v1/cluster/reconciliations: which of all clients' run, in which order, and what a look costs."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from cql.memory.connection import InMemoryConnection
from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.reconciliations import FORGOTTEN_MS, Slot, new_reconciliation_id
from scheduler_service.usecases import reconciliations_under_way
from scheduler_service.usecases.reconciliations_under_way import UNDER_WAY_KEPT_SECONDS
from tests.support.api import ApiHarness, SeededRandomness

ALL = "/v1/cluster/reconciliations"
ASKED = {"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T10:00:00Z", "states": ["failed"], "action": "redeliver"}


class Watched(InMemoryConnection):
    """Counts reads, and answers a text that can't be decoded for the states of what is `broken`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.away = ""
        self.broken = ""

    async def select(self, name: str, parameters: Any, **how: Any) -> Any:
        self.asked[name] += 1
        if name == self.away:
            raise StoreUnavailable("away")
        rows = await super().select(name, parameters, **how)
        if name == "reconciliations.read" and str(parameters[1]) == self.broken:
            return [(*row[:5], "no list", *row[6:]) for row in rows]
        return rows


@pytest.fixture
def connection() -> Watched:
    return Watched()


@pytest.fixture
async def api(connection: Watched) -> AsyncIterator[ApiHarness]:
    async with ApiHarness(connection=connection) as harness:
        yield harness


@pytest.fixture
async def keys(api: ApiHarness) -> dict[str, str]:
    return {name: await api.register(name) for name in ("shop", "bank")}


async def ask(api: ApiHarness, key: str, name: str) -> dict[str, Any]:
    """Each is a second older than the next."""
    reply = await api.send("POST", f"/v1/clients/{name}/reconciliations", key=key, json=ASKED)
    assert reply.status == 202, reply.body
    api.clock.advance(1)
    return dict(reply.json)


async def shown(api: ApiHarness, **query: str) -> Any:
    api.clock.advance(UNDER_WAY_KEPT_SECONDS * 2)
    reply = await api.send("GET", ALL, params=query)
    assert reply.status == 200, reply.body
    return reply.json


def ids(several: list[dict[str, Any]]) -> list[str]:
    return [one["reconciliation_id"] for one in several]


async def test_those_of_all_clients_are_listed_page_by_page_oldest_first(api: ApiHarness, keys: dict[str, str]) -> None:
    assert await shown(api) == {"items": [], "left_out": 0, "next_cursor": None}
    made = [await ask(api, keys[name], name) for name in ("shop", "bank", "shop")]
    found = await shown(api)
    assert (found["items"], found["left_out"], found["next_cursor"]) == (made, 0, None)
    first = await shown(api, limit="2")
    second = await shown(api, limit="2", cursor=first["next_cursor"])
    assert (first["items"] + second["items"], second["next_cursor"]) == (made, None)
    assert (await api.send("GET", ALL, params={"cursor": "x"})).status == 422


async def test_those_that_have_ended_are_not_and_are_read_once(
    api: ApiHarness, connection: Watched, keys: dict[str, str]
) -> None:
    stopped, running = [await ask(api, keys["shop"], "shop") for _ in range(2)]
    path = f"/v1/clients/shop/reconciliations/{stopped['reconciliation_id']}:stop"
    assert (await api.send("POST", path, key=keys["shop"])).status == 200
    reads = []
    for _ in range(2):
        connection.asked.clear()
        assert ids((await shown(api))["items"]) == [running["reconciliation_id"]]
        reads.append(connection.asked["reconciliations.read"])
    assert reads == [2, 1]


async def test_one_look_serves_callers_for_some_seconds(api: ApiHarness, keys: dict[str, str]) -> None:
    assert (await shown(api))["items"] == []
    made = await ask(api, keys["shop"], "shop")
    assert (await api.send("GET", ALL)).json["items"] == []
    assert (await shown(api))["items"] == [made]


async def test_a_request_that_is_not_inserted_yet_is_looked_for_until_it_is_forgotten(
    api: ApiHarness, keys: dict[str, str]
) -> None:
    store = api.storage.reconciliations
    made = await ask(api, keys["shop"], "shop")
    (inserted,) = await store.read_newest(ClientId("shop"))
    late, never = [new_reconciliation_id(at=api.clock.now + at, randomness=SeededRandomness(at)) for at in range(2)]
    for number, holder in enumerate((late, never), start=1):
        await store.take_slot(Slot(ClientId("shop"), number, holder), expected=None)
    assert (await shown(api))["items"] == [made]
    await store.insert(msgspec.structs.replace(inserted, reconciliation_id=late))
    assert ids((await shown(api))["items"]) == [made["reconciliation_id"], str(late)]
    api.clock.advance(FORGOTTEN_MS / 1000)
    await shown(api)
    await store.insert(msgspec.structs.replace(inserted, reconciliation_id=never))
    assert len((await shown(api))["items"]) == 2


async def test_a_look_reads_a_bounded_number_and_says_so(
    api: ApiHarness, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciliations_under_way, "MAX_HOLDERS_READ", 2)
    made = [await ask(api, keys[name], name) for name in ("shop", "bank", "shop")]
    found = await shown(api)
    assert (found["items"], found["left_out"]) == (made[1:], 1)


async def test_one_that_can_t_be_decoded_hides_no_other(
    api: ApiHarness, connection: Watched, keys: dict[str, str]
) -> None:
    made = [await ask(api, keys[name], name) for name in ("shop", "bank")]
    connection.broken = made[0]["reconciliation_id"]
    found = await shown(api)
    assert (found["items"], found["left_out"]) == (made[1:], 1)


async def test_those_of_deleted_clients_are_not_under_way(api: ApiHarness, keys: dict[str, str]) -> None:
    await ask(api, keys["shop"], "shop")
    made = await ask(api, keys["bank"], "bank")
    for method, path in (("POST", "/v1/clients/shop:suspend"), ("DELETE", "/v1/clients/shop")):
        assert (await api.send(method, path)).status < 300
    assert (await shown(api))["items"] == [made]


async def test_only_administrators_see_it(api: ApiHarness, keys: dict[str, str]) -> None:
    assert (await api.send("GET", ALL, key=keys["shop"])).status == 403


async def test_storage_that_is_away_is_no_empty_list(
    api: ApiHarness, connection: Watched, keys: dict[str, str]
) -> None:
    await ask(api, keys["shop"], "shop")
    for name in ("reconciliation_slots.list", "reconciliations.read"):
        connection.away = name
        assert (await api.send("GET", ALL)).status == 503, name
