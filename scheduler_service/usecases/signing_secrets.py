"""Signing secrets: what a client's callbacks are signed with (Standard Webhooks).

The first is made with the client, others beside it; each is shown once, when made. Every active one signs, so that a
secret is replaced without a gap: make the new one, give it to the receivers, delete the old one. Stored as
`secret_encryption` seals them.

    v1     a secret that both sides know, `whsec_…`: who can check a call could also sign one
    v1a    the private key of a pair, which is never shown; receivers check by the public key, `whpk_…`

A v1a signature costs a node 26 µs more per attempt (`poller_cluster.delivery.headers.sign`), a tenth of a call; so a
client may have few pairs, enough for a rotation.
"""

import base64
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import SignatureScheme, SigningSecret
from scheduler_service.domain.errors import Conflict, NotFound, SecretLocked
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.ports import ClientStore, SecretEncryption
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness

SECRET_PREFIX = "whsec_"
PUBLIC_KEY_PREFIX = "whpk_"
SECRET_BYTES = 32
"""Also the length of an Ed25519 private key, which is as random."""
ID_BYTES = 8
MAX_SECRETS = 10
"""Active secrets of one client: every one of them signs every call."""
MAX_KEY_PAIRS = 2
"""Active key pairs among them."""
ABANDONED_MS = 60_000
"""A request that registers a client and made its secret longer ago has ended."""


class NewSecret(NamedTuple):
    """`text` is what its receivers verify by: the secret, or the public key of the pair."""

    secret: SigningSecret
    text: str


class ActiveSecrets(NamedTuple):
    """What signs a client's calls: raw secrets, oldest first, and the private keys of pairs."""

    secrets: tuple[bytes, ...] = ()
    private_keys: tuple[bytes, ...] = ()


def active_secrets(stored: Sequence[SigningSecret], *, encryption: SecretEncryption, now: int) -> ActiveSecrets:
    """Raises SecretLocked where one of those that are active can't be decrypted, or is damaged: a call that lacks a
    signature must not be sent."""
    of: dict[SignatureScheme, list[bytes]] = {scheme: [] for scheme in SignatureScheme}
    for secret in stored:
        if secret.active_at(now):
            raw = encryption.open(secret).secret
            if not raw or (secret.scheme is SignatureScheme.V1A and len(raw) != SECRET_BYTES):
                detail = f"signing secret {secret.secret_id!r} of client {secret.client_id!r} is damaged in storage"
                raise SecretLocked(detail, key_id=secret.encryption_key_id or "")
            of[secret.scheme].append(raw)
    return ActiveSecrets(tuple(of[SignatureScheme.V1]), tuple(of[SignatureScheme.V1A]))


class SigningSecrets:
    """Secrets of one client at a time. The caller checks that the client exists."""

    def __init__(
        self, *, store: ClientStore, encryption: SecretEncryption, clock: Clock, randomness: Randomness
    ) -> None:
        self._store = store
        self._encryption = encryption
        self._clock = clock
        self._randomness = randomness

    async def create(self, client_id: ClientId, scheme: SignatureScheme = SignatureScheme.V1) -> NewSecret:
        """Raises Conflict, StoreUnavailable."""
        _check_room(await self._store.list_secrets(client_id), scheme)
        new = await self._create(client_id, scheme)
        # Requests at the same time all found room. The last one to look here sees those of all others.
        listed = await self._store.list_secrets(client_id)
        others = [one for one in listed if one.secret_id != new.secret.secret_id]
        try:
            _check_room(others, scheme)
        except Conflict:
            await self._store.delete_secret(client_id, new.secret.secret_id)
            raise
        return new

    async def create_first(self, client_id: ClientId) -> NewSecret:
        """The secret of a client that is being registered. Requests that failed to register it may have left theirs:
        where they are many, those of requests that have ended are deleted first. Raises StoreUnavailable."""
        left = await self._store.list_secrets(client_id)
        if len(left) >= MAX_SECRETS:
            ended = [one for one in left if one.created_at < self._clock.wall_ms() - ABANDONED_MS]
            if not ended:
                raise StoreUnavailable("many requests to register this client have not ended yet; repeat in a minute")
            for one in ended:
                await self._store.delete_secret(client_id, one.secret_id)
        return await self._create(client_id, SignatureScheme.V1)

    async def keep_only(self, client_id: ClientId, first: NewSecret) -> None:
        """Delete what other requests made that did not register the client. What storage does not delete stays an
        active secret that was shown to nobody."""
        with suppress(StoreUnavailable):
            for one in await self._store.list_secrets(client_id):
                if one.secret_id != first.secret.secret_id:
                    await self._store.delete_secret(client_id, one.secret_id)

    async def _create(self, client_id: ClientId, scheme: SignatureScheme) -> NewSecret:
        raw = self._randomness.secret_bytes(SECRET_BYTES)
        public_key, text = None, SECRET_PREFIX + base64.b64encode(raw).decode()
        if scheme is SignatureScheme.V1A:
            public_key = Ed25519PrivateKey.from_private_bytes(raw).public_key().public_bytes_raw()
            text = public_key_text(public_key)
        clear = SigningSecret(
            client_id=client_id,
            secret_id=self._randomness.secret_bytes(ID_BYTES).hex(),
            secret=raw,
            encryption_key_id=None,
            created_at=UnixMillis(self._clock.wall_ms()),
            public_key=public_key,
        )
        sealed = self._encryption.seal(clear)
        await self._store.insert_secret(sealed)
        return NewSecret(sealed, text)

    async def list(self, client_id: ClientId) -> Sequence[SigningSecret]:
        """As they are stored, oldest first. Raises StoreUnavailable."""
        return await self._store.list_secrets(client_id)

    async def delete(self, client_id: ClientId, secret_id: str) -> None:
        """Raises NotFound, even where an earlier call deleted it, but announces the deletion once more before that;
        raises StoreUnavailable."""
        if all(secret.secret_id != secret_id for secret in await self._store.list_secrets(client_id)):
            await self._store.announce()
            raise NotFound(f"there is no signing secret {secret_id!r}")
        await self._store.delete_secret(client_id, secret_id)


def _check_room(secrets: Sequence[SigningSecret], scheme: SignatureScheme) -> None:
    """Raises Conflict."""
    if len(secrets) >= MAX_SECRETS:
        raise Conflict("too-many-secrets", f"the client has {MAX_SECRETS} signing secrets: delete one first")
    pairs = sum(secret.scheme is SignatureScheme.V1A for secret in secrets)
    if scheme is SignatureScheme.V1A and pairs >= MAX_KEY_PAIRS:
        raise Conflict("too-many-secrets", f"the client has {pairs} key pairs (v1a): delete one first")


def public_key_text(public_key: bytes) -> str:
    """A public key as receivers get it."""
    return PUBLIC_KEY_PREFIX + base64.b64encode(public_key).decode()
