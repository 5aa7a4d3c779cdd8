"""Keys: making, listing and revoking bearer keys of clients and of administrators.

A key is shown once, when it is made; only a hash of its secret is stored. Several may be valid at the same time, so
that one can be replaced without a gap.

A key that a key makes expires no later than that one: else a key that was lent for a day could make one for ever.

Keys that have ended are listed for a while (`ENDED_KEPT_MS`, `MAX_ENDED`). Making a key deletes some of the
older ones, so that the list, which each such request reads, stays short.
"""

from collections.abc import Sequence
from typing import NamedTuple

from scheduler_service.domain.clients import ApiKey, Scope
from scheduler_service.domain.errors import Conflict, FieldError, Invalid, NotFound
from scheduler_service.domain.ids import DAY_MS, ClientId, UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.ports import ClientStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.authenticate import KEY_PREFIX, Catalog, hash_secret

KEY_ID_BYTES = 8
KEY_SECRET_BYTES = 24
MAX_KEYS = 100
"""Good keys of one client, so that one that makes its own can't fill the storage by mistake."""
ENDED_KEPT_MS = 90 * DAY_MS
"""For how long revoked and expired keys are listed."""
MAX_ENDED = 100
"""As many of them at most, the last ones."""
DELETED_AT_ONCE = 20
"""Ended keys that making a key deletes at most: more than it can add."""


class NewKey(NamedTuple):
    """`text` is the key itself: shown once, never stored."""

    key: ApiKey
    text: str


class Keys:
    """Keys of one owner at a time. The caller checks that a client exists."""

    def __init__(self, *, store: ClientStore, catalog: Catalog, clock: Clock, randomness: Randomness) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._randomness = randomness

    async def create(
        self,
        owner: str,
        *,
        admin: bool = False,
        scope: Scope = Scope.WRITE,
        name: str | None = None,
        expires_at: UnixMillis | None = None,
        makers_expiry: UnixMillis | None = None,
    ) -> NewKey:
        """`owner`: a client_id, or an administrator's name. `makers_expiry`: when the key expires that makes this one;
        so does this one, unless it is to expire earlier. Raises Conflict, Invalid, StoreUnavailable."""
        now = UnixMillis(self._clock.wall_ms())
        expires_at = _expiry(expires_at, makers_expiry, now=now)
        listed = await self.of_administrators() if admin else await self.of_client(ClientId(owner))
        if not admin:
            _check_room(listed, now)
        await self._delete_ended(listed, now)
        key_id = self._randomness.secret_bytes(KEY_ID_BYTES).hex()
        secret = self._randomness.secret_bytes(KEY_SECRET_BYTES).hex()
        key = ApiKey(
            key_id=key_id,
            owner=owner,
            admin=admin,
            secret_hash=hash_secret(secret),
            created_at=now,
            scope=scope,
            name=name,
            expires_at=expires_at,
        )
        await self._store.insert_key(key)
        self._catalog.forget()
        if not admin:
            try:
                # Requests at the same time all found room. The last one to look here sees the keys of all others.
                _check_room([one for one in await self.of_client(ClientId(owner)) if one.key_id != key_id], now)
            except Conflict:
                await self._revoke(key)
                raise
        return NewKey(key, f"{KEY_PREFIX}_{key_id}_{secret}")

    async def _delete_ended(self, listed: Sequence[ApiKey], now: int) -> None:
        """Delete some of the keys that ended long ago, or before many others. Those with a scope of a later version
        count by their ends too."""
        ended = sorted((end, key.key_id, key) for key in listed if (end := _end(key)) is not None and end <= now)
        old = [key for end, _, key in ended if end <= now - ENDED_KEPT_MS]
        beyond = [key for _, _, key in ended[: max(len(ended) - MAX_ENDED, 0)]]
        for key in max(old, beyond, key=len)[:DELETED_AT_ONCE]:
            await self._store.delete_key(key)

    async def of_client(self, client_id: ClientId) -> Sequence[ApiKey]:
        """Revoked ones included, oldest first. Raises StoreUnavailable."""
        return await self._store.list_keys(client_id)

    async def of_administrators(self) -> Sequence[ApiKey]:
        """Revoked ones included, oldest first. Raises StoreUnavailable."""
        return await self._store.list_admin_keys()

    async def revoke(self, key_id: str, *, client_id: ClientId | None) -> ApiKey:
        """Revoke a key of this client (None: of an administrator). Repeatable: it is announced each time. Raises
        NotFound, StoreUnavailable."""
        key = await self._store.read_key(key_id)
        if key is None or key.admin != (client_id is None) or (client_id is not None and key.owner != client_id):
            raise NotFound(f"there is no key {key_id!r}")
        if key.revoked_at is None:
            await self._revoke(key)
        else:
            await self._store.announce()
            self._catalog.forget()
        return key

    async def revoke_all(self, client_id: ClientId) -> None:
        """Raises StoreUnavailable; then some may be left, and a repeat continues."""
        for key in await self.of_client(client_id):
            if key.revoked_at is None:
                await self._revoke(key)

    async def _revoke(self, key: ApiKey) -> None:
        try:
            await self._store.revoke_key(key.key_id, revoked_at=self._clock.wall_ms())
        finally:
            self._catalog.forget()


def _check_room(listed: Sequence[ApiKey], now: int) -> None:
    """Raises Conflict."""
    good = sum(key.good_at(now) for key in listed)
    if good >= MAX_KEYS:
        raise Conflict("too-many-keys", f"the client has {good} good keys: revoke some that are not needed")


def _end(key: ApiKey) -> int | None:
    return min((end for end in (key.revoked_at, key.expires_at) if end is not None), default=None)


def _expiry(asked: UnixMillis | None, makers: UnixMillis | None, *, now: int) -> UnixMillis | None:
    """When a new key expires. Raises Invalid."""
    if asked is not None and asked <= now:
        raise Invalid([FieldError("/expires_at", "must be in the future")])
    if makers is not None and asked is not None and asked > makers:
        detail = f"must be no later than that of the key that makes it, {format_instant(makers)}"
        raise Invalid([FieldError("/expires_at", detail)])
    return makers if asked is None else asked
