"""Who is calling, told from an `Authorization: Bearer KEY` header.

Keys look like `mh_<key id>_<secret>`. The secret has 192 random bits, so a plain SHA-256 of it is what is stored; it is
compared in constant time, and an unknown key id costs the same work as a known one. The configured administrator's key
is any text of the operator's choice. Keys are cached (see `catalog`): a revoked one is refused everywhere within five
seconds, by the process that revoked it at once.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from membership.errors import MinutehandError
from scheduler_service.domain.clients import ApiKey, Client
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.usecases.catalog import Catalog, Known

KEY_PREFIX: Final = "mh"
CONFIGURED_ADMIN: Final = "configured"
"""The name under which the configured key acts."""

_NOBODYS: Final = bytes(hashlib.sha256().digest_size)
"""No secret is known that has this hash."""


class Unauthenticated(MinutehandError):
    """No key, or not one that counts. Never says which, so that a guess teaches nothing."""


class Forbidden(MinutehandError):
    """The key is good, but not for this."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who acts. `client_id` None: an administrator called `name`; else that client, which is `client`. `configured`: by
    the key from configuration, which alone has no `key_id`."""

    name: str
    client_id: ClientId | None = None
    client: Client | None = None
    configured: bool = False
    key_id: str | None = None


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A client as it was told from a header. Holds the key in the clear: for who holds the header as well."""

    authorization: str = field(repr=False)
    principal: Principal
    known: Known = field(repr=False)


def hash_secret(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


class Authenticate:
    """Turns the header into a principal."""

    def __init__(self, *, catalog: Catalog, admin_key: str) -> None:
        self._catalog = catalog
        self._admin_hash = hash_secret(admin_key)
        self._admin = Principal(CONFIGURED_ADMIN, configured=True)

    def known_client(self, authorization: str | None, before: KnownClient | None) -> KnownClient | None:
        """Whom `self()` answers, if it is a client and that takes no look into storage. None says nothing. `before`:
        what was answered before, perhaps to the same header."""
        if before is not None and before.authorization == authorization and self._catalog.holds(before.known):
            return before
        scheme, _, key = (authorization or "").partition(" ")
        parts = _stored_key(key) if scheme == "Bearer" else None
        known = None if parts is None else self._catalog.known(parts[0])
        if authorization is None or parts is None or known is None or known.key.admin:
            return None
        if not _is_good(known.key, parts[1]):
            return None
        client = known.client
        return KnownClient(authorization, Principal(client.client_id, client.client_id, client, key_id=parts[0]), known)

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
        if hmac.compare_digest(hash_secret(key), self._admin_hash):
            return self._admin
        raise Unauthenticated("this key is not known")

    async def _by_stored_key(self, key: str) -> Principal | None:
        """None: it is no good stored key, whatever the reason."""
        parts = _stored_key(key)
        if parts is None:
            return None
        key_id, secret = parts
        stored = await self._catalog.key(key_id)
        if not _is_good(stored, secret) or stored is None:
            return None
        if stored.admin:
            return Principal(stored.owner, key_id=key_id)
        try:
            client = await self._catalog.client(ClientId(stored.owner))
        except NotFound:
            return None
        return Principal(stored.owner, client.client_id, client, key_id=key_id)


def _stored_key(key: str) -> tuple[str, str] | None:
    """Id and secret of what looks like a stored key."""
    prefix, _, rest = key.partition("_")
    key_id, _, secret = rest.partition("_")
    if prefix != KEY_PREFIX or not (key_id.isascii() and key_id.isalnum()) or len(key_id) > 64 or not secret:
        return None
    return key_id, secret


def _is_good(stored: ApiKey | None, secret: str) -> bool:
    """An unknown key takes as long as a known one."""
    expected = _NOBODYS if stored is None else stored.secret_hash
    return hmac.compare_digest(expected, hash_secret(secret)) and stored is not None and stored.revoked_at is None
