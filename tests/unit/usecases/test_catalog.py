import asyncio

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import ApiKey, Client, ClientSettings, ClientState
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.usecases.authenticate import (
    CHECK_AFTER_SECONDS,
    MAX_CACHED,
    MAX_ENTRY_SECONDS,
    MAX_STALENESS_SECONDS,
    Catalog,
)
from tests.support.api import ManualClock

SHOP = ClientId("shop")


def client(state: ClientState = ClientState.ACTIVE, quota: int = 3) -> Client:
    return Client(
        client_id=SHOP,
        poller_quota=quota,
        poller_ceiling=quota,
        state=state,
        settings=ClientSettings(),
        revision=1,
        created_at=UnixMillis(0),
    )


class Store:
    """Counts the catalog's reads; `gate` holds answers back, `lost` gives none."""

    def __init__(self) -> None:
        self.clients = {SHOP: client()}
        self.keys: dict[str, ApiKey] = {}
        self.revision = 0
        self.reads: list[str] = []
        self.lost = False
        self.gate: asyncio.Event | None = None
        self.gated = {"client", "key", "revision"}

    async def _answer(self, what: str) -> None:
        self.reads.append(what)
        if self.gate is not None and what in self.gated:
            await self.gate.wait()
        if self.lost:
            raise StoreUnavailable("no answer")

    async def read_client(self, client_id: ClientId) -> Client | None:
        found = self.clients.get(client_id)
        await self._answer("client")
        return found

    async def read_key(self, key_id: str) -> ApiKey | None:
        await self._answer("key")
        return self.keys.get(key_id)

    async def catalog_revision(self) -> int:
        await self._answer("revision")
        return self.revision


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def catalog(store: Store, clock: ManualClock) -> Catalog:
    return Catalog(store=store, clock=clock)  # type: ignore[arg-type]


async def test_a_client_is_read_once(catalog: Catalog, store: Store) -> None:
    for _ in range(5):
        assert (await catalog.client(SHOP)).poller_quota == 3
    assert store.reads == ["revision", "client"]


async def test_an_unchanged_revision_keeps_everything(catalog: Catalog, store: Store, clock: ManualClock) -> None:
    await catalog.client(SHOP)
    clock.advance(CHECK_AFTER_SECONDS)
    await catalog.client(SHOP)
    assert store.reads == ["revision", "client", "revision"]


async def test_a_change_elsewhere_is_seen_at_the_next_check(catalog: Catalog, store: Store, clock: ManualClock) -> None:
    await catalog.client(SHOP)
    store.clients[SHOP], store.revision = client(quota=9), 1
    assert (await catalog.client(SHOP)).poller_quota == 3
    clock.advance(CHECK_AFTER_SECONDS)
    assert (await catalog.client(SHOP)).poller_quota == 9


async def test_an_unannounced_change_is_seen_in_the_end(catalog: Catalog, store: Store, clock: ManualClock) -> None:
    await catalog.client(SHOP)
    store.clients[SHOP] = client(quota=9)
    clock.advance(MAX_ENTRY_SECONDS)
    assert (await catalog.client(SHOP)).poller_quota == 9


async def test_a_change_of_ones_own_is_seen_at_once(catalog: Catalog, store: Store) -> None:
    await catalog.client(SHOP)
    store.clients[SHOP], store.revision = client(quota=9), 1
    catalog.forget()
    assert (await catalog.client(SHOP)).poller_quota == 9


async def test_what_was_read_before_a_change_is_not_kept_after_it(catalog: Catalog, store: Store) -> None:
    await catalog.key("warm")
    store.gate, store.gated = asyncio.Event(), {"client"}
    reading = asyncio.ensure_future(catalog.client(SHOP))
    await asyncio.sleep(0)
    assert store.reads[-1] == "client"
    store.clients[SHOP], store.revision = client(quota=9), 1
    catalog.forget()
    await catalog.key("a new generation begins")
    store.gate.set()
    assert (await reading).poller_quota == 3
    assert (await catalog.client(SHOP)).poller_quota == 9


async def test_a_short_loss_of_storage_is_bridged(catalog: Catalog, store: Store, clock: ManualClock) -> None:
    await catalog.client(SHOP)
    store.lost = True
    clock.advance(MAX_STALENESS_SECONDS - 0.1)
    assert (await catalog.client(SHOP)).poller_quota == 3


async def test_nothing_is_served_that_may_be_too_old(catalog: Catalog, store: Store, clock: ManualClock) -> None:
    await catalog.client(SHOP)
    store.lost = True
    clock.advance(MAX_STALENESS_SECONDS)
    with pytest.raises(StoreUnavailable):
        await catalog.client(SHOP)
    store.lost = False
    assert (await catalog.client(SHOP)).poller_quota == 3


async def test_others_do_not_wait_for_a_check_under_way(catalog: Catalog, store: Store, clock: ManualClock) -> None:
    await catalog.client(SHOP)
    clock.advance(CHECK_AFTER_SECONDS)
    store.gate = asyncio.Event()
    checking = asyncio.ensure_future(catalog.client(SHOP))
    await asyncio.sleep(0)
    assert (await catalog.client(SHOP)).poller_quota == 3
    assert store.reads.count("revision") == 2
    store.gate.set()
    await checking


async def test_concurrent_reads_share_one_check_of_the_revision(
    catalog: Catalog, store: Store, clock: ManualClock
) -> None:
    await catalog.client(SHOP)
    clock.advance(MAX_STALENESS_SECONDS)
    await asyncio.gather(*(catalog.client(SHOP) for _ in range(20)))
    assert store.reads.count("revision") == 2


async def test_a_deleted_client_is_not_there(catalog: Catalog, store: Store) -> None:
    store.clients[SHOP] = client(ClientState.DELETED)
    with pytest.raises(NotFound):
        await catalog.client(SHOP)


async def test_a_client_that_is_not_there_is_asked_for_again(catalog: Catalog, store: Store) -> None:
    del store.clients[SHOP]
    with pytest.raises(NotFound):
        await catalog.client(SHOP)
    store.clients[SHOP] = client()
    assert (await catalog.client(SHOP)).poller_quota == 3


async def test_guessing_a_key_reads_once(catalog: Catalog, store: Store) -> None:
    for _ in range(5):
        assert await catalog.key("guess") is None
    assert store.reads.count("key") == 1


async def test_guesses_do_not_fill_the_memory(catalog: Catalog, store: Store) -> None:
    await catalog.key("first")
    assert catalog._generation is not None
    catalog._generation.keys.update({f"k{n}": catalog._generation.keys["first"] for n in range(MAX_CACHED)})
    await catalog.key("one-more")
    assert len(catalog._generation.keys) == 1
