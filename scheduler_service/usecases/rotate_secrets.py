"""Rotate secrets: encrypt every signing secret and the headers of every cron under the ring's first key.

Client by client, each write on its own; a run that was cut short is made good by the next one, and what is encrypted
under the first key already is left alone. Secrets of deleted clients and expired ones count too, so that afterwards
none of them needs another key. What a secret opens to stays the same, so nobody has to be told.

Headers of schedules stay under the key that they were stored under: their rows are inserted plainly and never changed,
and go with their minute. Headers of crons stay in the clear where new ones are (`secrets.encrypt_headers`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from membership.conditional import Applied
from membership.errors import MinutehandError
from scheduler_service.domain.clients import SigningSecret
from scheduler_service.domain.crons.row import Cron
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId, CronId
from scheduler_service.domain.ports import ClientStore, CronStore, SecretBox

PAGE = 100
"""Crons that are read at once."""


class NoKeyRing(MinutehandError):
    """There is no key to encrypt under."""


@dataclass(slots=True, kw_only=True)
class Rotation:
    """What was found and done. `current` were under the first key already; `encrypted` are under it now, or would be
    after a run that changes things; `crons` are crons whose headers are, too; `unsettled` were changed by somebody else
    meanwhile, or got no answer."""

    key_id: str
    clients: int = 0
    current: int = 0
    encrypted: int = 0
    crons: int = 0
    unsettled: int = 0
    locked: list[str] = field(default_factory=list)
    """A sentence for each that could not be opened."""

    @property
    def complete(self) -> bool:
        return not self.locked and not self.unsettled


class RotateSecrets:
    """See the module."""

    def __init__(self, *, store: ClientStore, crons: CronStore, box: SecretBox) -> None:
        self._store = store
        self._crons = crons
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
            await self._rotate_crons(client.client_id, done, dry=dry)
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

    async def _rotate_crons(self, client_id: ClientId, done: Rotation, *, dry: bool) -> None:
        if not self._box.encrypts_headers:
            return
        after: CronId | None = None
        while page := await self._crons.read_page(client_id, after=after, limit=PAGE):
            for cron in page:
                await self._rotate_cron(cron, done, dry=dry)
            after = page[-1].cron_id

    async def _rotate_cron(self, cron: Cron, done: Rotation, *, dry: bool) -> None:
        try:
            clear = self._box.open_headers(cron.client_id, cron.callback.headers)
        except SecretLocked as error:
            done.locked.append(f"{error} (cron {cron.cron_id})")
            return
        sealed = self._box.seal_headers(cron.client_id, clear)
        if sealed == cron.callback.headers:
            return
        resealed = replace(cron, callback=replace(cron.callback, headers=sealed))
        if dry or isinstance(await self._crons.reseal(resealed), Applied):
            done.crons += 1
        else:
            done.unsettled += 1
