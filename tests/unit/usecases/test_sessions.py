"""A session may do what its key may, no more and no longer."""

import pytest

from scheduler_service.domain.clients import Scope
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.sessions import SESSION_MS, OfOidc, Rights
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.authenticate import Authenticate, Principal, Unauthenticated
from scheduler_service.usecases.sessions import Sessions
from tests.support.api import ADMIN_KEY, NOW, ApiHarness, SeededRandomness

SHOP = ClientId("shop")
NOTICED_SECONDS = 6
"""After which every process knows that a key was revoked."""


async def key_of(world: ApiHarness, *, scope: Scope = Scope.WRITE, expires_at: int | None = None) -> str:
    await world.services.clients.register(SHOP, poller_quota=1, settings=None)
    end = None if expires_at is None else UnixMillis(expires_at)
    return (await world.services.keys.create(SHOP, scope=scope, expires_at=end)).text


def another_process(world: ApiHarness, *, admin_key: str) -> Sessions:
    """Over the same store, with another configured key perhaps."""
    services = world.services
    return Sessions(
        store=world.storage.sessions,
        authenticate=Authenticate(
            catalog=services.catalog, uses=services.key_uses, clock=world.clock, admin_key=admin_key
        ),
        clock=world.clock,
        randomness=SystemRandomness(),
    )


async def test_a_session_lasts_as_long_as_the_configured_key_that_began_it(world: ApiHarness) -> None:
    """While one key replaces another, both are good, in whatever order."""
    old, new = "the-old-configured-key", "the-new-configured-key"
    begun = {
        key: await another_process(world, admin_key=configured).begin(key)
        for key, configured in ((old, f"{new} {old}"), (new, f"{old} {new}"))
    }
    for configured in (old, new, f"{old} {new}", f"{new} {old}"):
        process = another_process(world, admin_key=configured)
        for key, one in begun.items():
            assert (await process.find(one.token) is not None) == (key in configured), (key, configured)


@pytest.mark.parametrize("scope", list(Scope))
async def test_a_session_acts_as_its_key_does(world: ApiHarness, scope: Scope) -> None:
    key = await key_of(world, scope=scope)
    begun = await world.services.sessions.begin(f"  {key}\n")
    visitor = await world.services.sessions.find(begun.token)
    assert visitor is not None
    assert visitor.principal == begun.principal == await world.services.authenticate(f"Bearer {key}")
    assert (visitor.principal.client_id, visitor.principal.scope) == (SHOP, scope)


async def test_an_administrators_session_is_an_administrators(world: ApiHarness) -> None:
    named = await world.services.keys.create("ops", admin=True)
    for key, principal in (
        (ADMIN_KEY, Principal("configured", configured=True)),
        (named.text, Principal("ops", key_id=named.key.key_id)),
    ):
        begun = await world.services.sessions.begin(key)
        visitor = await world.services.sessions.find(begun.token)
        assert visitor is not None
        assert visitor.principal == principal


@pytest.mark.parametrize("key", ["", " ", "nonsense", "mh_0_0", ADMIN_KEY + "x", "\udcff", "é", "Bearer " + ADMIN_KEY])
async def test_without_a_good_key_no_session_begins(world: ApiHarness, key: str) -> None:
    with pytest.raises(Unauthenticated):
        await world.services.sessions.begin(key)
    assert world.connection.rows("console_sessions") == []


async def test_what_is_stored_opens_nothing(world: ApiHarness) -> None:
    key = await key_of(world)
    secrets = [ADMIN_KEY, key, key.split("_")[2]]
    for one in (ADMIN_KEY, key):
        begun = await world.services.sessions.begin(one)
        visitor = await world.services.sessions.find(begun.token)
        assert visitor is not None
        secrets += [begun.token, visitor.form_token]
    rows = world.connection.rows("console_sessions")
    assert len(rows) == 2
    for secret in secrets:
        assert secret not in str(rows)
    for row in rows:
        for guess in (row["token_hash"].hex(), row["token_hash"].decode("latin-1"), row["owner"]):
            assert await world.services.sessions.find(guess) is None


async def test_tokens_are_long_and_no_two_are_alike(world: ApiHarness) -> None:
    begun = [await world.services.sessions.begin(ADMIN_KEY) for _ in range(10)]
    found = [await world.services.sessions.find(one.token) for one in begun]
    tokens = {one.token for one in begun} | {one.form_token for one in found if one is not None}
    assert len(tokens) == 20
    assert all(len(one) == 64 for one in tokens)


@pytest.mark.parametrize("token", ["", "x", "0" * 64, "\udcff", "é" * 100, "0" * 100_000])
async def test_a_guessed_token_finds_nothing(world: ApiHarness, token: str) -> None:
    await world.services.sessions.begin(ADMIN_KEY)
    assert await world.services.sessions.find(token) is None


async def test_a_session_ends_after_a_working_day(world: ApiHarness) -> None:
    begun = await world.services.sessions.begin(ADMIN_KEY)
    assert begun.expires_at == NOW + SESSION_MS
    world.clock.advance(SESSION_MS / 1000 - 0.001)
    assert await world.services.sessions.find(begun.token) is not None
    world.clock.advance(0.001)
    assert await world.services.sessions.find(begun.token) is None


async def test_logging_out_ends_one_session_and_no_other(world: ApiHarness) -> None:
    one, other = [await world.services.sessions.begin(ADMIN_KEY) for _ in range(2)]
    for _ in range(2):
        await world.services.sessions.end(one.token)
        assert await world.services.sessions.find(one.token) is None
    assert await world.services.sessions.find(other.token) is not None


async def test_a_session_ends_with_its_key(world: ApiHarness) -> None:
    key = await key_of(world, expires_at=NOW + 60_000)
    begun = await world.services.sessions.begin(key)
    assert begun.expires_at == NOW + 60_000
    world.clock.advance(59.999)
    assert await world.services.sessions.find(begun.token) is not None
    world.clock.advance(0.001)
    assert await world.services.sessions.find(begun.token) is None


async def test_a_named_administrators_session_ends_with_the_key(world: ApiHarness) -> None:
    end = UnixMillis(NOW + 60_000)
    begun = await world.services.sessions.begin(
        (await world.services.keys.create("ops", admin=True, expires_at=end)).text
    )
    world.clock.advance(60)
    assert await world.services.sessions.find(begun.token) is None


async def test_a_revoked_key_ends_its_sessions_in_all_processes(world: ApiHarness) -> None:
    key = await key_of(world)
    begun = await world.services.sessions.begin(key)
    elsewhere = ApiHarness(stores=world.storage, clock=world.clock).services.sessions
    assert await elsewhere.find(begun.token) is not None
    await world.services.keys.revoke(key.split("_")[1], client_id=SHOP)
    assert await world.services.sessions.find(begun.token) is None
    world.clock.advance(NOTICED_SECONDS)
    assert await elsewhere.find(begun.token) is None


async def test_a_deleted_clients_sessions_end(world: ApiHarness) -> None:
    begun = await world.services.sessions.begin(await key_of(world))
    await world.services.clients.suspend(SHOP)
    assert await world.services.sessions.find(begun.token) is not None
    await world.services.clients.delete(SHOP)
    assert await world.services.sessions.find(begun.token) is None


async def test_all_sessions_of_a_person_are_ended_and_of_no_other(world: ApiHarness) -> None:
    rights = Rights("https://login.example", administrators=("ops",), clients={})
    services = world.services
    sessions = Sessions(
        store=world.storage.sessions,
        authenticate=services.authenticate,
        clock=world.clock,
        randomness=SeededRandomness(2),
        rights=rights,
    )
    people = [OfOidc("https://login.example", name, ("ops",)) for name in ("a", "a", "b")]
    mine, elsewhere, others = [(await sessions.begin_for(one)).token for one in people]
    configured = (await sessions.begin(ADMIN_KEY)).token
    assert await sessions.end_all(mine) == 2
    assert await sessions.end_all(mine) == 0
    found = [await sessions.find(token) is not None for token in (mine, elsewhere, others, configured)]
    assert found == [False, False, True, True]


async def test_another_configured_key_ends_the_sessions_of_the_one_before(world: ApiHarness) -> None:
    begun = await world.services.sessions.begin(ADMIN_KEY)
    assert await another_process(world, admin_key=ADMIN_KEY).find(begun.token) is not None
    assert await another_process(world, admin_key="another").find(begun.token) is None


async def test_an_owner_moved_to_another_row_opens_nothing(world: ApiHarness) -> None:
    """Who can write rows can't turn a client's session into the configured administrator's."""
    admins, clients = (
        await world.services.sessions.begin(ADMIN_KEY),
        await world.services.sessions.begin(await key_of(world)),
    )
    rows = {row["owner"]: row for row in world.connection.rows("console_sessions")}
    (proof,) = (owner for owner in rows if "proof" in owner)
    (mine,) = (row for owner, row in rows.items() if owner != proof)
    await world.connection.write("console_sessions.insert", (mine["token_hash"], proof, NOW, NOW + SESSION_MS, 60))
    assert await world.services.sessions.find(clients.token) is None
    assert await world.services.sessions.find(admins.token) is not None
