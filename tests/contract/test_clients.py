"""Clients, keys, secrets, and the signal that a client has changed."""

import asyncio

import pytest
from msgspec.structs import replace

from cql.decoding import UndecodableRow
from cql.session import Session
from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.clients import (
    ApiKey,
    Client,
    ClientSettings,
    ClientState,
    HostLimit,
    LatePolicy,
    Scope,
    SigningSecret,
)
from scheduler_service.domain.flows import FlowLimits, FlowRules
from scheduler_service.domain.ids import ClientId, UnixMillis
from tests.contract.conftest import Names
from tests.support.cassandra import hour_ahead, select_text

pytestmark = pytest.mark.asyncio(loop_scope="session")


def client(client_id: ClientId, *, revision: int = 1, quota: int = 2, settings: ClientSettings | None = None) -> Client:
    return Client(
        client_id=client_id,
        poller_quota=quota,
        poller_ceiling=max(quota, 2),
        state=ClientState.ACTIVE,
        settings=settings or ClientSettings(),
        revision=revision,
        created_at=UnixMillis(1_700_000_000_123),
    )


def key(key_id: str, owner: str, *, admin: bool = False, created_at: int = 1) -> ApiKey:
    return ApiKey(key_id=key_id, owner=owner, admin=admin, secret_hash=b"\x00hash", created_at=UnixMillis(created_at))


async def test_a_client_comes_back_whole(storage: Storage, names: Names) -> None:
    settings = ClientSettings(
        timeout_seconds=2.5,
        hosts={"a.example": HostLimit(max_in_flight=3)},
        late_policy=LatePolicy(kind="skip", after_seconds=30),
        in_doubt="drop",
        overdue_per_second=2.5,
    )
    one = client(names.client(), settings=settings)
    assert await storage.clients.read_client(one.client_id) is None
    assert await storage.clients.create_client(one) == APPLIED
    assert await storage.clients.read_client(one.client_id) == one


async def test_a_pause_comes_back_and_clients_from_before_there_were_any_are_not_paused(
    storage: Storage, names: Names
) -> None:
    one = replace(client(names.client()), paused=True)
    assert await storage.clients.create_client(one) == APPLIED
    assert await storage.clients.read_client(one.client_id) == one
    lifted = replace(one, paused=False, revision=2)
    assert await storage.clients.update_client(expected_revision=1, client=lifted) == APPLIED
    assert await storage.clients.read_client(one.client_id) == lifted
    old = client(names.client("-old"))
    values = (old.client_id, 2, 2, "active", "{}", 1, old.created_at, None)
    assert await storage.connection.conditional([("clients.create", values)]) == APPLIED
    assert await storage.clients.read_client(old.client_id) == old


async def test_rules_for_flow_keys_come_back_and_are_stored_only_if_there_are_any(
    storage: Storage, names: Names
) -> None:
    """A program that does not know them can read every client that has none."""
    rules = FlowRules(default=FlowLimits(parallelism=5), prefixes={"größe ": FlowLimits(rate=0.1)})
    ruled = client(names.client("-ruled"), settings=ClientSettings(flows=rules))
    plain = client(names.client("-plain"))
    for one, stored in ((ruled, True), (plain, False)):
        assert await storage.clients.create_client(one) == APPLIED
        assert await storage.clients.read_client(one.client_id) == one
        [values] = await storage.connection.select("clients.read", (one.client_id,))
        assert any(isinstance(value, str) and '"flows"' in value for value in values) is stored


async def test_a_client_is_created_once(storage: Storage, names: Names) -> None:
    one = client(names.client())
    assert await storage.clients.create_client(one) == APPLIED
    assert await storage.clients.create_client(client(one.client_id, quota=9)) == Rejected(one)
    assert await storage.clients.read_client(one.client_id) == one


async def test_a_client_changes_from_the_revision_that_was_read(storage: Storage, names: Names) -> None:
    one, two = client(names.client()), client(names.client(), revision=2, quota=5)
    assert await storage.clients.update_client(expected_revision=1, client=two) == Rejected(None)
    assert await storage.clients.read_client(one.client_id) is None
    await storage.clients.create_client(one)
    assert await storage.clients.update_client(expected_revision=1, client=two) == APPLIED
    assert await storage.clients.update_client(expected_revision=1, client=one) == Rejected(two)
    assert await storage.clients.read_client(one.client_id) == two


async def test_clients_are_listed_by_name(storage: Storage, names: Names) -> None:
    mine = [names.client(suffix) for suffix in ("-c", "-a", "-b")]
    for client_id in mine:
        await storage.clients.create_client(client(client_id))
    listed = [one.client_id for one in await storage.clients.list_clients()]
    assert listed == sorted(listed)
    assert [name for name in listed if name in mine] == sorted(mine)


async def test_an_unreadable_client_hides_no_other(storage: Storage, names: Names) -> None:
    good, bad = names.client("-good"), names.client("-bad")
    await storage.clients.create_client(client(good))
    values = (bad, 1, 1, "active", '{"from": "the future"}', 1, 1, False)
    assert await storage.connection.conditional([("clients.create", values)]) == APPLIED
    listed = [one.client_id for one in await storage.clients.list_clients()]
    assert good in listed
    assert bad not in listed


async def test_all_clients_come_part_by_part_with_their_secrets(storage: Storage, names: Names) -> None:
    mine = [names.client(f"-{number}") for number in range(7)]
    for number, client_id in enumerate(mine):
        state = ClientState.DELETED if number == 3 else ClientState.ACTIVE
        await storage.clients.create_client(replace(client(client_id), state=state))
        for secret in range(number % 3):
            await storage.clients.insert_secret(_secret(client_id, str(secret), created_at=9 - secret))
    await storage.clients.insert_secret(_secret(mine[1], "deleted"))
    await storage.clients.delete_secret(mine[1], "deleted")
    unreadable = names.client("-unreadable")
    values = (unreadable, 1, 1, "active", '{"from": "the future"}', 1, 1, False)
    assert await storage.connection.conditional([("clients.create", values)]) == APPLIED
    for limit in (3, 8, 10_000):
        found, parts, last = [], 0, None
        while parts == 0 or last is not None:
            part = await storage.clients.read_part(last, limit=limit)
            assert len(part.clients) <= limit
            found += [(one, list(part.secrets.get(one.client_id, ()))) for one in part.clients]
            parts, last = parts + 1, part.last
        assert (parts == 1) is (limit == 10_000)
        assert sorted(one.client_id for one, _ in found) == [
            one.client_id for one in await storage.clients.list_clients()
        ], "each once, deleted ones too"
        for one, secrets in found:
            assert secrets == await storage.clients.list_secrets(one.client_id)


async def test_a_client_in_a_state_of_a_later_version_hides_no_other(storage: Storage, names: Names) -> None:
    good, bad = names.client("-good"), names.client("-bad")
    await storage.clients.create_client(client(good))
    values = (bad, 1, 1, "asleep", "{}", 1, 1, False)
    assert await storage.connection.conditional([("clients.create", values)]) == APPLIED
    listed = [one.client_id for one in await storage.clients.list_clients()]
    assert (good in listed, bad in listed) == (True, False)
    with pytest.raises(UndecodableRow):
        await storage.clients.read_client(bad)


async def test_a_key_with_a_scope_of_a_later_version_has_no_rights(storage: Storage, names: Names) -> None:
    owner = names.client()
    await storage.clients.insert_key(key(owner + "-known", owner))
    values = (owner + "-later", owner, False, b"hash", 2, "own", None, None)
    await storage.connection.write("api_keys.index", (owner, owner + "-later"))
    await storage.connection.write("api_keys.insert", values)
    known, later = await storage.clients.list_keys(owner)
    assert (known.good_at(5), later.good_at(5)) == (True, False)
    assert (later.key_id, later.rightless) == (owner + "-later", True)


@pytest.mark.parametrize("admin", [False, True])
async def test_a_deleted_key_is_gone(storage: Storage, names: Names, admin: bool) -> None:
    owner, clients = names.client(), storage.clients
    for name in ("a", "b"):
        await clients.insert_key(key(f"{owner}-{name}", owner, admin=admin))
    one = await clients.read_key(f"{owner}-a")
    assert one is not None
    for _ in range(2):
        await clients.delete_key(one)
        await clients.note_key_use(one.key_id, used_at=7)
        assert await clients.read_key(one.key_id) is None
    listed = await (clients.list_admin_keys() if admin else clients.list_keys(owner))
    assert [found.key_id for found in listed if found.owner == owner] == [f"{owner}-b"]


async def test_an_announcement_moves_the_revision(storage: Storage) -> None:
    before = await storage.clients.catalog_revision()
    await storage.clients.announce()
    assert await storage.clients.catalog_revision() > before


async def test_the_overdue_rate_of_all_clients(storage: Storage) -> None:
    """The last one set stays; taking away what is not there changes nothing."""
    for rate in (None, 0.1, 250.5, None, None):
        await storage.clients.set_overdue_rate(rate)
        assert await storage.clients.read_overdue_rate() == rate


async def test_the_last_overdue_rate_holds_whatever_clocks_say(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = storage.connection
    for rate in (500.0, None):
        with monkeypatch.context() as ahead:
            if isinstance(driver, Session):
                ahead.setattr(driver._cluster, "timestamp_generator", hour_ahead)
            await storage.clients.set_overdue_rate(5.0)
        await storage.clients.set_overdue_rate(rate)
        assert await storage.clients.read_overdue_rate() == rate


async def test_of_overdue_rates_set_at_once_one_holds(storage: Storage) -> None:
    rates = [1.0, 2.0, 3.0]
    await asyncio.gather(*map(storage.clients.set_overdue_rate, rates))
    assert await storage.clients.read_overdue_rate() in rates
    await storage.clients.set_overdue_rate(None)


async def test_the_revision_changes_with_every_change(storage: Storage, names: Names) -> None:
    one = names.client()
    seen = [await storage.clients.catalog_revision()]

    async def note() -> None:
        seen.append(await storage.clients.catalog_revision())

    await storage.clients.create_client(client(one))
    await note()
    await storage.clients.update_client(expected_revision=1, client=client(one, revision=2))
    await note()
    await storage.clients.insert_key(key(one + "-k", one))
    await note()
    await storage.clients.revoke_key(one + "-k", revoked_at=5)
    await note()
    await storage.clients.insert_secret(_secret(one, "s"))
    await note()
    await storage.clients.delete_secret(one, "s")
    await note()
    await storage.clients.set_overdue_rate(5.0)
    await note()
    assert len(set(seen)) == 8
    assert await storage.clients.catalog_revision() == seen[-1]


async def test_keys(storage: Storage, names: Names) -> None:
    owner = names.client()
    old, new = key(owner + "-1", owner, created_at=5), key(owner + "-0", owner, created_at=9)
    assert await storage.clients.read_key(old.key_id) is None
    for one in (new, old, old):
        await storage.clients.insert_key(one)
    assert await storage.clients.read_key(old.key_id) == old
    assert await storage.clients.list_keys(owner) == [old, new]
    await storage.clients.revoke_key(old.key_id, revoked_at=77)
    revoked = await storage.clients.read_key(old.key_id)
    assert revoked is not None
    assert revoked.revoked_at == 77
    assert await storage.clients.list_keys(owner) == [revoked, new]
    assert await storage.clients.list_keys(names.client("-other")) == []


async def test_a_key_comes_back_whole(storage: Storage, names: Names) -> None:
    owner = names.client()
    for scope in Scope:
        one = replace(
            key(f"{owner}-{scope}", owner), scope=scope, name="für den Laden", expires_at=UnixMillis(1_800_000_000_123)
        )
        await storage.clients.insert_key(one)
        assert await storage.clients.read_key(one.key_id) == one


async def test_a_key_from_before_there_were_scopes_may_write(storage: Storage, names: Names) -> None:
    owner = names.client()
    values = (owner + "-k", owner, False, b"\x00hash", 1, None, None, None)
    await storage.connection.write("api_keys.insert", values)
    assert await storage.clients.read_key(owner + "-k") == key(owner + "-k", owner)
    assert key(owner + "-k", owner).scope is Scope.WRITE


async def test_a_use_of_a_key_is_recorded_and_not_announced(storage: Storage, names: Names) -> None:
    one = key(names.client() + "-k", names.client())
    await storage.clients.insert_key(one)
    for used_at in (5, 5, 9):
        await storage.clients.note_key_use(one.key_id, used_at=used_at)
        assert await storage.clients.read_key(one.key_id) == replace(one, last_used_at=UnixMillis(used_at))
    await storage.clients.note_key_use(one.key_id + "-none", used_at=7)
    assert await storage.clients.read_key(one.key_id + "-none") is None


async def test_a_revoked_key_stays_revoked_when_its_insert_is_repeated(storage: Storage, names: Names) -> None:
    one = key(names.client() + "-k", names.client())
    await storage.clients.insert_key(one)
    await storage.clients.revoke_key(one.key_id, revoked_at=77)
    await storage.clients.insert_key(one)
    stored = await storage.clients.read_key(one.key_id)
    assert stored is not None
    assert stored.revoked_at == 77


async def test_revoking_an_unknown_key_makes_none(storage: Storage, names: Names) -> None:
    await storage.clients.revoke_key(names.client() + "-none", revoked_at=7)
    assert await storage.clients.read_key(names.client() + "-none") is None


async def test_administrators_keys_are_listed_together_and_apart_from_a_client_of_that_name(
    storage: Storage, names: Names
) -> None:
    name = names.client()
    mine = [key(name + "-1", name, admin=True, created_at=1), key(name + "-2", name, admin=True, created_at=2)]
    other = key(name + "-3", names.client("-else"), admin=True, created_at=3)
    of_a_client = key(name + "-4", name, created_at=4)
    for one in (*mine, other, of_a_client):
        await storage.clients.insert_key(one)
    assert await storage.clients.list_keys(name) == [of_a_client]
    every = await storage.clients.list_admin_keys()
    assert [one for one in every if one.key_id.startswith(name)] == [*mine, other]


async def test_secrets(storage: Storage, names: Names) -> None:
    owner = names.client()
    first = _secret(owner, "z", created_at=1)
    second = SigningSecret(
        client_id=owner,
        secret_id="a",
        secret=b"",
        encryption_key_id="ring-1",
        created_at=UnixMillis(2),
        expires_at=UnixMillis(3),
        public_key=bytes(range(32)),
    )
    assert await storage.clients.list_secrets(owner) == []
    for one in (second, first):
        await storage.clients.insert_secret(one)
    assert await storage.clients.list_secrets(owner) == [first, second]
    for _ in range(2):
        await storage.clients.delete_secret(owner, "z")
        assert await storage.clients.list_secrets(owner) == [second]
    rows = await storage.connection.select("signing_secrets.list", (owner,))
    assert [row[2] for row in rows if row[1] == "z"] == [b""], "the secret itself is gone"
    await storage.clients.delete_secret(owner, "never-was")
    assert await storage.clients.list_secrets(owner) == [second]


async def test_a_secret_is_deleted_that_a_process_with_a_clock_ahead_made(
    storage: Storage, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, driver = names.client(), storage.connection
    with monkeypatch.context() as ahead:
        if isinstance(driver, Session):
            ahead.setattr(driver._cluster, "timestamp_generator", hour_ahead)
        await storage.clients.insert_secret(_secret(owner, "s"))
    await storage.clients.delete_secret(owner, "s")
    [row] = await storage.connection.select("signing_secrets.list", (owner,))
    assert (row[1], row[2]) == ("s", b""), "it is gone itself, and does not come back without its mark"


async def test_what_is_stored_of_a_secret_is_replaced_once(storage: Storage, names: Names) -> None:
    owner = names.client()
    clear = replace(_secret(owner, "s"), public_key=b"\xfe" * 32)
    await storage.clients.insert_secret(clear)
    revision = await storage.clients.catalog_revision()
    sealed = replace(clear, secret=b"\x01sealed", encryption_key_id="ring-1")
    renewed = replace(clear, secret=b"\x01renewed", encryption_key_id="ring-2")
    assert await storage.clients.reseal_secret(sealed, stored=clear.secret) == APPLIED
    assert await storage.clients.list_secrets(owner) == [sealed]
    assert await storage.clients.reseal_secret(renewed, stored=clear.secret) == Rejected(None), "somebody was faster"
    assert await storage.clients.reseal_secret(renewed, stored=sealed.secret) == APPLIED
    assert await storage.clients.list_secrets(owner) == [renewed]
    assert await storage.clients.catalog_revision() == revision, "it opens to the same: nobody has to look"


async def test_a_deleted_secret_is_not_brought_back_by_replacing_it(storage: Storage, names: Names) -> None:
    owner = names.client()
    clear = _secret(owner, "s")
    await storage.clients.insert_secret(clear)
    await storage.clients.delete_secret(owner, "s")
    sealed = replace(clear, secret=b"\x01sealed", encryption_key_id="ring-1")
    assert await storage.clients.reseal_secret(sealed, stored=clear.secret) == Rejected(None)
    assert await storage.clients.reseal_secret(replace(sealed, secret_id="none"), stored=b"x") == Rejected(None)
    assert await storage.clients.list_secrets(owner) == []
    rows = await storage.connection.select("signing_secrets.list", (owner,))
    assert [row[2] for row in rows if row[1] == "s"] == [b""]


def _secret(owner: ClientId, secret_id: str, *, created_at: int = 1) -> SigningSecret:
    return SigningSecret(
        client_id=owner,
        secret_id=secret_id,
        secret=bytes(range(32)),
        encryption_key_id=None,
        created_at=UnixMillis(created_at),
    )


@pytest.mark.cassandra
async def test_nothing_of_a_deleted_secret_stays_for_long(real_storage: Storage, names: Names) -> None:
    owner, clients, session = names.client(), real_storage.clients, real_storage.connection
    assert isinstance(session, Session)
    await clients.insert_secret(replace(_secret(owner, "s"), encryption_key_id="ring-1", public_key=bytes(32)))
    await clients.delete_secret(owner, "s")
    text = (
        "SELECT secret, encryption_key_id, created_at, expires_at, public_key, ttl(secret), ttl(deleted) "
        "FROM signing_secrets WHERE client_id = %s"
    )
    ((secret, *values, of_secret, of_mark),) = await select_text(session, text, (owner,))
    assert (secret, values) == (b"", [None] * 4)
    assert all(0 < left <= 86_400 for left in (of_secret, of_mark))
