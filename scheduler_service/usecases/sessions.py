"""Sessions of the console: a key is exchanged for a token that only the console takes.

    begin     a key, or a person of the OpenID provider -> a token of 256 random bits; its hash is stored, with the
              id of the key, or who the person is
    each page a token -> the principal of that key or person, if the session has not ended and they are good now
    end       the row is deleted, or those of all sessions of the same key or person

A session may do what its key may, no more and no longer: a key that expires or is revoked ends its sessions within the
five seconds in which it ends itself (`authenticate.Catalog`). The key itself is stored nowhere. No other route of the
API takes tokens.
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, NamedTuple

from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.ports import SessionStore
from scheduler_service.domain.sessions import (
    NO_RIGHTS,
    SESSION_MS,
    OfConfiguredKey,
    OfKey,
    OfOidc,
    Owner,
    Rights,
    Session,
)
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.authenticate import Authenticate, Forbidden, Principal, hash_secret

TOKEN_BYTES: Final = 32
Check = Callable[[Principal], None]


class Begun(NamedTuple):
    """`token`: shown to the browser once, never stored."""

    token: str
    principal: Principal
    expires_at: UnixMillis


class Visitor(NamedTuple):
    """Whose session a page is asked for in. `form_token`: what each form of this session has to bring back."""

    principal: Principal
    form_token: str


class Sessions:
    """Begins, finds and ends sessions. `rights`: those of people whom an OpenID provider knows."""

    def __init__(
        self,
        *,
        store: SessionStore,
        authenticate: Authenticate,
        clock: Clock,
        randomness: Randomness,
        rights: Rights = NO_RIGHTS,
    ) -> None:
        self._store = store
        self._authenticate = authenticate
        self._clock = clock
        self._randomness = randomness
        self._rights = rights

    async def begin(self, key: str, *, before: Check = lambda _: None) -> Begun:
        """`before`: may refuse by what it raises. Raises Unauthenticated, StoreUnavailable."""
        key = key.strip()
        principal = await self._authenticate(f"Bearer {key}")
        token = self._new_token()
        owner = (
            OfConfiguredKey(_proof(token, hash_secret(key))) if principal.key_id is None else OfKey(principal.key_id)
        )
        before(principal)
        return await self._begin(token, owner, principal)

    async def begin_for(self, person: OfOidc, *, before: Check = lambda _: None) -> Begun:
        """`person`: as a checked token of the provider names them. `before`: as above. Raises Forbidden for one without
        rights, StoreUnavailable."""
        principal = await self._of_person(person)
        if principal is None:
            raise Forbidden("no right of this installation is yours: ask an operator")
        before(principal)
        return await self._begin(self._new_token(), person, principal)

    async def _begin(self, token: str, owner: Owner, principal: Principal) -> Begun:
        now = UnixMillis(self._clock.wall_ms())
        expires_at = UnixMillis(min(now + SESSION_MS, principal.expires_at or now + SESSION_MS))
        await self._store.insert_session(Session(_hash(token), owner, now, expires_at))
        return Begun(token, principal, expires_at)

    def _new_token(self) -> str:
        return self._randomness.secret_bytes(TOKEN_BYTES).hex()

    async def find(self, token: str) -> Visitor | None:
        """None: there is no such session any more. Raises StoreUnavailable."""
        session = await self._store.read_session(_hash(token))
        if session is None or session.expires_at <= self._clock.wall_ms():
            return None
        principal = await self._principal(session.owner, token)
        return None if principal is None else Visitor(principal, _form_token(token))

    async def end(self, token: str) -> None:
        """Repeatable. Raises StoreUnavailable."""
        await self._store.delete_session(_hash(token))

    async def end_all(self, token: str) -> int:
        """End this session and all others that were begun with the same key, or by the same person. Returns how many
        there were. Repeatable. Raises StoreUnavailable."""
        mine = await self._store.read_session(_hash(token))
        if mine is None:
            return 0
        same = [one for one in await self._store.list_sessions() if _identity(one.owner) == _identity(mine.owner)]
        # The own one comes last, so that a repeat goes on where an earlier request failed.
        for one in (*(one for one in same if one != mine), mine):
            await self._store.delete_session(one.token_hash)
        return len(same)

    async def _principal(self, owner: Owner, token: str) -> Principal | None:
        match owner:
            case OfKey(key_id):
                return await self._authenticate.of_key(key_id)
            case OfConfiguredKey(proof):
                good = (_proof(token, one) for one in self._authenticate.admin_hashes)
                return self._authenticate.admin if any(hmac.compare_digest(proof, one) for one in good) else None
            case OfOidc():
                return await self._of_person(owner)

    async def _of_person(self, person: OfOidc) -> Principal | None:
        """None: the configuration gives them no right any more, or their client is deleted."""
        right, name = self._rights.of(person), f"oidc:{person.subject}"
        if right is None or right.client_id is None:
            return None if right is None else Principal(name)
        try:
            client = await self._authenticate.client(right.client_id)
        except NotFound:
            return None
        return Principal(name, client.client_id, client, scope=right.scope)


def _proof(token: str, key_hash: bytes) -> bytes:
    return hmac.digest(key_hash, token.encode("utf-8", "surrogateescape"), "sha256")


def _identity(owner: Owner) -> tuple[str, ...]:
    match owner:
        case OfKey(key_id):
            return ("key", key_id)
        case OfConfiguredKey():
            return ("configured",)
        case OfOidc(issuer, subject):
            return ("oidc", issuer, subject)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _form_token(token: str) -> str:
    return hmac.digest(token.encode("utf-8", "surrogateescape"), b"form", "sha256").hex()
