"""Signing secrets: what a client's callbacks are signed with (Standard Webhooks, `whsec_…`).

The first is made with the client, others beside it; each is shown once, when made. Every active one signs, so that a
secret is replaced without a gap: make the new one, give it to the receivers, delete the old one. Stored as
`secret_encryption` seals them.
"""

import base64
from collections.abc import Sequence
from typing import NamedTuple

from scheduler_service.domain.clients import SigningSecret
from scheduler_service.domain.errors import Conflict, NotFound
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.ports import ClientStore, SecretEncryption
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 32
ID_BYTES = 8
MAX_SECRETS = 10
"""Active secrets of one client: every one of them signs every call."""


class NewSecret(NamedTuple):
    """`text` is the secret as its receivers need it."""

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

    async def create(self, client_id: ClientId) -> NewSecret:
        """Raises Conflict, StoreUnavailable."""
        if len(await self._store.list_secrets(client_id)) >= MAX_SECRETS:
            raise Conflict("too-many-secrets", f"the client has {MAX_SECRETS} signing secrets: delete one first")
        return await self.create_first(client_id)

    async def create_first(self, client_id: ClientId) -> NewSecret:
        """The secret of a client that is being registered. Raises StoreUnavailable."""
        raw = self._randomness.secret_bytes(SECRET_BYTES)
        clear = SigningSecret(
            client_id=client_id,
            secret_id=self._randomness.secret_bytes(ID_BYTES).hex(),
            secret=raw,
            encryption_key_id=None,
            created_at=UnixMillis(self._clock.wall_ms()),
        )
        sealed = self._encryption.seal(clear)
        await self._store.insert_secret(sealed)
        return NewSecret(sealed, SECRET_PREFIX + base64.b64encode(raw).decode())

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
