"""Rotation of stored secrets, the key ring's file, and clients whose secrets a node cannot decrypt."""

import base64
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.conditional import APPLIED, Answer, Rejected
from poller_cluster.clients import CATALOG_SECONDS, ROWS_LOCKED_SECONDS, UNLOCK_SECONDS, ServedClients
from scheduler_service.domain.clients import Client, ClientSettings, ClientState, SigningSecret
from scheduler_service.domain.destinations import Destination, StoredDestination, encode_destination
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.ports import CatalogPart, SecretEncryption
from scheduler_service.runtime.files import FilesUnusable
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.key_ring import new_key
from scheduler_service.usecases.secret_encryption import (
    KeyRingEncryption,
    NoEncryption,
    NoKeyRing,
    RotateSecrets,
    Rotation,
)
from scheduler_service.usecases.signing_secrets import SigningSecrets
from tests.support.api import ApiHarness, ManualClock

RANDOMNESS = SystemRandomness()
FIRST, SECOND = (new_key(name, randomness=RANDOMNESS) for name in ("first", "second"))
SHOP, BANK = ClientId("shop"), ClientId("bank")


class Bench:
    """Two clients; their secrets are made through the API, with the key ring of a file."""

    def __init__(self, directory: Path) -> None:
        self.ring = directory / "ring"
        self.ring.write_text(FIRST)
        self.encryption = KeyRingEncryption(str(self.ring), randomness=RANDOMNESS)
        self.connection = InMemoryConnection()
        self.storage = Storage.over(self.connection)
        self.store = self.storage.clients
        self.clock = ManualClock()

    async def secret(self, client_id: ClientId, encryption: SecretEncryption) -> bytes:
        """Create a secret; returns its signing key."""
        await self.store.create_client(
            Client(
                client_id=client_id,
                poller_quota=1,
                poller_ceiling=1,
                state=ClientState.ACTIVE,
                settings=ClientSettings(),
                revision=1,
                created_at=UnixMillis(1),
            )
        )
        secrets = SigningSecrets(store=self.store, encryption=encryption, clock=self.clock, randomness=RANDOMNESS)
        return encryption.open((await secrets.create(client_id)).secret).secret

    async def stored(self, client_id: ClientId) -> dict[str, str | None]:
        return {one.secret_id: one.encryption_key_id for one in await self.store.list_secrets(client_id)}

    async def rotate(self, *, dry: bool = False, store: object = None) -> Rotation:
        seen: list[tuple[int, int]] = []
        rotating = RotateSecrets(
            store=store or self.store,  # type: ignore[arg-type]
            crons=self.storage.crons,
            destinations=self.storage.destinations,
            encryption=self.encryption,
        )
        done = await rotating.run(dry=dry, on_progress=lambda at, of: seen.append((at, of)))
        assert seen[-1] == (done.clients, done.clients)
        return done

    def clients(self) -> ServedClients:
        return ServedClients(
            store=self.store,
            destinations=self.storage.destinations,
            encryption=self.encryption,
            clock=self.clock,
            randomness=RANDOMNESS,
            on_change=lambda: None,
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_a_new_secret_is_stored_encrypted_and_shown_in_the_clear(bench: Bench) -> None:
    async with ApiHarness(connection=bench.connection, encryption=bench.encryption) as api:
        await api.register(SHOP)
        reply = await api.send("POST", "/v1/clients/shop/signing-secrets")
    first, second = await bench.store.list_secrets(SHOP)
    stored = first if first.secret_id == reply.json["secret_id"] else second
    clear = bench.encryption.open(stored).secret
    assert stored.encryption_key_id == "first"
    assert clear not in stored.secret
    assert reply.json["secret"] == "whsec_" + base64.b64encode(clear).decode()


async def test_everything_comes_under_the_first_key_and_opens_as_before(bench: Bench) -> None:
    secrets = [await bench.secret(SHOP, NoEncryption()), await bench.secret(SHOP, bench.encryption)]
    other = await bench.secret(BANK, bench.encryption)
    bench.ring.write_text(f"{SECOND}\n{FIRST}")
    before = [await bench.stored(one) for one in (SHOP, BANK)]
    tried = await bench.rotate(dry=True)
    assert (tried.key_id, tried.clients, tried.encrypted, tried.current) == ("second", 2, 3, 0)
    assert [await bench.stored(one) for one in (SHOP, BANK)] == before, "a dry run changes nothing"
    assert (await bench.rotate()).encrypted == 3
    bench.ring.write_text(SECOND)
    opened = [bench.encryption.open(one).secret for one in await bench.store.list_secrets(SHOP)]
    assert sorted(opened) == sorted(secrets)
    assert [bench.encryption.open(one).secret for one in await bench.store.list_secrets(BANK)] == [other]
    again = await bench.rotate()
    assert (again.encrypted, again.current, again.complete) == (0, 3, True)


async def test_a_private_key_is_encrypted_and_rotated_like_a_secret_and_never_shown(bench: Bench) -> None:
    async with ApiHarness(connection=bench.connection, encryption=bench.encryption) as api:
        await api.register(SHOP)
        made = await api.send("POST", "/v1/clients/shop/signing-secrets", json={"scheme": "v1a"})
        listed = await api.send("GET", "/v1/clients/shop/signing-secrets")
        public = await api.send("GET", "/v1/public-keys/shop", key=None)
    bench.ring.write_text(f"{SECOND}\n{FIRST}")
    (before,) = [one for one in await bench.store.list_secrets(SHOP) if one.public_key is not None]
    private = bench.encryption.open(before).secret
    assert private not in before.secret
    assert (await bench.rotate()).encrypted == 2
    (after,) = [one for one in await bench.store.list_secrets(SHOP) if one.public_key is not None]
    assert (after.encryption_key_id, after.public_key) == ("second", before.public_key)
    assert bench.encryption.open(after).secret == private
    for said in (made, listed, public):
        assert base64.b64encode(private) not in said.body
    clients = bench.clients()
    await clients.refresh()
    served = clients.get(SHOP)
    assert served is not None
    assert served.private_keys == (private,)


async def test_what_can_not_be_opened_is_left_alone_and_named(bench: Bench) -> None:
    await bench.secret(SHOP, bench.encryption)
    await bench.secret(BANK, NoEncryption())
    bench.ring.write_text(SECOND)
    before = await bench.store.list_secrets(SHOP)
    done = await bench.rotate()
    assert (done.encrypted, len(done.locked), done.complete) == (1, 1, False)
    assert "under the key first" in done.locked[0]
    assert await bench.store.list_secrets(SHOP) == before


async def test_a_secret_deleted_during_the_rotation_stays_deleted(bench: Bench) -> None:
    await bench.secret(SHOP, bench.encryption)
    bench.ring.write_text(f"{SECOND}\n{FIRST}")
    store = bench.store

    class Deleting:
        list_clients, list_secrets = store.list_clients, store.list_secrets

        async def reseal_secret(self, secret: SigningSecret, *, stored: bytes) -> Answer[None]:
            await store.delete_secret(secret.client_id, secret.secret_id)
            return await store.reseal_secret(secret, stored=stored)

    done = await bench.rotate(store=Deleting())
    assert (done.encrypted, done.unsettled) == (0, 1)
    assert await store.list_secrets(SHOP) == []
    rows = await bench.connection.select("signing_secrets.list", (SHOP,))
    assert [row[2] for row in rows] == [b""]


async def test_destinations_come_under_the_first_key_and_are_the_same(bench: Bench) -> None:
    await bench.secret(SHOP, bench.encryption)
    document = encode_destination(Destination(url="https://shop.example/hook", headers=(("Authorization", "canary"),)))
    stored = StoredDestination(
        client_id=SHOP,
        name="hook",
        document=bench.encryption.seal_destination(SHOP, "hook", document),
        revision=7,
        created_at=UnixMillis(1),
        changed_at=UnixMillis(2),
    )
    clear = replace(stored, name="clear", document=document)
    store = bench.storage.destinations
    for one in (clear, stored):
        assert await store.put_destination(one, expected_revision=None) == APPLIED
    assert "canary" not in stored.document
    announced = await bench.store.catalog_revision()
    bench.ring.write_text(f"{SECOND}\n{FIRST}")
    assert (await bench.rotate(dry=True)).destinations == 2
    assert await store.list_destinations(SHOP) == [clear, stored], "a dry run changes nothing"
    assert (await bench.rotate()).destinations == 2
    bench.ring.write_text(SECOND)
    found = await store.list_destinations(SHOP)
    assert [replace(one, document="") for one in found] == [replace(one, document="") for one in (clear, stored)]
    for one in found:
        assert bench.encryption.open_destination(SHOP, one.name, one.document) == document
    again = await bench.rotate()
    assert (again.destinations, again.complete) == (0, True)
    assert await bench.store.catalog_revision() == announced, "what it opens to is the same: nobody has to look"


async def test_a_destination_that_does_not_open_is_left_alone_and_named(bench: Bench) -> None:
    await bench.secret(SHOP, NoEncryption())
    sealed = bench.encryption.seal_destination(SHOP, "hook", '{"url":"https://shop.example"}')
    stored = StoredDestination(
        client_id=SHOP, name="hook", document=sealed, revision=1, created_at=UnixMillis(1), changed_at=UnixMillis(1)
    )
    await bench.storage.destinations.put_destination(stored, expected_revision=None)
    bench.ring.write_text(SECOND)
    done = await bench.rotate()
    assert (done.destinations, done.complete) == (0, False)
    assert ["under the key first" in one and "(destination hook)" in one for one in done.locked] == [True]
    assert await bench.storage.destinations.list_destinations(SHOP) == [stored]


async def test_without_a_ring_there_is_nothing_to_rotate_to(bench: Bench) -> None:
    with pytest.raises(NoKeyRing, match=r"secrets\.key_ring_file"):
        await RotateSecrets(
            store=bench.store,
            crons=bench.storage.crons,
            destinations=bench.storage.destinations,
            encryption=NoEncryption(),
        ).run(dry=False, on_progress=lambda at, of: None)


async def test_a_file_that_is_no_ring_is_refused_at_the_start_and_does_no_harm_later(bench: Bench) -> None:
    secret = await bench.secret(SHOP, bench.encryption)
    bench.ring.write_text("garbage")
    with pytest.raises(FilesUnusable, match=r"secrets\.key_ring_file names .*ring, which is no key ring: line 1"):
        KeyRingEncryption(str(bench.ring), randomness=RANDOMNESS)
    (stored,) = await bench.store.list_secrets(SHOP)
    with capture_logs() as said:
        assert bench.encryption.open(stored).secret == secret, "the keys that were read before stay in use"
        assert bench.encryption.generation == 0
    assert [line["event"] for line in said] == ["files-refused"]


async def test_a_client_with_a_secret_that_does_not_open_waits_until_it_does(bench: Bench) -> None:
    readable, hidden = await bench.secret(SHOP, NoEncryption()), await bench.secret(SHOP, bench.encryption)
    free = await bench.secret(BANK, NoEncryption())
    bench.ring.write_text(SECOND)
    clients = bench.clients()
    assert await clients.refresh()
    shop, bank = clients.get(SHOP), clients.get(BANK)
    assert shop is not None
    assert bank is not None
    assert (shop.active, shop.secrets) == (False, ()), "not even signed by the one secret that can be read"
    assert shop.locked is not None
    assert "under the key first" in shop.locked
    assert (bank.active, bank.secrets, clients.locked) == (True, (free,), 1)
    bench.ring.write_text(f"{SECOND}\n{FIRST}")
    assert await clients.refresh()
    shop = clients.get(SHOP)
    assert shop is not None
    assert shop.active
    assert sorted(shop.secrets) == sorted((readable, hidden))
    assert clients.locked == 0


async def test_a_locked_client_is_read_again_without_any_signal(bench: Bench) -> None:
    await bench.secret(SHOP, bench.encryption)
    (stored,) = await bench.store.list_secrets(SHOP)
    clear = bench.encryption.open(stored)
    bench.ring.write_text(SECOND)
    clients = bench.clients()
    await clients.refresh()
    assert await bench.store.reseal_secret(bench.encryption.seal(clear), stored=stored.secret) == APPLIED
    assert await bench.store.reseal_secret(stored, stored=stored.secret) == Rejected(None)
    await clients.refresh()
    assert clients.locked == 1
    bench.clock.advance(UNLOCK_SECONDS)
    await clients.refresh()
    assert clients.locked == 0


async def test_a_locked_client_is_logged_once(bench: Bench) -> None:
    await bench.secret(SHOP, bench.encryption)
    bench.ring.write_text(SECOND)
    clients = bench.clients()
    with capture_logs() as said:
        for _ in range(3):
            await clients.refresh()
            bench.clock.advance(UNLOCK_SECONDS)
        bench.ring.write_text(FIRST)
        await clients.refresh()
    assert [(line["event"], line["client_id"]) for line in said if "client_id" in line] == [
        ("client-locked", SHOP),
        ("client-unlocked", SHOP),
    ]


async def test_a_trial_call_is_not_sent_unsigned(bench: Bench) -> None:
    await bench.secret(SHOP, bench.encryption)
    async with ApiHarness(connection=bench.connection, encryption=NoEncryption()) as api:
        request = {"callback": {"url": "https://shop.example/hook"}}
        reply = await api.send("POST", "/v1/clients/shop/callbacks:try", json=request)
        assert (reply.status, reply.json["type"]) == (503, "/problems/secret-locked"), reply.json
        assert "first" not in reply.body.decode(), "keys are the operator's affair"


async def test_rows_that_do_not_open_have_no_client_read_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.secret(SHOP, NoEncryption())
    stored = bench.encryption.seal_headers(SHOP, '[["a","b"]]')
    bench.ring.write_text(SECOND)
    clients = bench.clients()
    await clients.refresh()
    read, reads = type(bench.store).read_part, 0

    async def counted(*asked: Any, **named: Any) -> CatalogPart:
        nonlocal reads
        reads += 1
        return await read(*asked, **named)

    monkeypatch.setattr(type(bench.store), "read_part", counted)
    for _ in range(2 * round(CATALOG_SECONDS)):
        with pytest.raises(SecretLocked):
            clients.open_headers(SHOP, stored)
        bench.clock.advance(1)
        await clients.refresh()
        assert clients.locked == 1
    assert reads == 2, "once a round, as without such rows"


async def test_rows_that_do_not_open_make_their_client_count_as_locked_for_a_while(bench: Bench) -> None:
    await bench.secret(SHOP, NoEncryption())
    clients = bench.clients()
    await clients.refresh()
    stored = bench.encryption.seal_headers(SHOP, '[["a","b"]]')
    bench.ring.write_text(SECOND)
    await clients.refresh()
    with capture_logs() as said:
        for _ in range(3):
            with pytest.raises(SecretLocked):
                clients.open_headers(SHOP, stored)
        shop = clients.get(SHOP)
        assert shop is not None
        assert (shop.active, clients.locked) == (True, 1), "its other calls are made"
        bench.ring.write_text(f"{SECOND}\n{FIRST}")
        assert clients.open_headers(SHOP, stored) == '[["a","b"]]'
        bench.clock.advance(ROWS_LOCKED_SECONDS + 1)
        await clients.refresh()
        assert clients.locked == 0
    assert [(line["event"], line["client_id"]) for line in said if "client_id" in line] == [
        ("client-locked", SHOP),
        ("client-unlocked", SHOP),
    ]
