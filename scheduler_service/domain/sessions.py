"""Sessions of the console: what a browser holds instead of a key. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler_service.domain.clients import Scope
from scheduler_service.domain.ids import HOUR_MS, ClientId, UnixMillis

SESSION_MS: Final = 8 * HOUR_MS
"""For how long a session lasts: a working day."""


class OfKey(msgspec.Struct, frozen=True, tag="key"):
    """Begun with a stored key: it may do what that key may, as long as that key is good."""

    key_id: str


class OfConfiguredKey(msgspec.Struct, frozen=True, tag="configured"):
    """Begun with the configured administrator's key. `proof`: an HMAC of the session's token under that key's hash, so
    that the session ends when this key is not configured any more."""

    proof: bytes


class OfOidc(msgspec.Struct, frozen=True, tag="oidc"):
    """Begun by a person whom the OpenID provider `issuer` calls `subject`. `values`: those of the configured claim.
    What they permit is judged by the configuration at each page, so that its changes hold for sessions under way."""

    issuer: str
    subject: str
    values: tuple[str, ...]


Owner = OfKey | OfConfiguredKey | OfOidc


class Session(msgspec.Struct, frozen=True):
    """`token_hash`: the SHA-256 of the token, which is in the browser's cookie and nowhere else."""

    token_hash: bytes
    owner: Owner
    created_at: UnixMillis
    expires_at: UnixMillis


class Right(NamedTuple):
    """What a person may do. `client_id` None: everything, as an administrator; else what a key of this scope may."""

    client_id: ClientId | None
    scope: Scope | None


ADMINISTRATOR: Final = Right(None, None)


class Rights:
    """What people of the OpenID provider `issuer` may do, by values of a claim. Administrators' values come first, then
    those of `clients` in their order: the first that a person has decides."""

    def __init__(self, issuer: str | None, *, administrators: Iterable[str], clients: Mapping[str, Right]) -> None:
        self._issuer = issuer
        self._by_value = {**clients, **dict.fromkeys(administrators, ADMINISTRATOR)}

    def of(self, person: OfOidc) -> Right | None:
        """None: the person may do nothing here."""
        if person.issuer != self._issuer:
            return None
        rights = [right for value, right in self._by_value.items() if value in person.values]
        return ADMINISTRATOR if ADMINISTRATOR in rights else next(iter(rights), None)


NO_RIGHTS: Final = Rights(None, administrators=(), clients={})
