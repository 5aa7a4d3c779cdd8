"""Encryption of signing secrets, headers and destinations at rest, under the key ring as its file has it now."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from membership.conditional import Applied
from membership.errors import MinutehandError
from scheduler_service.domain.clients import SigningSecret
from scheduler_service.domain.crons.row import Cron
from scheduler_service.domain.destinations import StoredDestination
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId, CronId
from scheduler_service.domain.ports import ClientStore, CronStore, DestinationStore, SecretEncryption
from scheduler_service.runtime.files import FilesUnusable, FromFiles, read_text
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.key_ring import SETTING, KeyRing, RingInvalid
from scheduler_service.usecases.sealed_headers import HeaderCipher
from scheduler_service.usecases.sealed_texts import DESTINATIONS, TextCipher

CRONS_A_READ = 100
"""Crons that one read returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretSettings:
    """How signing secrets, destinations and callbacks' headers are stored. APIs and nodes must have the same."""

    key_ring_file: str | None = None
    """File of the keys that secrets are encrypted under, one `ID KEY` a line; the first one encrypts, all decrypt. See
    `minutehand secrets`. It may change while processes run. None: new secrets are stored unencrypted."""
    encrypt_headers: bool = True
    """Whether callbacks' headers are encrypted too, if there is a key ring. False: new ones are stored unencrypted;
    encrypted ones stay readable. Use false while upgrading from programs that can't read encrypted headers: an API
    waits by itself while it sees older nodes, but jobs and `minutehand secrets rotate` do not."""


class NoEncryption:
    """`domain.ports.SecretEncryption` without a ring: new secrets stay in the clear, encrypted ones are locked."""

    primary = None
    encrypts_headers = False
    generation = 0
    _headers = HeaderCipher(KeyRing())
    _destinations = TextCipher(KeyRing(), DESTINATIONS)

    def seal(self, secret: SigningSecret) -> SigningSecret:
        return secret

    def open(self, secret: SigningSecret) -> SigningSecret:
        return KeyRing().open(secret)

    def seal_headers(self, client_id: ClientId, headers: str) -> str:
        return headers

    def open_headers(self, client_id: ClientId, headers: str) -> str:
        return self._headers.open(client_id, headers)

    def seal_destination(self, client_id: ClientId, name: str, document: str) -> str:
        return document

    def open_destination(self, client_id: ClientId, name: str, document: str) -> str:
        return self._destinations.open(client_id, document, name)


class KeyRingEncryption:
    """`domain.ports.SecretEncryption` over a ring's file. While `older_programs` answers True, programs run that can't
    read encrypted headers. Raises FilesUnusable where the file can't be used at the start."""

    def __init__(
        self,
        file: str,
        *,
        randomness: Randomness,
        encrypt_headers: bool = True,
        older_programs: Callable[[], bool] = lambda: False,
    ) -> None:
        self._randomness = randomness
        self._encrypt_headers = encrypt_headers
        self._older_programs = older_programs
        self._keys = FromFiles([file], lambda: _load(file), what="key ring")

    @property
    def generation(self) -> int:
        self._keys.current()
        return self._keys.generation

    @property
    def primary(self) -> str | None:
        return self._keys.current().ring.primary

    @property
    def encrypts_headers(self) -> bool:
        return self._encrypt_headers and self.primary is not None

    def seal(self, secret: SigningSecret) -> SigningSecret:
        return self._keys.current().ring.seal(secret, randomness=self._randomness)

    def open(self, secret: SigningSecret) -> SigningSecret:
        return self._keys.current().ring.open(secret)

    def seal_headers(self, client_id: ClientId, headers: str) -> str:
        if not self._encrypt_headers or self._older_programs():
            return headers
        return self._keys.current().headers.seal(client_id, headers)

    def open_headers(self, client_id: ClientId, headers: str) -> str:
        # The file can't change a cached answer, so it is not read for one: every call on a node comes here.
        known = self._keys.latest.headers.known(client_id, headers)
        return self._keys.current().headers.open(client_id, headers) if known is None else known

    def seal_destination(self, client_id: ClientId, name: str, document: str) -> str:
        return self._keys.current().destinations.seal(client_id, document, name)

    def open_destination(self, client_id: ClientId, name: str, document: str) -> str:
        return self._keys.current().destinations.open(client_id, document, name)


def secret_encryption(
    settings: SecretSettings, *, randomness: Randomness, older_programs: Callable[[], bool] = lambda: False
) -> SecretEncryption:
    """The encryption that the settings ask for; `older_programs` as in `KeyRingEncryption`. Raises FilesUnusable."""
    file = settings.key_ring_file
    if file is None:
        return NoEncryption()
    return KeyRingEncryption(
        file, randomness=randomness, encrypt_headers=settings.encrypt_headers, older_programs=older_programs
    )


class _Keys(NamedTuple):
    """One content of the file."""

    ring: KeyRing
    headers: HeaderCipher
    destinations: TextCipher


def _load(file: str) -> _Keys:
    try:
        ring = KeyRing.parse(read_text(file, setting=SETTING))
        return _Keys(ring, HeaderCipher(ring), TextCipher(ring, DESTINATIONS))
    except RingInvalid as error:
        raise FilesUnusable(f"{SETTING} names {file}, which is no key ring: {error}") from None


class NoKeyRing(MinutehandError):
    """There is no key to encrypt under."""


@dataclass(slots=True, kw_only=True)
class Rotation:
    """The result. `current`: under the first key before; `encrypted`: under it now, or would be after a run that is not
    dry; `crons`: crons whose headers were encrypted, and `destinations` likewise; `unsettled`: changed by another
    process meanwhile, or without an answer."""

    key_id: str
    clients: int = 0
    current: int = 0
    encrypted: int = 0
    crons: int = 0
    destinations: int = 0
    unsettled: int = 0
    locked: list[str] = field(default_factory=list)
    """A sentence for each that could not be opened."""

    @property
    def complete(self) -> bool:
        return not self.locked and not self.unsettled


class RotateSecrets:
    """Rotate secrets: encrypt every signing secret, every destination and the headers of every cron under the ring's
    first key.

    Clients are handled one by one, each write by itself. A run that was cut short is completed by the next one, which
    skips what is under the first key already. Secrets of deleted clients and expired ones are included, so that
    afterwards none needs another key. The decrypted secret does not change, so nothing is announced.

    Headers of schedules stay under the key that they were stored under: their rows are written once by plain inserts
    and deleted with their minute. Headers of crons stay in the clear where new ones are (`secrets.encrypt_headers`).
    """

    def __init__(
        self, *, store: ClientStore, crons: CronStore, destinations: DestinationStore, encryption: SecretEncryption
    ) -> None:
        self._store = store
        self._crons = crons
        self._destinations = destinations
        self._encryption = encryption

    async def run(self, *, dry: bool, on_progress: Callable[[int, int], None]) -> Rotation:
        """`on_progress` is told the number of clients done and of all. Raises NoKeyRing, StoreUnavailable."""
        primary = self._encryption.primary
        if primary is None:
            raise NoKeyRing("there is no key ring: name its file with secrets.key_ring_file")
        done = Rotation(key_id=primary)
        clients = await self._store.list_clients()
        for number, client in enumerate(clients, start=1):
            for secret in await self._store.list_secrets(client.client_id):
                await self._rotate(secret, done, dry=dry)
            await self._rotate_crons(client.client_id, done, dry=dry)
            for destination in await self._destinations.list_destinations(client.client_id):
                await self._rotate_destination(destination, done, dry=dry)
            done.clients = number
            on_progress(number, len(clients))
        return done

    async def _rotate(self, secret: SigningSecret, done: Rotation, *, dry: bool) -> None:
        try:
            clear = self._encryption.open(secret)
        except SecretLocked as error:
            done.locked.append(str(error))
            return
        if secret.encryption_key_id == done.key_id:
            done.current += 1
        elif dry or isinstance(
            await self._store.reseal_secret(self._encryption.seal(clear), stored=secret.secret), Applied
        ):
            done.encrypted += 1
        else:
            done.unsettled += 1

    async def _rotate_crons(self, client_id: ClientId, done: Rotation, *, dry: bool) -> None:
        if not self._encryption.encrypts_headers:
            return
        after: CronId | None = None
        while page := await self._crons.read_page(client_id, after=after, limit=CRONS_A_READ):
            for cron in page:
                await self._rotate_cron(cron, done, dry=dry)
            after = page[-1].cron_id

    async def _rotate_cron(self, cron: Cron, done: Rotation, *, dry: bool) -> None:
        try:
            clear = self._encryption.open_headers(cron.client_id, cron.callback.headers)
        except SecretLocked as error:
            done.locked.append(f"{error} (cron {cron.cron_id})")
            return
        sealed = self._encryption.seal_headers(cron.client_id, clear)
        if sealed == cron.callback.headers:
            return
        resealed = replace(cron, callback=replace(cron.callback, headers=sealed))
        if dry or isinstance(await self._crons.reseal(resealed), Applied):
            done.crons += 1
        else:
            done.unsettled += 1

    async def _rotate_destination(self, destination: StoredDestination, done: Rotation, *, dry: bool) -> None:
        client_id, name = destination.client_id, destination.name
        try:
            clear = self._encryption.open_destination(client_id, name, destination.document)
        except SecretLocked as error:
            done.locked.append(f"{error} (destination {name})")
            return
        sealed = self._encryption.seal_destination(client_id, name, clear)
        if sealed == destination.document:
            return
        resealed = replace(destination, document=sealed)
        if dry or isinstance(await self._destinations.reseal_destination(resealed), Applied):
            done.destinations += 1
        else:
            done.unsettled += 1
