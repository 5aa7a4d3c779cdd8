"""Clients and keys as this process knows them: cached, and never older than `MAX_STALENESS_SECONDS`.

Whoever changes a client, key or secret bumps the catalog's revision after the change. This cache compares the revision
now and then, and forgets everything when it moved:

    younger than CHECK_AFTER_SECONDS    served from memory
    older                               one caller compares the revision, the others are served from memory meanwhile
    older than MAX_STALENESS_SECONDS    everybody waits for that comparison; without storage: StoreUnavailable

An entry that was read while a change was under way can't outlive it: what is loaded goes into the generation that was
current when its read began. A writer that died between its change and its bump is made up for by the age limit of
entries. There is no background task: a process that serves nobody reads nothing.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from membership.errors import StoreUnavailable
from scheduler_service.domain.client_bounds import UNBOUND, ClientBounds
from scheduler_service.domain.clients import ApiKey, Client, ClientState
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import ClientStore
from scheduler_service.runtime.clock import Clock

CHECK_AFTER_SECONDS = 1.0
MAX_STALENESS_SECONDS = 4.0
"""With the time that one read takes, a change is seen everywhere within five seconds."""
MAX_ENTRY_SECONDS = 60.0
MAX_ENTRIES = 100_000
"""Of each kind; unknown keys count too, so that guesses can't fill the memory. A full generation is dropped."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    value: T
    expires: float


@dataclass(slots=True)
class _Generation:
    revision: int
    mark: object = field(default_factory=object)
    """By which it is told from others, without keeping it."""
    clients: dict[ClientId, _Entry[Client]] = field(default_factory=dict)
    keys: dict[str, _Entry[ApiKey | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """What there was in the generation of this `mark`, until it `expires`."""

    key: ApiKey
    client: Client
    mark: object
    expires: float


class Catalog:
    """Reads clients and keys through a cache. All times are monotonic seconds. Clients have the settings that are in
    force within `bounds`."""

    def __init__(self, *, store: ClientStore, clock: Clock, bounds: ClientBounds = UNBOUND) -> None:
        self._store = store
        self._bounds = bounds
        self._clock = clock
        self._generation: _Generation | None = None
        self._checked = 0.0
        self._checking = asyncio.Lock()

    def known(self, key_id: str) -> Known | None:
        """A stored key and the client that it belongs to, if that takes no look into storage."""
        generation, now = self._served()
        key = None if generation is None else generation.keys.get(key_id)
        if generation is None or key is None or key.value is None:
            return None
        client = generation.clients.get(ClientId(key.value.owner))
        if client is None or now >= min(key.expires, client.expires):
            return None
        return Known(key.value, client.value, generation.mark, min(key.expires, client.expires))

    def holds(self, known: Known) -> bool:
        """Whether `known` would answer the same."""
        generation, now = self._served()
        return generation is not None and generation.mark is known.mark and now < known.expires

    async def client(self, client_id: ClientId) -> Client:
        """A client that is not deleted. Raises NotFound, StoreUnavailable."""
        generation, now = await self._current()
        entry = generation.clients.get(client_id)
        if entry is None or now >= entry.expires:
            entry = _Entry(await self.reread(client_id), now + MAX_ENTRY_SECONDS)
            if len(generation.clients) >= MAX_ENTRIES:
                generation.clients.clear()
            generation.clients[client_id] = entry
        return entry.value

    async def reread(self, client_id: ClientId) -> Client:
        """The client as it is stored now, past the cache. Raises as `client` does."""
        client = await self._store.read_client(client_id)
        if client is None or client.state is ClientState.DELETED:
            raise NotFound(f"there is no client {client_id!r}")
        return self._bounds.in_force(client)

    async def key(self, key_id: str) -> ApiKey | None:
        """A key as stored, revoked or not. Raises StoreUnavailable."""
        generation, now = await self._current()
        entry = generation.keys.get(key_id)
        if entry is None or now >= entry.expires:
            entry = _Entry(await self._store.read_key(key_id), now + MAX_ENTRY_SECONDS)
            if len(generation.keys) >= MAX_ENTRIES:
                generation.keys.clear()
            generation.keys[key_id] = entry
        return entry.value

    def forget(self) -> None:
        """What this process changed itself it sees at once."""
        self._generation = None

    def _served(self) -> tuple[_Generation | None, float]:
        """What is served from memory now, and what time it is. None: it has to be compared first."""
        now = self._clock.monotonic()
        age = now - self._checked
        if age < CHECK_AFTER_SECONDS or (age < MAX_STALENESS_SECONDS and self._checking.locked()):
            return self._generation, now
        return None, now

    async def _current(self) -> tuple[_Generation, float]:
        generation, now = self._served()
        if generation is not None:
            return generation, now
        async with self._checking:
            return await self._check(), now

    async def _check(self) -> _Generation:
        """Compare revisions, unless somebody did while this caller waited for its turn."""
        began = self._clock.monotonic()
        generation = self._generation
        if generation is not None and began - self._checked < CHECK_AFTER_SECONDS:
            return generation
        try:
            revision = await self._store.catalog_revision()
        except StoreUnavailable:
            if generation is not None and began - self._checked < MAX_STALENESS_SECONDS:
                return generation
            raise
        if generation is None or generation is not self._generation or generation.revision != revision:
            generation = self._generation = _Generation(revision)
        self._checked = began
        return generation
