import hmac
from types import SimpleNamespace

import pytest

from scheduler_service.domain.clients import Scope
from scheduler_service.domain.ids import ClientId
from scheduler_service.runtime import file_secrets
from scheduler_service.usecases import authenticate
from scheduler_service.usecases.authenticate import Principal, Unauthenticated, hash_secret
from tests.support.api import ADMIN_KEY, ApiHarness

SHOP = ClientId("shop")


async def client_key(world: ApiHarness, client_id: ClientId = SHOP) -> str:
    await world.services.clients.register(client_id, poller_quota=1, settings=None)
    return (await world.services.keys.create(client_id)).text


async def test_the_configured_key_is_an_administrators(world: ApiHarness) -> None:
    principal = await world.services.authenticate(f"Bearer {ADMIN_KEY}")
    assert principal == Principal("configured", configured=True)


async def test_a_clients_key_is_that_clients(world: ApiHarness) -> None:
    key = await client_key(world)
    client = await world.storage.clients.read_client(SHOP)
    assert await world.services.authenticate(f"Bearer {key}") == Principal(
        "shop", SHOP, client, key_id=key.split("_")[1], scope=Scope.WRITE
    )
    assert await world.services.authenticate(f"bearer  {key} ") == Principal(
        "shop", SHOP, client, key_id=key.split("_")[1], scope=Scope.WRITE
    )


async def test_a_named_administrators_key_is_not_the_configured_one(world: ApiHarness) -> None:
    new = await world.services.keys.create("ops", admin=True)
    assert await world.services.authenticate(f"Bearer {new.text}") == Principal("ops", key_id=new.key.key_id)


async def test_several_keys_are_good_at_once_and_each_is_revoked_alone(world: ApiHarness) -> None:
    first = await client_key(world)
    second = (await world.services.keys.create(SHOP)).text
    await world.services.keys.revoke(first.split("_")[1], client_id=SHOP)
    with pytest.raises(Unauthenticated):
        await world.services.authenticate(f"Bearer {first}")
    assert (await world.services.authenticate(f"Bearer {second}")).client_id == SHOP


async def test_the_key_of_a_deleted_client_is_worthless_even_unrevoked(world: ApiHarness) -> None:
    key = await client_key(world)
    await world.services.clients.suspend(SHOP)
    assert (await world.services.authenticate(f"Bearer {key}")).client_id == SHOP
    revoke = world.storage.clients.revoke_key

    async def lost(key_id: str, *, revoked_at: int) -> None:
        """The process ends between the writes of the state and of the keys."""

    world.services.keys._store.revoke_key = lost  # type: ignore[method-assign]
    await world.services.clients.delete(SHOP)
    world.services.keys._store.revoke_key = revoke  # type: ignore[method-assign]
    with pytest.raises(Unauthenticated):
        await world.services.authenticate(f"Bearer {key}")


async def test_every_guess_is_answered_alike(world: ApiHarness) -> None:
    key = await client_key(world)
    _, key_id, secret = key.split("_")
    answers = set()
    for guess in (
        f"mh_{key_id}_{secret[:-1]}0",
        f"mh_{key_id}_",
        f"mh_{key_id}",
        f"mh__{secret}",
        f"mh_{'0' * 16}_{secret}",
        f"xx_{key_id}_{secret}",
        f"mh_{key_id}_{secret}x",
        f"mh_{'é' * 8}_{secret}",
        ADMIN_KEY + "x",
        ADMIN_KEY[:-1],
        "\udcff\udcfe",
    ):
        with pytest.raises(Unauthenticated) as caught:
            await world.services.authenticate(f"Bearer {guess}")
        answers.add(str(caught.value))
    assert len(answers) == 1


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", f"Basic {ADMIN_KEY}", ADMIN_KEY])
async def test_other_headers_are_refused(world: ApiHarness, header: str | None) -> None:
    with pytest.raises(Unauthenticated):
        await world.services.authenticate(header)


async def test_no_secret_is_stored(world: ApiHarness) -> None:
    key = await client_key(world)
    secret = key.split("_")[2]
    stored = repr([world.connection.rows(table) for table in world.connection.tables])
    assert secret not in stored
    assert key.split("_")[1] in stored


async def test_an_unknown_key_id_costs_the_same_work_as_a_known_one(
    world: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await client_key(world)
    _, key_id, secret = key.split("_")
    revoked = (await world.services.keys.create(SHOP)).text
    await world.services.keys.revoke(revoked.split("_")[1], client_id=SHOP)
    work: list[str] = []

    def compare(one: bytes, other: bytes) -> bool:
        work.append(f"compare {len(one)} {len(other)}")
        return hmac.compare_digest(one, other)

    def hashed(text: str) -> bytes:
        work.append("hash")
        return hash_secret(text)

    for module, hashing in ((authenticate, "hash_secret"), (file_secrets, "_hash")):
        monkeypatch.setattr(module, "hmac", SimpleNamespace(compare_digest=compare))
        monkeypatch.setattr(module, hashing, hashed)
    seen = []
    for guess in (f"mh_{key_id}_{'0' * 48}", f"mh_{'0' * 16}_{secret}", revoked):
        work.clear()
        with pytest.raises(Unauthenticated):
            await world.services.authenticate(f"Bearer {guess}")
        seen.append(list(work))
    assert seen == [["hash", "compare 32 32", "hash", "hash", "compare 32 32"]] * 3
