"""Who is calling, by the header `Authorization: Bearer KEY`.

Keys look like `mh_<key id>_<secret>`. The secret has 192 random bits, so its plain SHA-256 is stored. It is compared in
constant time, and an unknown key id costs the same work as a known one. The configured administrator's key is any text
of the operator's choice. Keys are cached (see `Catalog`): a revoked one is refused everywhere within five seconds, and
at once by the process that revoked it. An expired one is refused at its instant by this process's wall clock.
"""

import asyncio
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.client_bounds import UNBOUND, ClientBounds
from scheduler_service.domain.clients import ApiKey, Client, ClientState, Scope
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.ports import ClientStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.file_secrets import accepts, words
from scheduler_service.usecases.key_uses import RecordKeyUses

KEY_PREFIX: Final = "mh"
_ID: Final = re.compile("[0-9a-f]{16}")
CONFIGURED_ADMIN: Final = "configured"
"""The name under which the configured key acts."""

_NOBODYS: Final = bytes(hashlib.sha256().digest_size)
"""The hash that an unknown key is compared with; no known secret has it."""

CHECK_AFTER_SECONDS = 1.0
MAX_STALENESS_SECONDS = 4.0
"""Together with the time of one read, a change is seen everywhere within five seconds."""
MAX_ENTRY_SECONDS = 60.0
MAX_CACHED = 100_000
"""Entries of each kind. Unknown keys count too, so that guesses can't fill the memory. A full generation is dropped."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Entry(Generic[T]):
    value: T
    expires: float


@dataclass(slots=True)
class _Generation:
    revision: int
    mark: object = field(default_factory=object)
    """Identifies the generation in `Known` without keeping it alive."""
    clients: dict[ClientId, _Entry[Client]] = field(default_factory=dict)
    keys: dict[str, _Entry[ApiKey | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """A key and its client from the generation of this `mark`, until it `expires`."""

    key: ApiKey
    client: Client
    mark: object
    expires: float


class Catalog:
    """Clients and keys as this process knows them: cached, and never older than `MAX_STALENESS_SECONDS`.

    Every change of a client, key or secret is followed by a bump of the catalog's revision. This cache compares the
    revision now and then, and drops everything when it has moved:

        younger than CHECK_AFTER_SECONDS    served from memory
        older                               one caller compares the revision; others are served from memory meanwhile
        older than MAX_STALENESS_SECONDS    all callers wait for that comparison; without storage: StoreUnavailable

    An entry that was read during a change can't outlive it: it goes into the generation that was current when its read
    began. If a writer dies between its change and its bump, the age limit of entries takes effect instead. There is no
    background task: an idle process reads nothing.

    All times are monotonic seconds. Clients have the settings that are in force within `bounds`.
    """

    def __init__(self, *, store: ClientStore, clock: Clock, bounds: ClientBounds = UNBOUND) -> None:
        self._store = store
        self._bounds = bounds
        self._clock = clock
        self._generation: _Generation | None = None
        self._checked = 0.0
        self._checking = asyncio.Lock()

    def known(self, key_id: str) -> Known | None:
        """A stored key and its client, if both are cached."""
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

    def has_feed(self, client_id: ClientId) -> bool:
        """Whether a client's setting `event_feed` is on; False while that is not known."""
        generation, _ = self._served()
        entry = None if generation is None else generation.clients.get(client_id)
        return entry is not None and entry.value.settings.event_feed

    async def client(self, client_id: ClientId) -> Client:
        """A client that is not deleted. Raises NotFound, StoreUnavailable."""
        generation, now = await self._current()
        entry = generation.clients.get(client_id)
        if entry is None or now >= entry.expires:
            entry = _Entry(await self.reread(client_id), now + MAX_ENTRY_SECONDS)
            if len(generation.clients) >= MAX_CACHED:
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
            if len(generation.keys) >= MAX_CACHED:
                generation.keys.clear()
            generation.keys[key_id] = entry
        return entry.value

    async def mark(self) -> object:
        """Identifies what is known now: another one after each change of a client, key, secret or destination. Raises
        StoreUnavailable."""
        generation, _ = await self._current()
        return generation.mark

    def served_mark(self) -> object | None:
        """The same; None: that has to be looked up."""
        generation, _ = self._served()
        return None if generation is None else generation.mark

    def forget(self) -> None:
        """Drop the cache, so that this process sees its own change at once."""
        self._generation = None

    def _served(self) -> tuple[_Generation | None, float]:
        """The generation to serve from, and the time. None: the revision has to be compared first."""
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
        """Compare revisions, unless another caller did while this one waited for its turn."""
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
        # `forget` may have replaced the generation during the read; entries of the old one must not come back.
        if generation is None or generation is not self._generation or generation.revision != revision:
            generation = self._generation = _Generation(revision)
        self._checked = began
        return generation


class Unauthenticated(MinutehandError):
    """No key, or an invalid one. The message never says which, so that a guess teaches nothing."""


class Forbidden(MinutehandError):
    """The key is valid, but not for this."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts. `client_id` None: an administrator called `name`; else that client, which is `client`, by a key of
    `scope` that `expires_at` ends. `configured`: by the key from the configuration, the only one without a `key_id`."""

    name: str
    client_id: ClientId | None = None
    client: Client | None = None
    configured: bool = False
    key_id: str | None = None
    scope: Scope | None = None
    expires_at: UnixMillis | None = None


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A client that may create, and the header that named it. It has the key in the clear, so only a holder of the
    header may keep it."""

    authorization: str = field(repr=False)
    principal: Principal
    known: Known = field(repr=False)


def hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


class Authenticate:
    """Turns the header into a principal."""

    def __init__(self, *, catalog: Catalog, uses: RecordKeyUses, clock: Clock, admin_key: str) -> None:
        self._catalog = catalog
        self._uses = uses
        self._clock = clock
        self._admin_key = admin_key
        self.admin = Principal(CONFIGURED_ADMIN, configured=True)
        """Who has the configured key."""

    @property
    def admin_hashes(self) -> list[bytes]:
        """Of the configured keys, as they are now: while one replaces another there are two."""
        return [hash_secret(word) for word in words(self._admin_key)]

    def known_client(self, authorization: str | None, before: KnownClient | None) -> KnownClient | None:
        """What `self()` answers, if it is a client whose key may write and everything is cached; None says nothing.
        `before`: an earlier answer, perhaps for the same header. The scope was judged for that one; its expiry is
        judged again."""
        if before is not None and before.authorization == authorization and self._catalog.holds(before.known):
            expires_at = before.known.key.expires_at
            if expires_at is None or self._clock.wall_ms() < expires_at:
                return before
        scheme, _, key = (authorization or "").partition(" ")
        parts = _stored_key(key) if scheme == "Bearer" else None
        known = None if parts is None else self._catalog.known(parts[0])
        if authorization is None or parts is None or known is None or known.key.admin:
            return None
        if not self._is_good(known.key, parts[1]) or not known.key.scope.includes(Scope.WRITE):
            return None
        return KnownClient(authorization, self._principal(known.key, known.client), known)

    async def __call__(self, authorization: str | None) -> Principal:
        """Raises Unauthenticated, StoreUnavailable."""
        if authorization is None:
            raise Unauthenticated("send a key: Authorization: Bearer KEY")
        scheme, _, key = authorization.partition(" ")
        key = key.strip()
        if scheme.lower() != "bearer" or not key:
            raise Unauthenticated("the Authorization header must read: Bearer KEY")
        principal = await self._by_stored_key(key)
        if principal is not None:
            return principal
        if accepts(self._admin_key, key):
            return self.admin
        raise Unauthenticated("this key is not known")

    async def _by_stored_key(self, key: str) -> Principal | None:
        """None: it is no valid stored key, for whatever reason."""
        parts = _stored_key(key)
        if parts is None:
            return None
        key_id, secret = parts
        stored = await self._catalog.key(key_id)
        return await self._of_good_key(stored) if self._is_good(stored, secret) and stored is not None else None

    async def client(self, client_id: ClientId) -> Client:
        """Raises NotFound, StoreUnavailable."""
        return await self._catalog.client(client_id)

    async def of_key(self, key_id: str) -> Principal | None:
        """The principal of a stored key whose secret was checked before; None: it is not good any more. Raises
        StoreUnavailable."""
        stored = await self._catalog.key(key_id)
        good = stored is not None and stored.good_at(self._clock.wall_ms())
        return await self._of_good_key(stored) if good and stored is not None else None

    async def _of_good_key(self, stored: ApiKey) -> Principal | None:
        """None: its client is deleted."""
        if stored.admin:
            return Principal(stored.owner, key_id=stored.key_id)
        try:
            client = await self._catalog.client(ClientId(stored.owner))
        except NotFound:
            return None
        return self._principal(stored, client)

    def _is_good(self, stored: ApiKey | None, secret: str) -> bool:
        """An unknown key takes as long as a known one."""
        expected = _NOBODYS if stored is None else stored.secret_hash
        matches = hmac.compare_digest(expected, hash_secret(secret))
        return matches and stored is not None and stored.good_at(self._clock.wall_ms())

    def _principal(self, key: ApiKey, client: Client) -> Principal:
        self._uses.note(key.key_id)
        return Principal(
            client.client_id,
            client.client_id,
            client,
            key_id=key.key_id,
            scope=key.scope,
            expires_at=key.expires_at,
        )


def key_id_in(key: str) -> str | None:
    """The id in a text that has the form of keys made here, for a log; None: the whole of it may be a secret."""
    parts = _stored_key(key.strip())
    return parts[0] if parts is not None and _ID.fullmatch(parts[0]) is not None else None


def _stored_key(key: str) -> tuple[str, str] | None:
    """Id and secret of a text in the form of a stored key."""
    prefix, _, rest = key.partition("_")
    key_id, _, secret = rest.partition("_")
    if prefix != KEY_PREFIX or not (key_id.isascii() and key_id.isalnum()) or len(key_id) > 64 or not secret:
        return None
    return key_id, secret
