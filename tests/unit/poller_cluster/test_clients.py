"""How a node keeps its copy of the clients: what it reads, how often, and how old it may get."""

from collections import Counter
from collections.abc import Mapping

import msgspec
import pytest

from cql.connection import Parameters
from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.errors import StoreUnavailable
from poller_cluster import clients as clients
from poller_cluster import destinations
from poller_cluster.clients import CATALOG_SECONDS, ServedClient, ServedClients
from poller_cluster.destinations import ServedDestination
from scheduler_service.domain.clients import Client, ClientSettings, ClientState, SigningSecret
from scheduler_service.domain.destinations import Destination, StoredDestination, encode_destination
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.usecases.secret_encryption import NoEncryption
from tests.support.api import ManualClock

PART = 20
SHOP = ClientId("shop")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "PART_CLIENTS", PART)


class CountingConnection(InMemoryConnection):
    """Counts reads by statement. Those named in `away` get no answer."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()
        self.away: set[str] = set()

    async def select(self, name: str, parameters: Parameters, **how: object) -> list[tuple[object, ...]]:
        self.reads[name] += 1
        if name in self.away:
            raise StoreUnavailable("away")
        return await super().select(name, parameters, **how)  # type: ignore[arg-type]


class Fractions:
    """Randomness of which only this is used."""

    def __init__(self, fraction: float) -> None:
        self._fraction = fraction

    def fraction(self) -> float:
        return self._fraction


class Bench:
    def __init__(self, *, fraction: float = 0.5) -> None:
        self.connection = CountingConnection()
        storage = Storage.over(self.connection)
        self.store, self.destinations = storage.clients, storage.destinations
        self.clock = ManualClock()
        self.changes = 0
        self.confirmed: list[ClientId] = []
        self.clients = ServedClients(
            store=self.store,
            destinations=self.destinations,
            encryption=NoEncryption(),
            clock=self.clock,
            randomness=Fractions(fraction),  # type: ignore[arg-type]
            on_change=self.changed,
            on_confirmed=self.confirmed.append,
        )

    def changed(self) -> None:
        self.changes += 1

    async def add(self, count: int) -> None:
        for number in range(count):
            await self.store.create_client(named(f"client-{number}"))

    async def silently(self, change: Client) -> None:
        """Make a change that is not announced."""
        values = (1, 1, change.state.value, "{}", 2, 1, change.paused, change.client_id, 1)
        await self.connection.conditional([("clients.update", values)])

    async def seconds(self, count: int) -> None:
        for _ in range(count):
            self.clock.advance(1.0)
            await self.clients.refresh()


def named(name: str, state: ClientState = ClientState.ACTIVE) -> Client:
    return Client(
        client_id=ClientId(name),
        poller_quota=1,
        poller_ceiling=1,
        state=state,
        settings=ClientSettings(),
        revision=1,
        created_at=UnixMillis(1),
    )


async def test_all_clients_are_read_in_parts_and_again_evenly_over_a_round() -> None:
    bench = Bench()
    await bench.add(4 * PART + 1)
    assert await bench.clients.refresh()
    assert len(bench.clients.all()) == 4 * PART + 1
    assert bench.connection.reads == {
        "catalog.read": 1,
        "clients.part": 5,
        "signing_secrets.part": 5,
        "destinations.part": 5,
        "subscriptions.part": 5,
        "cluster_rates.read": 1,
    }
    for _ in range(3):
        bench.connection.reads.clear()
        for _ in range(int(CATALOG_SECONDS)):
            before = bench.connection.reads["clients.part"]
            await bench.seconds(1)
            assert bench.connection.reads["clients.part"] <= before + 1, "never two of five parts in one second"
        assert bench.connection.reads["clients.part"] == bench.connection.reads["signing_secrets.part"] == 5
    assert bench.changes == 1, "there was nothing new"


async def test_parts_of_deleted_clients_count_too() -> None:
    bench = Bench()
    await bench.add(2 * PART)
    for number in range(2 * PART):
        await bench.silently(named(f"client-{number}", ClientState.DELETED))
    await bench.clients.refresh()
    bench.connection.reads.clear()
    await bench.seconds(int(CATALOG_SECONDS))
    assert bench.connection.reads["clients.part"] == 3
    assert not bench.clients.all()


@pytest.mark.parametrize("fraction", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("clients", [1, PART, 2 * PART + 1])
async def test_unannounced_changes_are_known_after_a_round(fraction: float, clients: int) -> None:
    bench = Bench(fraction=fraction)
    await bench.add(clients)
    await bench.clients.refresh()
    await bench.seconds(7)
    for number in range(clients):
        await bench.silently(named(f"client-{number}", ClientState.SUSPENDED))
    await bench.connection.write("signing_secrets.insert", ("client-0", "s", b"raw", None, 1, None, None))
    await bench.seconds(int(CATALOG_SECONDS) + 1)
    assert not any(client.active for client in bench.clients.all())
    first = bench.clients.get(ClientId("client-0"))
    assert first is not None
    assert first.secrets == (b"raw",)


@pytest.mark.parametrize(("state", "paused"), [(state, paused) for state in ClientState for paused in (False, True)])
async def test_only_a_client_that_is_not_held_is_active(state: ClientState, paused: bool) -> None:
    record = msgspec.structs.replace(named("shop", state), paused=paused)
    served = ServedClient(record, record.settings, ())
    assert served.active is (state is ClientState.ACTIVE and not paused)


async def test_nodes_begin_their_rounds_at_different_instants() -> None:
    begun = []
    for fraction in (0.1, 0.4, 0.9):
        bench = Bench(fraction=fraction)
        await bench.add(1)
        await bench.clients.refresh()
        bench.connection.reads.clear()
        while not bench.connection.reads["clients.part"]:
            await bench.seconds(1)
        begun.append(bench.clock.monotonic())
    assert len(set(begun)) == 3


async def test_an_unanswered_part_is_read_again_at_once() -> None:
    bench = Bench()
    await bench.add(3 * PART - 1)
    await bench.clients.refresh()
    await bench.silently(named("client-7", ClientState.SUSPENDED))
    bench.connection.away = {"clients.part"}
    await bench.seconds(600)
    bench.connection.away.clear()
    bench.connection.reads.clear()
    await bench.seconds(1)
    assert 3 <= bench.connection.reads["clients.part"] <= 4
    seven = bench.clients.get(ClientId("client-7"))
    assert seven is not None
    assert not seven.active


async def test_a_walk_that_breaks_off_shows_what_it_saw_and_is_repeated() -> None:
    bench = Bench()
    await bench.add(1)
    assert await bench.clients.refresh()
    await bench.store.create_client(named("another"))
    bench.connection.away = {"signing_secrets.part"}
    assert not await bench.clients.refresh()
    bench.connection.away.clear()
    assert await bench.clients.refresh()
    assert bench.clients.get(ClientId("another")) is not None
    assert bench.changes == 2


async def test_a_key_pair_signs_beside_the_secrets_while_it_is_active() -> None:
    bench = Bench()
    await bench.add(1)
    owner = ClientId("client-0")
    now = bench.clock.wall_ms()

    def secret(secret_id: str, value: bytes, **of: object) -> SigningSecret:
        given = {"created_at": UnixMillis(now), "encryption_key_id": None, **of}
        return SigningSecret(client_id=owner, secret_id=secret_id, secret=value, **given)  # type: ignore[arg-type]

    await bench.store.insert_secret(secret("a", b"shared"))
    await bench.seconds(1)
    await bench.store.insert_secret(secret("b", b"p" * 32, public_key=b"public"))
    await bench.store.insert_secret(secret("c", b"e" * 32, public_key=b"public", expires_at=now))
    changes = bench.changes
    await bench.seconds(1)
    served = bench.clients.get(owner)
    assert served is not None
    assert (served.secrets, served.private_keys, bench.changes) == ((b"shared",), (b"p" * 32,), changes + 1)
    await bench.store.delete_secret(owner, "b")
    await bench.seconds(1)
    served = bench.clients.get(owner)
    assert served is not None
    assert (served.secrets, served.private_keys) == ((b"shared",), ())


@pytest.mark.parametrize("damaged", [b"", b"short"])
async def test_a_client_whose_key_pair_is_damaged_is_locked(damaged: bytes) -> None:
    """Its calls are held; otherwise they would be sent unsigned, or fail because of our fault."""
    bench = Bench()
    await bench.add(1)
    values = ("client-0", "b", damaged, None, bench.clock.wall_ms(), None, b"public")
    await bench.connection.write("signing_secrets.insert", values)
    await bench.store.announce()
    await bench.seconds(1)
    served = bench.clients.get(ClientId("client-0"))
    assert served is not None
    assert served.locked == "signing secret 'b' of client 'client-0' is damaged in storage"


class StoredDestinations:
    """A client's destinations as stored, and the client that has them."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.revisions: dict[str, int] = {}

    async def put(self, name: str, *, url: str = "https://a.example/", paused_at: int | None = None) -> None:
        before = self.revisions.get(name)
        self.revisions[name] = (before or 0) + 1
        stored = StoredDestination(
            client_id=SHOP,
            name=name,
            document=encode_destination(Destination(url=url, headers=(("x-secret", "s3cr3t"),))),
            revision=self.revisions[name],
            created_at=UnixMillis(1),
            changed_at=UnixMillis(1),
            paused_at=None if paused_at is None else UnixMillis(paused_at),
        )
        await self.bench.destinations.put_destination(stored, expected_revision=before)

    @property
    def served(self) -> Mapping[str, ServedDestination]:
        client = self.bench.clients.get(SHOP)
        assert client is not None
        return client.destinations


async def with_destinations() -> tuple[Bench, StoredDestinations]:
    bench = Bench()
    await bench.store.create_client(named("shop"))
    stored = StoredDestinations(bench)
    await stored.put("crm")
    await stored.put("mail")
    await bench.clients.refresh()
    return bench, stored


async def test_a_change_of_a_destination_is_known_with_the_next_refresh() -> None:
    bench, stored = await with_destinations()
    before = stored.served
    assert set(before) == {"crm", "mail"}
    await stored.put("crm", url="https://b.example/", paused_at=7)
    await bench.seconds(1)
    after = stored.served
    assert (after["crm"].url, after["crm"].paused_at, after["mail"].url) == (
        "https://b.example/",
        7,
        "https://a.example/",
    )
    assert bench.changes == 2
    await bench.destinations.delete_destination(SHOP, "mail", expected_revision=1)
    await bench.seconds(1)
    assert set(stored.served) == {"crm"}


async def test_an_unchanged_destination_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    decode = destinations.decode_destination
    monkeypatch.setattr(destinations, "decode_destination", lambda text: opened.append(text) or decode(text))
    bench, stored = await with_destinations()
    assert len(opened) == 2
    await stored.put("crm", url="https://b.example/")
    await bench.seconds(2 * int(CATALOG_SECONDS))
    assert len(opened) == 3


async def test_a_changed_client_keeps_its_destinations_under_its_new_settings() -> None:
    bench, stored = await with_destinations()
    known = bench.clients.get(SHOP)
    assert known is not None
    changed = msgspec.structs.replace(known.record, settings=ClientSettings(timeout_seconds=3.0), revision=2)
    await bench.store.update_client(expected_revision=1, client=changed)
    await bench.seconds(1)
    assert {one.settings.timeout_seconds for one in stored.served.values()} == {3.0}


async def test_a_destination_that_cannot_be_read_is_locked_alone() -> None:
    bench, stored = await with_destinations()
    damaged = StoredDestination(
        client_id=SHOP, name="odd", document="{}", revision=1, created_at=UnixMillis(1), changed_at=UnixMillis(1)
    )
    await bench.destinations.put_destination(damaged, expected_revision=None)
    await bench.seconds(1)
    assert (stored.served["odd"].locked is None, stored.served["crm"].locked) == (False, None)
    client = bench.clients.get(SHOP)
    assert client is not None
    assert client.active
    assert bench.clients.locked == 1


async def test_a_destination_is_surely_unknown_only_after_it_was_looked_for() -> None:
    bench, _ = await with_destinations()
    since = bench.clock.monotonic()
    assert not bench.clients.surely_without(SHOP, since=since)
    assert not bench.clients.surely_without(SHOP, since=since), "nothing was read yet"
    bench.connection.reads.clear()
    await bench.seconds(1)
    assert bench.connection.reads["destinations.list"] == 1
    assert bench.confirmed == [SHOP]
    assert bench.clients.surely_without(SHOP, since=since)
    assert not bench.clients.surely_without(SHOP, since=bench.clock.monotonic() + 1)


async def test_looking_for_a_destination_finds_one_whose_change_was_not_announced() -> None:
    bench, stored = await with_destinations()
    await stored.put("new")
    # As if the increment of the revision had been lost.
    bench.clients._revision = (await bench.store.catalog_revision(), 0)
    bench.clients.surely_without(SHOP, since=bench.clock.monotonic())
    await bench.seconds(1)
    assert "new" in stored.served


async def test_nothing_secret_of_a_destination_is_in_a_representation() -> None:
    _, stored = await with_destinations()
    assert "s3cr3t" not in repr(stored.served)


async def test_nothing_is_current_until_a_refresh_that_began_after_the_recheck_has_ended() -> None:
    bench = Bench()
    await bench.add(1)
    assert bench.clients.current
    bench.clients.recheck()
    assert not bench.clients.current
    bench.connection.away.add("catalog.read")
    assert not await bench.clients.refresh()
    assert not bench.clients.current
    bench.connection.away.clear()
    assert await bench.clients.refresh()
    assert bench.clients.current


async def test_a_refresh_that_was_under_way_does_not_count_as_a_recheck() -> None:
    bench = Bench()
    read = bench.store.catalog_revision

    async def cut_off_meanwhile() -> int:
        revision = await read()
        bench.clock.advance(1.0)
        bench.clients.recheck()
        return revision

    bench.store.catalog_revision = cut_off_meanwhile  # type: ignore[method-assign]
    assert await bench.clients.refresh()
    assert not bench.clients.current
    bench.store.catalog_revision = read  # type: ignore[method-assign]
    assert await bench.clients.refresh()
    assert bench.clients.current


async def test_a_catalogue_that_cannot_be_read_holds_calls_for_a_while_only() -> None:
    bench = Bench()
    bench.connection.away.add("catalog.read")
    bench.clients.recheck()
    await bench.seconds(int(clients.RECHECK_SECONDS) - 1)
    assert not bench.clients.current
    await bench.seconds(1)
    assert bench.clients.current
