"""Destinations over the API: put, shown without secrets, paused, deleted, within their bounds."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from membership.conditional import APPLIED, Answer, Unknown
from scheduler_service.domain.destination_figures import BreakerState, NodeFigures
from scheduler_service.domain.destinations import MAX_DESTINATIONS, MAX_DESTINATIONS_BYTES, StoredDestination
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import DAY_MS, HOUR_MS, ClientId, CronId, PollerId, UnixMillis, compose_schedule_id
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.schedules import Definition, Kind
from scheduler_service.domain.targets import JudgedTarget
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.destination_users import MAX_NAMED, MAX_SEARCH_READS
from scheduler_service.usecases.destinations import SETTLED_MS
from scheduler_service.usecases.key_ring import new_key
from scheduler_service.usecases.secret_encryption import KeyRingEncryption
from tests.contract.builders import cancelled, update
from tests.support.api import NOW, ApiHarness, Reply, cron
from tests.support.client_pems import SOON, pair
from tests.support.nodes import Nodes

ALL = "/v1/clients/shop/destinations"
HOOK = f"{ALL}/hook"
CANARY = "canary7f3a"
URL = "https://warehouse.example/hooks"
SHOP = ClientId("shop")
NETWORK = NetworkPolicy.parse(proxies=["proxy.internal:3128"])


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness(network=NETWORK) as harness:
        await harness.add_built_in_clients()
        await harness.register("shop")
        yield harness


async def put(api: ApiHarness, path: str = HOOK, *, seen: dict[str, str] | None = None, **asked: Any) -> Reply:
    return await api.send("PUT", path, json={"url": URL, **asked}, headers=seen)


async def test_it_is_created_then_replaced_as_a_whole(api: ApiHarness) -> None:
    created = await put(api, max_in_flight=5, timeout_seconds=2)
    assert (created.status, created.headers["Location"]) == (201, HOOK)
    assert created.headers["ETag"] == f'"{created.json["revision"]}"'
    assert (created.json["max_in_flight"], created.json["paused_at"]) == (5, None)
    api.clock.advance(1)
    replaced = await put(api, method="PUT")
    assert (replaced.status, "Location" in replaced.headers) == (200, False)
    assert (replaced.json["method"], replaced.json["max_in_flight"]) == ("PUT", None), "what is left out is not kept"
    assert replaced.json["revision"] == created.json["revision"] + 1
    assert replaced.json["created_at"] == created.json["created_at"] < replaced.json["changed_at"]
    shown = await api.send("GET", HOOK)
    assert ({**shown.json, "figures": None}, shown.headers["ETag"]) == (replaced.json, replaced.headers["ETag"])
    assert (await api.send("GET", ALL)).json == {"items": [replaced.json], "next_cursor": None}


async def test_secrets_are_stored_sealed_and_never_shown(tmp_path: Path) -> None:
    ring, randomness = tmp_path / "ring", SystemRandomness()
    ring.write_text(new_key("first", randomness=randomness))
    certificate = pair("CN of shop")
    request = {
        "headers": {"authorization": f"Bearer {CANARY}", "x-source": CANARY},
        "certificate": certificate,
        "proxy": {"url": "http://proxy.internal:3128", "username": "shop", "password": CANARY},
    }
    with_token = {"token": {"client_id": "me", "client_secret": CANARY, "token_url": "https://login.example/token"}}
    secrets = (CANARY, certificate["key"].split("\n")[1], certificate["chain"].split("\n")[1])
    async with ApiHarness(network=NETWORK, encryption=KeyRingEncryption(str(ring), randomness=randomness)) as api:
        await api.register("shop")
        answers = [
            await put(api, **request),
            await put(api, f"{ALL}/other", **with_token),
            await put(api, **request),
            await put(api, certificate={**certificate, "chain": certificate["key"]}),
            *[await api.send("POST", f"{HOOK}:{verb}") for verb in ("pause", "resume")],
            await api.send("GET", HOOK),
            await api.send("GET", ALL),
            await api.send("GET", "/v1/clients/shop/audit-log"),
        ]
        assert [reply.status for reply in answers] == [201, 201, 200, 422, 200, 200, 200, 200, 200]
        stored = str(api.connection.rows("destinations"))
        for secret in secrets:
            assert secret not in stored
            assert not [reply for reply in answers if secret.encode() in reply.body]
        shown = answers[0].json
        assert shown["headers"] == {"authorization": "***", "x-source": "***"}
        assert shown["certificate"] == {"subject": "CN=CN of shop", "expires_at": "2027-11-21T09:30:00.000Z"}
        assert shown["proxy"] == {"url": "http://proxy.internal:3128", "username": "shop"}
        assert answers[1].json["token"]["client_id"] == "me"
        ring.write_text(new_key("second", randomness=randomness))
        for method, path in (("GET", HOOK), ("GET", ALL), ("POST", f"{HOOK}:pause")):
            locked = await api.send(method, path)
            assert (locked.status, locked.json["type"]) == (503, "/problems/secret-locked")
        assert str(api.connection.rows("destinations")) == stored, "what can't be shown is not changed"
        assert (await put(api)).status == 200, "but it can be replaced"
        assert (await api.send("DELETE", f"{ALL}/other")).status == 204, "and deleted"


async def test_all_faults_of_a_request_are_named_and_nothing_is_stored(api: ApiHarness) -> None:
    expired = pair(expires=SOON - timedelta(days=700))
    reply = await put(
        api,
        url="https://10.0.0.1/#x",
        method="TRACE",
        headers={"host": CANARY},
        max_in_flight="many",
        certificate=expired,
        token={"client_id": "a", "client_secret": CANARY, "token_url": "http://login.example", "issuer": "https://b"},
    )
    assert reply.status == 422
    named = {one["pointer"] for one in reply.json["errors"]}
    assert named >= {"/url", "/method", "/max_in_flight", "/certificate/chain", "/token/token_url"}
    assert CANARY.encode() not in reply.body
    assert api.connection.rows("destinations") == []


async def test_a_change_is_made_of_what_was_seen(api: ApiHarness) -> None:
    absent = await put(api, seen={"If-Match": '"1"'})
    assert (absent.status, absent.json["type"]) == (412, "/problems/precondition-failed")
    made = await put(api, seen={"If-None-Match": "*"})
    tag = made.headers["ETag"]
    assert (await put(api, seen={"If-None-Match": "*"}, max_in_flight=2)).status == 412
    changed = await put(api, seen={"If-Match": tag}, max_in_flight=2)
    assert changed.status == 200
    assert (await put(api, seen={"If-Match": tag}, max_in_flight=3)).status == 412
    repeated = await put(api, seen={"If-Match": tag}, max_in_flight=2)
    assert repeated.status == 200, "its answer may have been lost"
    assert (await api.send("DELETE", HOOK, headers={"If-Match": tag})).status == 412
    assert (await api.send("DELETE", HOOK, headers={"If-Match": repeated.headers["ETag"]})).status == 204


async def test_a_pause_lasts_until_it_is_lifted(api: ApiHarness) -> None:
    await put(api)
    paused = await api.send("POST", f"{HOOK}:pause")
    assert (paused.status, paused.json["paused_at"]) == (200, "2026-11-21T09:30:00.000Z")
    api.clock.advance(60)
    assert (await api.send("POST", f"{HOOK}:pause")).json["paused_at"] == "2026-11-21T09:30:00.000Z"
    assert (await put(api, max_in_flight=2)).json["paused_at"] == "2026-11-21T09:30:00.000Z"
    lifted = await api.send("POST", f"{HOOK}:resume")
    assert (lifted.json["paused_at"], lifted.json["max_in_flight"]) == (None, 2)
    again = await api.send("POST", f"{HOOK}:resume")
    assert (again.status, again.json["paused_at"]) == (200, None)


async def test_an_unknown_destination_is_not_found(api: ApiHarness) -> None:
    announced = await api.storage.clients.catalog_revision()
    for method, path in (
        ("GET", HOOK),
        ("DELETE", HOOK),
        ("POST", f"{HOOK}:pause"),
        ("POST", f"{HOOK}:resume"),
        ("PUT", f"{ALL}/No-Name"),
        ("PUT", f"{ALL}/{'x' * 64}"),
    ):
        reply = await api.send(method, path, json={"url": URL} if method == "PUT" else None)
        assert (reply.status, reply.json["type"]) == (404, "/problems/not-found"), path
    assert (await api.send("GET", ALL)).json["items"] == []
    assert await api.storage.clients.catalog_revision() > announced, "a deletion is announced once more"


async def test_a_destination_made_again_has_another_etag(api: ApiHarness) -> None:
    tag = (await put(api)).headers["ETag"]
    api.clock.advance(0.001)
    assert (await api.send("DELETE", HOOK)).status == 204
    made = await put(api)
    assert made.status == 201
    assert made.headers["ETag"] != tag


async def _insert_directly(api: ApiHarness, number: int, *, document: str = '{"url":"https://a.example"}') -> None:
    at = UnixMillis(NOW)
    await api.storage.destinations.put_destination(
        StoredDestination(
            client_id=SHOP,
            name=f"d{number:03}",
            document=document,
            revision=1,
            created_at=at,
            changed_at=at,
        ),
        expected_revision=None,
    )


async def test_a_client_has_at_most_a_hundred_destinations(api: ApiHarness) -> None:
    for number in range(MAX_DESTINATIONS - 1):
        await _insert_directly(api, number)
    assert (await put(api)).status == 201
    refused = await put(api, f"{ALL}/one-more")
    assert (refused.status, refused.json["type"]) == (409, "/problems/too-many-destinations")
    assert (await put(api, max_in_flight=2)).status == 200, "those that are there may change"
    assert len(api.connection.rows("destinations")) == MAX_DESTINATIONS
    assert (await api.send("DELETE", f"{ALL}/d000")).status == 204
    assert (await put(api, f"{ALL}/one-more")).status == 201


def _write_together(api: ApiHarness, monkeypatch: pytest.MonkeyPatch, *, count: int) -> None:
    """Let writes begin when so many requests want one."""
    store = api.storage.destinations
    write, arrived = store.put_destination, asyncio.Event()
    waiting = 0

    async def together(destination: StoredDestination, *, expected_revision: int | None) -> Answer[Any]:
        nonlocal waiting
        waiting += 1
        if waiting == count:
            arrived.set()
        await arrived.wait()
        return await write(destination, expected_revision=expected_revision)

    monkeypatch.setattr(type(store), "put_destination", staticmethod(together))


async def test_concurrent_puts_do_not_exceed_the_maximum_of_destinations(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(MAX_DESTINATIONS - 1):
        await _insert_directly(api, number)
    _write_together(api, monkeypatch, count=3)
    replies = await asyncio.gather(*(put(api, f"{ALL}/new-{number}") for number in range(3)))
    stayed = [reply for reply in replies if reply.status == 201]
    assert len(stayed) <= 1
    assert all(reply.json["type"] == "/problems/too-many-destinations" for reply in replies if reply.status != 201)
    assert len(api.connection.rows("destinations")) == MAX_DESTINATIONS - 1 + len(stayed)


def _stored_bytes(api: ApiHarness) -> int:
    return sum(len(row["document"]) for row in api.connection.rows("destinations"))


def _headers(count: int) -> dict[str, str]:
    return {f"x-{number}": "x" * 4_000 for number in range(count)}


async def _fill(api: ApiHarness) -> None:
    """There is room for two more headers then, and not for four."""
    document = f'{{"url":"https://a.example","headers":[["x","{"x" * (MAX_DESTINATIONS_BYTES - 22_000)}"]]}}'
    await _insert_directly(api, 0, document=document)
    for number, headers in enumerate((2, 1, 0)):
        reply = await put(api, f"{ALL}/of-{number}", headers=_headers(headers))
        assert reply.status == 201, reply.body


async def test_destinations_of_a_client_have_a_maximum_of_bytes(api: ApiHarness) -> None:
    await _fill(api)
    assert (await put(api, f"{ALL}/new", headers=_headers(2))).status == 201
    full = _stored_bytes(api)
    for name in ("other", "of-1"):
        refused = await put(api, f"{ALL}/{name}", headers=_headers(2))
        assert (refused.status, refused.json["type"]) == (409, "/problems/destinations-too-large")
    assert MAX_DESTINATIONS_BYTES - 9_000 < full == _stored_bytes(api)
    assert (await put(api, f"{ALL}/of-1", headers=_headers(0))).status == 200, "what shrinks needs no room"
    assert (await put(api, f"{ALL}/other", headers=_headers(1))).status == 201


async def test_concurrent_puts_do_not_exceed_the_maximum_of_bytes(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New ones are taken back, and those that have grown are as they were."""
    await _fill(api)
    before = (await api.send("GET", f"{ALL}/of-2")).json["headers"]
    _write_together(api, monkeypatch, count=3)
    replies = await asyncio.gather(
        *(put(api, f"{ALL}/{name}", headers=_headers(2)) for name in ("new-0", "new-1", "of-2"))
    )
    refused = [reply for reply in replies if reply.status not in (200, 201)]
    assert len(refused) >= 2
    assert {(reply.status, reply.json["type"]) for reply in refused} == {(409, "/problems/destinations-too-large")}
    assert _stored_bytes(api) <= MAX_DESTINATIONS_BYTES
    if replies[2] in refused:
        assert (await api.send("GET", f"{ALL}/of-2")).json["headers"] == before


async def test_what_will_be_taken_back_makes_no_room_for_another_document(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is put again after its first write, and before that is found to be too large."""
    await _fill(api)
    store = api.storage.destinations
    read, checked, count = store.list_destinations, asyncio.Event(), 3
    counting = 0
    turns = {count: asyncio.Event(), 2 * count: asyncio.Event()}
    _write_together(api, monkeypatch, count=count)

    async def later(client_id: ClientId) -> Any:
        nonlocal counting
        if len(api.connection.rows("destinations")) > 4:
            counting += 1
            if counting in turns:
                turns[counting].set()
            await checked.wait()
        return await read(client_id)

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "list_destinations", staticmethod(later))
        names = [f"{ALL}/new-{number}" for number in range(count)]
        first = [asyncio.ensure_future(put(api, name, headers=_headers(2))) for name in names]
        await turns[count].wait()
        second = asyncio.gather(*(put(api, name, headers=_headers(2)) for name in names))
        all_count = asyncio.ensure_future(turns[2 * count].wait())
        await asyncio.wait([second, all_count], return_when=asyncio.FIRST_COMPLETED)
        all_count.cancel()
        checked.set()
        replies = [*await asyncio.gather(*first), *await second]
    assert {reply.status for reply in replies} <= {200, 201, 409}
    assert _stored_bytes(api) <= MAX_DESTINATIONS_BYTES
    api.clock.advance(SETTLED_MS / 1000)
    assert (await put(api, f"{ALL}/of-0", headers=_headers(2))).status == 200, "what does not grow needs no room"


@pytest.mark.parametrize("name", ["new", "of-2"])
@pytest.mark.parametrize("fault", ["paused", "lost before", "lost after"])
async def test_what_is_too_large_is_taken_back_although_it_was_paused_or_an_answer_was_lost(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch, fault: str, name: str
) -> None:
    await _fill(api)
    before = _stored_bytes(api)
    store = api.storage.destinations
    write, delete, turns = store.put_destination, store.delete_destination, 0

    async def meanwhile(change: Callable[[], Awaitable[Answer[Any]]]) -> Answer[Any]:
        """The first change is that which grows, the second one takes it back."""
        nonlocal turns
        turns += 1
        if turns == 1:
            answer = await change()
            present = await store.read_destination(SHOP, name)
            assert present is not None
            other = replace(present, name="other")
            assert await write(other, expected_revision=None) is APPLIED
            if fault == "paused":
                paused = replace(present, revision=present.revision + 1, paused_at=UnixMillis(NOW))
                assert await write(paused, expected_revision=present.revision) is APPLIED
            return answer
        if turns > 2 or fault == "paused":
            return await change()
        if fault == "lost after":
            await change()
        return Unknown("lost")

    async def put_one(destination: StoredDestination, *, expected_revision: int | None) -> Answer[Any]:
        return await meanwhile(lambda: write(destination, expected_revision=expected_revision))

    async def delete_one(client_id: ClientId, name: str, *, expected_revision: int) -> Answer[Any]:
        return await meanwhile(lambda: delete(client_id, name, expected_revision=expected_revision))

    monkeypatch.setattr(type(store), "put_destination", staticmethod(put_one))
    monkeypatch.setattr(type(store), "delete_destination", staticmethod(delete_one))
    refused = await put(api, f"{ALL}/{name}", headers=_headers(2))
    assert (refused.status, refused.json["type"]) == (409, "/problems/destinations-too-large")
    (other,) = [row for row in api.connection.rows("destinations") if row["name"] == "other"]
    assert _stored_bytes(api) - len(other["document"]) == before
    shown = await api.send("GET", f"{ALL}/{name}")
    if name == "new":
        assert shown.status == 404
    else:
        assert (shown.json["paused_at"] is not None) == (fault == "paused")


async def test_a_change_without_an_answer_may_be_repeated(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    store = type(api.storage.destinations)

    async def lost(*asked: Any, **named: Any) -> Answer[Any]:
        return Unknown("lost")

    with monkeypatch.context() as patch:
        patch.setattr(store, "put_destination", lost)
        patch.setattr(store, "delete_destination", lost)
        for reply in (await put(api), await api.send("DELETE", HOOK)):
            assert (reply.status, reply.json["type"]) == (503, "/problems/storage-unavailable")
    assert (await put(api)).status == 201


# Who names it.


def row(*, due: int = NOW + HOUR_MS, tail: int = 1, name: str = "hook", **other: Any) -> Definition:
    values: dict[str, Any] = {
        "client_id": SHOP,
        "poller_id": PollerId(1),
        "due": UnixMillis(due),
        "schedule_id": compose_schedule_id(due=UnixMillis(due), poller_id=1, tail=tail),
        "method": "POST",
        "url": f"destination://{name}/orders",
        "headers": "[]",
        "body": b"",
        "options": "{}",
        "created_at": UnixMillis(NOW),
    }
    return Definition(**{**values, **other})


async def refusal(api: ApiHarness) -> str:
    reply = await api.send("DELETE", HOOK)
    assert (reply.status, reply.json["type"]) == (409, "/problems/destination-in-use"), reply.body
    assert [one["name"] for one in api.connection.rows("destinations")] == ["hook"]
    return str(reply.json["detail"])


@pytest.mark.parametrize(
    "due", [NOW - 30_000, NOW + HOUR_MS, NOW + 96 * HOUR_MS, NOW + 300 * DAY_MS, NOW + 729 * DAY_MS]
)
async def test_one_that_a_waiting_schedule_names_is_deleted_by_force_only(api: ApiHarness, due: int) -> None:
    await put(api)
    await api.storage.schedules.insert(row(due=due, name="other"))
    await api.storage.schedules.insert(row(due=due, tail=2, url="https://hook.example"))
    waiting = row(due=due, tail=3)
    await api.storage.schedules.insert(waiting)
    detail = await refusal(api)
    assert detail == f"destination 'hook' is named by 1 waiting schedule ({waiting.schedule_id})"
    wrong = await api.send("DELETE", HOOK, params={"force": "yes"})
    assert (wrong.status, wrong.json["errors"][0]["pointer"]) == (422, "/force")
    assert (await api.send("DELETE", HOOK, params={"force": "true"})).status == 204
    assert api.connection.rows("destinations") == []


async def test_retries_count_and_what_has_ended_does_not(api: ApiHarness) -> None:
    await put(api)
    ended = row()
    await api.storage.schedules.insert(ended)
    assert await api.storage.schedules.update(update(ended.partition, 1, cancelled(ended))) == APPLIED
    assert (await api.send("DELETE", HOOK)).status == 204
    await put(api)
    await api.storage.schedules.insert(row(tail=2, kind=Kind.RETRY_ROW, origin_due=UnixMillis(NOW - DAY_MS)))
    assert "1 waiting schedule (" in await refusal(api)


async def test_one_that_a_cron_names_is_deleted_by_force_only(api: ApiHarness) -> None:
    await put(api)
    for cron_id in ("other", "nightly"):
        await api.send("PUT", f"/v1/clients/shop/crons/{cron_id}", json=cron())
    await _name_by_cron(api, "nightly")
    assert await refusal(api) == "destination 'hook' is named by 1 cron (nightly)"
    await api.storage.schedules.insert(row())
    assert "1 cron (nightly) and 1 waiting schedule (" in await refusal(api)
    await api.send("DELETE", "/v1/clients/shop/crons/nightly")
    assert "cron" not in await refusal(api)
    assert (await api.send("DELETE", HOOK, params={"force": "true"})).status == 204


async def _name_by_cron(api: ApiHarness, cron_id: str) -> None:
    found = (await api.storage.crons.read(SHOP, [CronId(cron_id)]))[CronId(cron_id)]
    changed = replace(found, callback=replace(found.callback, url="destination://hook"), revision=found.revision + 1)
    await api.storage.crons.write(changed, expected_revision=found.revision)


async def test_a_search_names_some_and_says_that_there_are_more(api: ApiHarness) -> None:
    await put(api)
    for tail in range(MAX_NAMED + 5):
        await api.storage.schedules.insert(row(tail=tail))
    detail = await refusal(api)
    assert f"at least {MAX_NAMED} waiting schedules" in detail
    assert "there may be others" in detail


async def test_a_search_that_can_not_look_at_all_refuses(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await put(api)
    assert MAX_SEARCH_READS >= 400
    monkeypatch.setattr("scheduler_service.usecases.destination_users.MAX_SEARCH_READS", 150)
    assert "nobody knows whether one names the destination 'hook'" in await refusal(api)
    monkeypatch.setattr("scheduler_service.usecases.destination_users.MAX_SEARCH_READS", 190)
    assert (await api.send("DELETE", HOOK)).status == 204


async def test_a_search_is_charged_and_one_by_force_is_not(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    owed = 0.0

    def owe(self: object, principal: object, cost: float) -> None:
        nonlocal owed
        owed += cost

    monkeypatch.setattr(type(api.services.request_budget), "owe", owe)
    await put(api)
    assert (await api.send("DELETE", HOOK, params={"force": "true"})).status == 204
    assert owed < 1
    await put(api)
    assert (await api.send("DELETE", HOOK)).status == 204
    assert owed > 300


async def test_a_key_that_takes_long_to_validate_is_charged(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    owed: list[float] = []
    monkeypatch.setattr(type(api.services.request_budget), "owe", lambda self, principal, cost: owed.append(cost))
    certificate = pair()
    await put(api, certificate={**certificate, "key": certificate["key"] + "#" * 3000})
    assert max(owed) > 300


async def test_a_destination_shows_the_figures_of_all_nodes(api: ApiHarness) -> None:
    """Nodes that beat are asked. Those that don't answer are counted, and those that ended are not."""
    await put(api)
    nodes = Nodes(api)
    one, other, mute, ended = [await nodes.add(name) for name in ("one", "other", "mute", "ended")]
    await nodes.beat(one, other, mute, seconds=4)
    api.nodes.figures = {
        ("one", SHOP, "hook"): NodeFigures(
            calls=3, failures=1, answers=(0, 2), in_flight=1, waiting=4, token_failures=2
        ),
        ("other", SHOP, "hook"): NodeFigures(
            calls=2, answers=(0, 0, 0, 0, 1), deferred=7, token_failures=3, breaker=BreakerState.OPEN
        ),
        ("one", SHOP, "another"): NodeFigures(calls=100),
        (ended.node_id, SHOP, "hook"): NodeFigures(calls=1_000),
    }
    api.nodes.silent = {"mute"}
    assert (await api.send("GET", HOOK)).json["figures"] == {
        "calls": 5,
        "failures": 1,
        "answer_p50_seconds": 0.0012,
        "answer_p99_seconds": 0.002,
        "in_flight": 1,
        "waiting": 4,
        "deferred": 7,
        "token_failures": 5,
        "breaker": "open",
        "silent_nodes": 1,
    }
    listed = (await api.send("GET", ALL)).json["items"]
    assert [one["figures"] for one in listed] == [None], "a list asks no node"


@pytest.mark.parametrize(("knows", "status"), [(24, 409), (25, 201)])
async def test_none_is_made_while_nodes_run_that_know_none(api: ApiHarness, knows: int, status: int) -> None:
    nodes = Nodes(api)
    await nodes.beat(await nodes.add("older", knows=knows), await nodes.add("new", knows=26), seconds=3)
    made = await put(api)
    assert made.status == status
    assert status == 201 or made.json["type"] == "/problems/older-nodes"


class Boxes:
    """A kind whose targets have a name and a password."""

    def judge(self, document: Mapping[str, Any], *, client_id: ClientId) -> JudgedTarget:
        if document.keys() != {"name", "password"}:
            raise Invalid([FieldError("/name", "and password must be given, and nothing else")])
        return JudgedTarget(f"box://{document['name']}", hidden=("password",))


@pytest.fixture
async def boxed() -> AsyncIterator[ApiHarness]:
    async with ApiHarness(network=NETWORK, kinds={"box": Boxes()}) as harness:
        await harness.add_built_in_clients()
        await harness.register("shop")
        yield harness


async def test_one_of_another_kind_is_shown_without_the_secrets_of_its_target(boxed: ApiHarness) -> None:
    target = {"name": "a", "password": CANARY}
    made = await boxed.send("PUT", HOOK, json={"kind": "box", "target": target, "max_in_flight": 5})
    assert made.status == 201
    for shown in (made, await boxed.send("GET", HOOK), await boxed.send("GET", ALL)):
        assert CANARY not in str(shown.json)
    one = (await boxed.send("GET", HOOK)).json
    assert (one["kind"], one["url"], one["max_in_flight"]) == ("box", "box://a", 5)
    assert one["target"] == {"name": "a", "password": "***"}
    again = await boxed.send("PUT", HOOK, json={"url": URL})
    assert (again.status, again.json["kind"], again.json["target"]) == (200, "http", None)


async def test_faults_of_a_target_are_named(boxed: ApiHarness) -> None:
    asked = {"kind": "box", "target": {"name": CANARY}, "url": URL, "max_in_flight": 0}
    refused = await boxed.send("PUT", HOOK, json=asked)
    assert refused.status == 422
    assert {one["pointer"] for one in refused.json["errors"]} >= {"/max_in_flight"}
    refused = await boxed.send("PUT", HOOK, json={**asked, "max_in_flight": 1})
    assert {one["pointer"] for one in refused.json["errors"]} == {"/url", "/target/name"}
    assert CANARY not in str(refused.json)


async def test_a_kind_that_is_not_offered_is_refused_by_name(api: ApiHarness) -> None:
    refused = await api.send("PUT", HOOK, json={"kind": "kafka", "target": {}})
    assert (refused.status, refused.json["errors"]) == (
        422,
        [
            {
                "pointer": "/kind",
                "detail": "there is no kind 'kafka' here: use one of http; the operator adds kinds by targets.file",
            }
        ],
    )
