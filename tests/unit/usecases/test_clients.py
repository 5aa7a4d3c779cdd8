import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from membership.conditional import Unknown
from membership.errors import StoreUnavailable
from membership.identity import PollerKey
from scheduler_service.domain.clients import Client, ClientSettings, ClientState, SignatureScheme
from scheduler_service.domain.errors import Conflict, Invalid, NotFound
from scheduler_service.domain.ids import ClientId, UnixMillis, minute_of
from scheduler_service.usecases.keys import NewKey
from scheduler_service.usecases.signing_secrets import ABANDONED_MS, MAX_KEY_PAIRS, MAX_SECRETS, NewSecret
from tests.support.api import NOW, ApiHarness

SHOP, CRON = ClientId("shop"), ClientId("$cron")


async def pollers_of(world: ApiHarness, client_id: ClientId = SHOP) -> list[int]:
    return [row.poller.poller_id for row in await world.storage.leases.read_leases(client_id)]


def content(client: Client) -> Client:
    return msgspec.structs.replace(client, revision=0)


async def add_built_in(world: ApiHarness) -> None:
    await world.storage.leases.create_pollers([PollerKey(CRON, 0)], watermark=0)
    await world.storage.clients.create_client(
        Client(
            client_id=CRON,
            poller_quota=1,
            poller_ceiling=1,
            state=ClientState.ACTIVE,
            settings=ClientSettings(),
            revision=1,
            created_at=UnixMillis(0),
        )
    )


async def test_a_new_client_has_its_pollers(world: ApiHarness) -> None:
    client, created = await world.services.clients.register(SHOP, poller_quota=3, settings=None)
    assert created
    assert (client.poller_quota, client.poller_ceiling, client.state) == (3, 3, ClientState.ACTIVE)
    assert await world.storage.clients.read_client(SHOP) == client
    assert await pollers_of(world) == [0, 1, 2]


async def test_new_pollers_are_watched_from_before_now(world: ApiHarness) -> None:
    await world.services.clients.register(SHOP, poller_quota=1, settings=None)
    lease = await world.storage.leases.read_lease(PollerKey(SHOP, 0))
    assert lease is not None
    assert lease.watermark < minute_of(NOW)
    assert (lease.owner, lease.epoch, lease.lagging) == (None, 0, True)


async def test_pollers_are_there_before_the_client_is(world: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*args: object, **kwargs: object) -> None:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(type(world.storage.leases), "create_pollers", lost)
        with pytest.raises(StoreUnavailable):
            await world.services.clients.register(SHOP, poller_quota=3, settings=None)
    assert await world.storage.clients.read_client(SHOP) is None
    await world.services.clients.register(SHOP, poller_quota=3, settings=None)

    with monkeypatch.context() as patched:
        patched.setattr(type(world.storage.leases), "create_pollers", lost)
        with pytest.raises(StoreUnavailable):
            await world.services.clients.register(SHOP, poller_quota=5, settings=None)
    client = await world.storage.clients.read_client(SHOP)
    assert client is not None
    assert client.poller_quota == 3


async def test_who_registers_a_client_a_moment_later_leaves_no_secret(
    world: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = type(world.storage.clients).create_client
    first = []

    async def overtaken(self: Any, client: Client) -> Any:
        if not first:
            first.append(None)
            first.append((await world.services.clients.register(SHOP, poller_quota=1, settings=None)).secret)
        return await create(self, client)

    monkeypatch.setattr(type(world.storage.clients), "create_client", overtaken)
    client, secret = await world.services.clients.register(SHOP, poller_quota=2, settings=None)
    assert (client.poller_quota, secret) == (2, None)
    assert first[1] is not None
    assert list(await world.services.signing_secrets.list(SHOP)) == [first[1].secret]


async def test_a_client_has_its_secret_when_it_is_there(world: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that do not register it leave their secrets, and never a client without one; a registration deletes
    them.
    """

    async def lost(self: Any, client: Client) -> Any:
        raise StoreUnavailable("nobody answers")

    with monkeypatch.context() as patched:
        patched.setattr(type(world.storage.clients), "create_client", lost)
        for _ in range(MAX_SECRETS):
            with pytest.raises(StoreUnavailable):
                await world.services.clients.register(SHOP, poller_quota=1, settings=None)
        with pytest.raises(StoreUnavailable, match="have not ended yet"):
            await world.services.clients.register(SHOP, poller_quota=1, settings=None)
    assert len(await world.services.signing_secrets.list(SHOP)) == MAX_SECRETS
    world.clock.advance(ABANDONED_MS / 1000 + 1)
    _, secret = await world.services.clients.register(SHOP, poller_quota=1, settings=None)
    assert secret is not None
    assert await world.services.signing_secrets.list(SHOP) == [secret.secret]


async def test_a_registration_whose_answer_storage_lost_shows_its_secret(
    world: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeat would answer that the client exists, and nobody would ever see its secret."""
    create = type(world.storage.clients).create_client

    async def unanswered(self: Any, client: Client) -> Any:
        await create(self, client)
        return Unknown("its answer was lost")

    monkeypatch.setattr(type(world.storage.clients), "create_client", unanswered)
    client, secret = await world.services.clients.register(SHOP, poller_quota=1, settings=None)
    assert secret is not None
    assert await world.services.signing_secrets.list(SHOP) == [secret.secret]
    assert client == await world.storage.clients.read_client(SHOP)


@pytest.mark.parametrize(("scheme", "most"), [(SignatureScheme.V1, MAX_SECRETS), (SignatureScheme.V1A, MAX_KEY_PAIRS)])
async def test_secrets_made_at_the_same_time_are_no_more_than_may_be(
    world: ApiHarness, monkeypatch: pytest.MonkeyPatch, scheme: SignatureScheme, most: int
) -> None:
    await world.services.clients.register(SHOP, poller_quota=1, settings=None)
    (first,) = await world.services.signing_secrets.list(SHOP)
    listed, together, calls = type(world.storage.clients).list_secrets, asyncio.Barrier(15), itertools.count()

    async def before_any_is_made(self: Any, client_id: ClientId) -> Any:
        found = await listed(self, client_id)
        if next(calls) < 15:
            await together.wait()
        return found

    monkeypatch.setattr(type(world.storage.clients), "list_secrets", before_any_is_made)
    made = await asyncio.gather(
        *(world.services.signing_secrets.create(SHOP, scheme) for _ in range(15)), return_exceptions=True
    )
    left = await world.services.signing_secrets.list(SHOP)
    assert {one.secret.secret_id for one in made if isinstance(one, NewSecret)} == {
        one.secret_id for one in left if one != first
    }
    assert sum(one.scheme is scheme for one in left) <= most
    assert all(isinstance(one, NewSecret | Conflict) for one in made)


async def test_a_grown_quota_gets_new_pollers_and_a_shrunk_one_keeps_the_old(world: ApiHarness) -> None:
    await world.services.clients.register(SHOP, poller_quota=2, settings=None)
    client, secret = await world.services.clients.register(SHOP, poller_quota=5, settings=None)
    assert secret is None
    assert (client.poller_quota, client.poller_ceiling) == (5, 5)
    assert await pollers_of(world) == [0, 1, 2, 3, 4]
    client, _ = await world.services.clients.register(SHOP, poller_quota=1, settings=None)
    assert (client.poller_quota, client.poller_ceiling) == (1, 5)
    assert await pollers_of(world) == [0, 1, 2, 3, 4]
    client, _ = await world.services.clients.register(SHOP, poller_quota=4, settings=None)
    assert (client.poller_quota, client.poller_ceiling) == (4, 5)


async def test_asking_again_changes_nothing_but_the_revision(world: ApiHarness) -> None:
    settings = ClientSettings(timeout_seconds=3)
    first, _ = await world.services.clients.register(SHOP, poller_quota=2, settings=settings)
    again, secret = await world.services.clients.register(SHOP, poller_quota=2, settings=settings)
    assert secret is None
    assert again.revision > first.revision
    assert content(again) == content(first)


async def test_settings_are_replaced_wholly(world: ApiHarness) -> None:
    await world.services.clients.register(SHOP, poller_quota=2, settings=ClientSettings(timeout_seconds=3))
    client, _ = await world.services.clients.register(SHOP, poller_quota=2, settings=ClientSettings(retention_days=9))
    assert client.settings == ClientSettings(retention_days=9)
    assert client.revision == 2


async def test_concurrent_changes_of_a_client_both_take_effect(
    world: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.services.clients.register(SHOP, poller_quota=2, settings=None)
    update = type(world.storage.clients).update_client
    turns = []

    async def overtaken(self: Any, *, expected_revision: int, client: Client) -> Any:
        if not turns:
            turns.append(1)
            await world.services.clients.suspend(SHOP)
        return await update(self, expected_revision=expected_revision, client=client)

    monkeypatch.setattr(type(world.storage.clients), "update_client", overtaken)
    client, _ = await world.services.clients.register(SHOP, poller_quota=4, settings=None)
    assert (client.poller_quota, client.state) == (4, ClientState.SUSPENDED)


@pytest.mark.parametrize("method", ["create_client", "update_client"])
async def test_an_unknown_answer_is_never_read_as_either(
    world: ApiHarness, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    if method == "update_client":
        await world.services.clients.register(SHOP, poller_quota=2, settings=None)

    async def unknown(*args: object, **kwargs: object) -> Unknown:
        return Unknown("timed out")

    monkeypatch.setattr(type(world.storage.clients), method, unknown)
    with pytest.raises(StoreUnavailable):
        await world.services.clients.register(SHOP, poller_quota=4, settings=None)


async def test_suspend_and_resume_may_be_repeated(world: ApiHarness) -> None:
    await world.services.clients.register(SHOP, poller_quota=1, settings=None)
    suspended = await world.services.clients.suspend(SHOP)
    assert suspended.state is ClientState.SUSPENDED
    assert content(await world.services.clients.suspend(SHOP)) == content(suspended)
    resumed = await world.services.clients.resume(SHOP)
    assert resumed.state is ClientState.ACTIVE
    assert content(await world.services.clients.resume(SHOP)) == content(resumed)


async def test_only_a_suspended_client_is_deleted_and_its_id_stays_reserved(world: ApiHarness) -> None:
    await world.services.clients.register(SHOP, poller_quota=1, settings=None)
    key = await world.services.keys.create(SHOP)
    with pytest.raises(Conflict) as caught:
        await world.services.clients.delete(SHOP)
    assert caught.value.kind == "not-suspended"
    await world.services.clients.suspend(SHOP)
    await world.services.clients.delete(SHOP)
    await world.services.clients.delete(SHOP)
    stored = await world.storage.clients.read_key(key.key.key_id)
    assert stored is not None
    assert stored.revoked_at == NOW
    with pytest.raises(Conflict) as caught:
        await world.services.clients.register(SHOP, poller_quota=1, settings=None)
    assert caught.value.kind == "client-deleted"
    for verb in (world.services.clients.suspend, world.services.clients.resume):
        with pytest.raises(NotFound):
            await verb(SHOP)
    assert await pollers_of(world) == [0]


async def test_deleting_a_client_leaves_an_administrator_of_that_name_alone(world: ApiHarness) -> None:
    await world.services.clients.register(SHOP, poller_quota=1, settings=None)
    admin = await world.services.keys.create(SHOP, admin=True)
    await world.services.clients.suspend(SHOP)
    await world.services.clients.delete(SHOP)
    stored = await world.storage.clients.read_key(admin.key.key_id)
    assert stored is not None
    assert stored.revoked_at is None
    assert list(await world.services.keys.of_client(SHOP)) == []


async def test_of_a_built_in_client_only_the_quota_changes(world: ApiHarness) -> None:
    with pytest.raises(NotFound):
        await world.services.clients.register(CRON, poller_quota=2, settings=None)
    await add_built_in(world)
    client, _ = await world.services.clients.register(CRON, poller_quota=4, settings=None)
    assert client.poller_quota == 4
    assert await pollers_of(world, CRON) == [0, 1, 2, 3]
    with pytest.raises(Invalid):
        await world.services.clients.register(CRON, poller_quota=4, settings=ClientSettings())
    for verb in (
        world.services.clients.suspend,
        world.services.clients.resume,
        world.services.clients.delete,
    ):
        with pytest.raises(Conflict) as caught:
            await verb(CRON)
        assert caught.value.kind == "built-in-client"


async def test_a_key_is_revoked_by_its_own_client_only(world: ApiHarness) -> None:
    key = (await world.services.keys.create(SHOP)).key
    admin = (await world.services.keys.create("ops", admin=True)).key
    for key_id, client_id in ((key.key_id, ClientId("other")), (key.key_id, None), (admin.key_id, ClientId("ops"))):
        with pytest.raises(NotFound):
            await world.services.keys.revoke(key_id, client_id=client_id)
    await world.services.keys.revoke(key.key_id, client_id=SHOP)
    world.clock.advance(5)
    await world.services.keys.revoke(key.key_id, client_id=SHOP)
    stored = await world.storage.clients.read_key(key.key_id)
    assert stored is not None
    assert stored.revoked_at == NOW


async def test_signing_secrets_overlap(world: ApiHarness) -> None:
    first = await world.services.signing_secrets.create(SHOP)
    world.clock.advance(1)
    second = await world.services.signing_secrets.create(SHOP)
    assert first.text.startswith("whsec_")
    assert len({first.text, second.text}) == 2
    assert list(await world.services.signing_secrets.list(SHOP)) == [first.secret, second.secret]
    await world.services.signing_secrets.delete(SHOP, first.secret.secret_id)
    assert list(await world.services.signing_secrets.list(SHOP)) == [second.secret]
    with pytest.raises(NotFound):
        await world.services.signing_secrets.delete(SHOP, first.secret.secret_id)


async def test_keys_made_at_the_same_time_are_no_more_than_may_be(
    world: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.services.clients.register(SHOP, poller_quota=1, settings=None)
    listed, together, calls = type(world.storage.clients).list_keys, asyncio.Barrier(8), itertools.count()

    async def before_any_is_made(self: Any, client_id: ClientId) -> Any:
        found = await listed(self, client_id)
        if next(calls) < 8:
            await together.wait()
        return found

    monkeypatch.setattr("scheduler_service.usecases.keys.MAX_KEYS", 3)
    monkeypatch.setattr(type(world.storage.clients), "list_keys", before_any_is_made)
    made = await asyncio.gather(*(world.services.keys.create(SHOP) for _ in range(8)), return_exceptions=True)
    good = [key for key in await world.services.keys.of_client(SHOP) if key.revoked_at is None]
    assert {one.key.key_id for one in made if isinstance(one, NewKey)} == {key.key_id for key in good}
    assert len(good) <= 3
    assert all(isinstance(one, NewKey | Conflict) for one in made)
