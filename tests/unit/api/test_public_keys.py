"""The public keys of clients: who may read them, how soon they are shown, and what that costs."""

import base64
from contextlib import suppress

import msgspec
import pytest

from membership.errors import StoreUnavailable
from minutehand.webhooks import verify
from poller_cluster.delivery.headers import sign
from scheduler_service.api.problems import Refusal
from scheduler_service.api.request_budget import OPEN_READS_PER_ADDRESS, OPEN_READS_PER_SECOND, RequestBudget
from scheduler_service.api.settings import ApiSettings
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.rates import BURST_SECONDS
from scheduler_service.usecases import public_keys
from scheduler_service.usecases.public_keys import ABSENT_SECONDS, FRESH_SECONDS
from scheduler_service.usecases.signing_secrets import MAX_KEY_PAIRS
from tests.support.api import ADMIN_KEY, ApiHarness, Reply
from tests.support.virtual_clock import VirtualClock

SECRETS = "/v1/clients/shop/signing-secrets"
GUESSES = OPEN_READS_PER_ADDRESS * BURST_SECONDS
"""The most reads of storage that callers of one address without a key may cause at once."""


async def pair(api: ApiHarness, client_id: str = "shop") -> str:
    """Make a key pair; returns its public key."""
    made = await api.send("POST", f"/v1/clients/{client_id}/signing-secrets", json={"scheme": "v1a"})
    assert made.status == 201, made.body
    return str(made.json["secret"])


async def asked(api: ApiHarness, client_id: str = "shop") -> Reply:
    return await api.send("GET", f"/v1/public-keys/{client_id}", key=None)


async def keys(api: ApiHarness, client_id: str = "shop") -> list[str]:
    reply = await asked(api, client_id)
    assert reply.status == 200, reply.body
    return [one["public_key"] for one in reply.json["items"]]


@pytest.fixture
def reads(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the clients whose secrets are read."""
    found: list[str] = []
    real = api.storage.clients.list_secrets

    async def list_secrets(client_id: ClientId) -> object:
        found.append(client_id)
        return await real(client_id)

    monkeypatch.setattr(api.storage.clients, "list_secrets", list_secrets)
    return found


async def test_a_receiver_needs_nothing_but_the_public_key(api: ApiHarness, key: str) -> None:
    public = await pair(api)
    assert await keys(api) == [public]
    (stored,) = [one for one in await api.storage.clients.list_secrets(ClientId("shop")) if one.public_key]
    headers = {
        "webhook-id": "1",
        "webhook-timestamp": "1000",
        "webhook-signature": sign((), "1", 1000, b"{}", (stored.secret,)),
    }
    assert verify(b"{}", headers, await keys(api), now=1000).webhook_id == "1"
    assert (await asked(api)).headers["Cache-Control"] == "public, max-age=60"


async def test_the_list_of_secrets_says_how_each_signs(api: ApiHarness, key: str) -> None:
    public = await pair(api)
    listed = (await api.send("GET", SECRETS)).json["items"]
    assert sorted((one["scheme"], one["public_key"] or "") for one in listed) == [("v1", ""), ("v1a", public)]
    wrong = await api.send("POST", SECRETS, json={"scheme": "v2"})
    assert (wrong.status, list(wrong.faults)) == (422, ["/scheme"])


async def test_pairs_rotate_with_overlap_and_are_few(api: ApiHarness, key: str) -> None:
    first = await pair(api)
    assert await keys(api) == [first]
    api.clock.advance(FRESH_SECONDS)
    second = await pair(api)
    assert await keys(api) == [first, second]
    refused = await api.send("POST", SECRETS, json={"scheme": "v1a"})
    assert (refused.status, refused.json["type"]) == (409, "/problems/too-many-secrets")
    assert MAX_KEY_PAIRS == 2
    assert (await api.send("POST", SECRETS)).status == 201, "a secret of v1 is another matter"
    listed = (await api.send("GET", SECRETS)).json["items"]
    (gone,) = [one["secret_id"] for one in listed if one["public_key"] == first]
    assert (await api.send("DELETE", f"{SECRETS}/{gone}")).status == 204
    api.clock.advance(FRESH_SECONDS)
    assert await keys(api) == [second]


async def test_a_client_without_pairs_is_like_one_that_is_not_there(api: ApiHarness, key: str) -> None:
    there, not_there = await asked(api), await asked(api, "no-such-client")
    assert (there.status, there.body) == (not_there.status, not_there.body)
    headers = [{**reply.headers, "X-Request-ID": "", "Date": ""} for reply in (there, not_there)]
    assert headers[0] == headers[1]


@pytest.mark.parametrize("name", ["$cron", "Shop", "a" * 64, "shop%2Fx", "shop%0A"])
async def test_what_can_t_be_a_client_is_not_looked_for(api: ApiHarness, key: str, reads: list[str], name: str) -> None:
    assert (await asked(api, name)).status == 404
    assert reads == []


async def test_keys_are_served_from_memory_and_read_again_after_a_while(
    api: ApiHarness, key: str, reads: list[str]
) -> None:
    public = await pair(api)
    reads.clear()
    for _ in range(50):
        assert await keys(api) == [public]
    assert reads == ["shop"]
    api.clock.advance(FRESH_SECONDS)
    assert await keys(api) == [public]
    assert reads == ["shop"] * 2


async def test_guesses_cost_few_reads_and_affect_no_client_with_keys(
    api: ApiHarness, key: str, reads: list[str]
) -> None:
    public = await pair(api)
    assert await keys(api) == [public]
    reads.clear()
    answers = [(await asked(api, f"guess-{number}")).status for number in range(GUESSES + 50)]
    assert [(await asked(api, "guess-1")).status for _ in range(5)] == [200] * 5, "known to have none"
    assert (answers.count(200), answers.count(429)) == (GUESSES - 1, 51)
    assert len(reads) == GUESSES - 1
    refused = await asked(api, "one-more")
    assert (refused.headers["Retry-After"], refused.json["type"]) == ("1", "/problems/too-many-requests")
    api.clock.advance(FRESH_SECONDS)
    reads.clear()
    for number in range(GUESSES):
        await asked(api, f"guess-{number}")
    assert (await asked(api, "one-more")).status == 429
    assert await keys(api) == [public], "it is known, so its refresh needs no turn"
    assert reads[-1] == "shop"


async def test_without_storage_the_last_known_keys_are_served(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = await pair(api)
    assert await keys(api) == [public]
    api.clock.advance(FRESH_SECONDS)

    async def no_answer(client_id: ClientId) -> object:
        raise StoreUnavailable("no answer")

    for name in ("list_secrets", "read_client"):
        monkeypatch.setattr(api.storage.clients, name, no_answer)
    assert await keys(api) == [public]
    assert (await asked(api, "other")).status == 503


async def test_memory_is_bounded_and_the_one_unused_longest_is_forgotten(
    api: ApiHarness, key: str, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_keys, "MAX_CLIENTS", 2)
    for client_id in ("one", "two"):
        await api.register(client_id)
        await pair(api, client_id)
    await pair(api)
    for client_id in ("one", "two", "one", "shop"):
        assert len(await keys(api, client_id)) == 1
    reads.clear()
    for client_id in ("one", "shop"):
        await keys(api, client_id)
    assert reads == []
    await keys(api, "two")
    assert reads == ["two"]


async def test_the_shown_key_is_that_of_the_stored_private_key(api: ApiHarness, key: str) -> None:
    public = base64.b64decode((await pair(api)).removeprefix("whpk_"))
    (stored,) = [one for one in await api.storage.clients.list_secrets(ClientId("shop")) if one.public_key]
    assert (stored.public_key, len(stored.secret)) == (public, 32)


async def test_an_unknown_client_is_looked_up_once_a_period(api: ApiHarness, key: str, reads: list[str]) -> None:
    for _ in range(GUESSES + 10):
        assert await keys(api, "nobody") == []
    assert reads == ["nobody"]
    api.clock.advance(ABSENT_SECONDS)
    assert await keys(api, "nobody") == []
    assert reads == ["nobody"] * 2


async def test_so_many_names_are_known_to_have_none(
    api: ApiHarness, key: str, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_keys, "MAX_ABSENT", 2)
    for name in ("one", "two", "three", "two", "one"):
        assert await keys(api, name) == []
    assert reads == ["one", "two", "three", "one"]


async def test_keys_of_a_deleted_client_are_not_shown(api: ApiHarness, key: str) -> None:
    public = await pair(api)
    assert await keys(api) == [public]
    stored = await api.storage.clients.list_secrets(ClientId("shop"))
    await api.send("POST", "/v1/clients/shop:suspend")
    assert (await api.send("DELETE", "/v1/clients/shop")).status == 204
    for one in stored:  # a request at the same time may make one
        await api.storage.clients.insert_secret(msgspec.structs.replace(one, secret_id="late"))
    assert any(one.public_key for one in await api.storage.clients.list_secrets(ClientId("shop")))
    api.clock.advance(FRESH_SECONDS)
    assert await keys(api) == []


async def test_an_address_that_guesses_leaves_the_others_most() -> None:
    budget = RequestBudget(settings=ApiSettings(admin_key=ADMIN_KEY), clock=VirtualClock())

    def taken(address: str, asks: int) -> int:
        count = 0
        for _ in range(asks):
            with suppress(Refusal):
                budget.take_open_read(address)
                count += 1
        return count

    assert taken("192.0.2.1", 500) == GUESSES
    assert taken("192.0.2.2", 30) == 30
    assert taken("192.0.2.3", 30) == OPEN_READS_PER_SECOND * BURST_SECONDS - GUESSES - 30
