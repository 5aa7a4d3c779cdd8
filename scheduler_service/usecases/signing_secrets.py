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
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from scheduler_service.domain.clients import SignatureScheme, SigningSecret
from scheduler_service.domain.errors import Conflict, NotFound
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


class NewSecret(NamedTuple):
    """`text` is what its receivers verify by: the secret, or the public key of the pair."""

    secret: SigningSecret
    text: str


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
        secrets = await self._store.list_secrets(client_id)
        if len(secrets) >= MAX_SECRETS:
            raise Conflict("too-many-secrets", f"the client has {MAX_SECRETS} signing secrets: delete one first")
        pairs = sum(secret.scheme is SignatureScheme.V1A for secret in secrets)
        if scheme is SignatureScheme.V1A and pairs >= MAX_KEY_PAIRS:
            raise Conflict("too-many-secrets", f"the client has {pairs} key pairs (v1a): delete one first")
        return await self._create(client_id, scheme)

    async def create_first(self, client_id: ClientId) -> NewSecret:
        """The secret of a client that is being registered. Raises StoreUnavailable."""
        return await self._create(client_id, SignatureScheme.V1)

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


def public_key_text(public_key: bytes) -> str:
    """A public key as receivers get it."""
    return PUBLIC_KEY_PREFIX + base64.b64encode(public_key).decode()
