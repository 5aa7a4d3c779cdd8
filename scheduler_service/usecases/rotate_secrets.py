"""Rotate secrets: encrypt every signing secret under the ring's first key.

Client by client, each write on its own; a run that was cut short is made good by the next one, and what is encrypted
under the first key already is left alone. Secrets of deleted clients and expired ones count too, so that afterwards no
row needs another key. What a secret opens to stays the same, so nobody has to be told.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from membership.conditional import Applied
from membership.errors import MinutehandError
from scheduler_service.domain.clients import SigningSecret
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ports import ClientStore, SecretBox


class NoKeyRing(MinutehandError):
    """There is no key to encrypt under."""


@dataclass(slots=True, kw_only=True)
class Rotation:
    """What was found and done. `current` were under the first key already; `encrypted` are under it now, or would be
    after a run that changes things; `unsettled` were changed by somebody else meanwhile, or got no answer."""

    key_id: str
    clients: int = 0
    current: int = 0
    encrypted: int = 0
    unsettled: int = 0
    locked: list[str] = field(default_factory=list)
    """A sentence for each secret that could not be opened."""

    @property
    def complete(self) -> bool:
        return not self.locked and not self.unsettled


class RotateSecrets:
    """See the module."""

    def __init__(self, *, store: ClientStore, box: SecretBox) -> None:
        self._store = store
        self._box = box

    async def run(self, *, dry: bool, on_progress: Callable[[int, int], None]) -> Rotation:
        """`on_progress` hears of clients done and of all. Raises NoKeyRing, StoreUnavailable."""
        primary = self._box.primary
        if primary is None:
            raise NoKeyRing("there is no key ring: name its file with secrets.key_ring_file")
        done = Rotation(key_id=primary)
        clients = await self._store.list_clients()
        for number, client in enumerate(clients, start=1):
            for secret in await self._store.list_secrets(client.client_id):
                await self._rotate(secret, done, dry=dry)
            done.clients = number
            on_progress(number, len(clients))
        return done

    async def _rotate(self, secret: SigningSecret, done: Rotation, *, dry: bool) -> None:
        try:
            clear = self._box.open(secret)
        except SecretLocked as error:
            done.locked.append(str(error))
            return
        if secret.encryption_key_id == done.key_id:
            done.current += 1
        elif dry or isinstance(await self._store.reseal_secret(self._box.seal(clear), stored=secret.secret), Applied):
            done.encrypted += 1
        else:
            done.unsettled += 1
