"""Sessions of the console: a key is exchanged for a token that only the console takes.

    begin     a key  ->  a token of 256 random bits; its hash is stored, with the id of the key
    each page a token -> the principal of that key, if the session has not ended and the key is good now
    end       the row is deleted

A session may do what its key may, no more and no longer: a key that expires or is revoked ends its sessions within the
five seconds in which it ends itself (`authenticate.Catalog`). The key itself is stored nowhere. No other route of the
API takes tokens.
"""

import hashlib
import hmac
from typing import Final, NamedTuple

from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.ports import SessionStore
from scheduler_service.domain.sessions import SESSION_MS, OfConfiguredKey, OfKey, Session
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.authenticate import Authenticate, Principal

TOKEN_BYTES: Final = 32


class Begun(NamedTuple):
    """`token`: shown to the browser once, never stored."""

    token: str
    principal: Principal
    expires_at: UnixMillis


class Visitor(NamedTuple):
    """Whose session a page is asked for in. `form_token`: what each form of this session has to bring back."""

    principal: Principal
    form_token: str
    expires_at: UnixMillis


class Sessions:
    """Begins, finds and ends sessions."""

    def __init__(
        self, *, store: SessionStore, authenticate: Authenticate, clock: Clock, randomness: Randomness
    ) -> None:
        self._store = store
        self._authenticate = authenticate
        self._clock = clock
        self._randomness = randomness

    async def begin(self, key: str) -> Begun:
        """Raises Unauthenticated, StoreUnavailable."""
        principal = await self._authenticate(f"Bearer {key.strip()}")
        token = self._randomness.secret_bytes(TOKEN_BYTES).hex()
        now = UnixMillis(self._clock.wall_ms())
        expires_at = UnixMillis(min(now + SESSION_MS, principal.expires_at or now + SESSION_MS))
        owner = OfConfiguredKey(self._proof(token)) if principal.key_id is None else OfKey(principal.key_id)
        await self._store.insert_session(Session(_hash(token), owner, now, expires_at))
        return Begun(token, principal, expires_at)

    async def find(self, token: str) -> Visitor | None:
        """None: there is no such session any more. Raises StoreUnavailable."""
        session = await self._store.read_session(_hash(token))
        if session is None or session.expires_at <= self._clock.wall_ms():
            return None
        principal = await self._principal(session.owner, token)
        return None if principal is None else Visitor(principal, _form_token(token), session.expires_at)

    async def end(self, token: str) -> None:
        """Repeatable. Raises StoreUnavailable."""
        await self._store.delete_session(_hash(token))

    async def _principal(self, owner: OfKey | OfConfiguredKey, token: str) -> Principal | None:
        match owner:
            case OfKey(key_id):
                return await self._authenticate.of_key(key_id)
            case OfConfiguredKey(proof):
                return self._authenticate.admin if hmac.compare_digest(proof, self._proof(token)) else None

    def _proof(self, token: str) -> bytes:
        return hmac.digest(self._authenticate.admin_hash, token.encode(), "sha256")


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _form_token(token: str) -> str:
    return hmac.digest(token.encode("utf-8", "surrogateescape"), b"form", "sha256").hex()
