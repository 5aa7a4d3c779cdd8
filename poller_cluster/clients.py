"""Clients as a node knows them: settings, quota, state, active signing secrets, destinations.

After a change of a client, secret or destination its writer increments the catalogue's revision:

    every second     compare the revision; if it changed, read the whole catalogue, part by part, and the overdue rate
    CATALOG_SECONDS    read the whole catalogue once, evenly spread over that time, whatever the revision says

So a change is known within a few seconds, and within a minute if the increment was lost: the writer died before it, it
got no answer, or the change itself timed out and took effect after it. Both hold while storage answers; while it does
not, the last known clients stay in use. A part is read by token range, `PART_CLIENTS` clients at a time and their
secrets with one read: for 100,000 clients a round takes each node five small reads a second, and for a few clients two
reads in all. Nodes begin their rounds at random instants.

A node that was cut off or paused, and is trusted again, knows what held before that. It does nothing for clients until
a refresh that began after that has ended (`recheck`), but for `RECHECK_SECONDS` at most: a part that can't be read must
not hold up the calls of all clients.

A client with an active signing secret that the key ring cannot decrypt is *locked*: its calls wait, as a suspended
client's do, because they would be sent unsigned or without the one signature that a receiver knows. Locked clients are
read again when the ring changed, and every `UNLOCK_SECONDS`, since their secrets may have been encrypted again. Rows
whose headers the ring cannot decrypt are deferred one by one, and the client's other calls are made; the client counts
as locked while there are such rows. The same holds for destinations that can't be decrypted (`destinations`).

A callback may name a destination that was made a moment ago, so one that is not known is not taken for deleted before
the client's destinations were read for that: once a second at most (`surely_without`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from membership.errors import StoreUnavailable
from membership.signal import Signal
from poller_cluster.destinations import Destinations, OpenedDestination, ServedDestination, open_all, serve
from scheduler_service.domain.client_bounds import UNBOUND, ClientBounds
from scheduler_service.domain.clients import Client, ClientSettings, ClientState, SigningSecret
from scheduler_service.domain.destinations import StoredDestination, read_named_url
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.options import Undecodable
from scheduler_service.domain.ports import ClientStore, DestinationStore, SecretEncryption
from scheduler_service.domain.subscriptions import StoredSubscription, Subscription, decode_subscription
from scheduler_service.domain.targets import NO_KINDS, TargetKinds
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.signing_secrets import active_secrets

REFRESH_SECONDS = 1.0
UNLOCK_SECONDS = 10.0
RECHECK_SECONDS = 10.0
CATALOG_SECONDS = 40.0
"""Leaves 20 s of the minute for reads that are slow, or have to be repeated."""
ROWS_LOCKED_SECONDS = 120.0
"""How long a client counts as locked after the last row whose headers could not be decrypted."""
PART_CLIENTS = 1_000
CONFIRMED_AT_ONCE = 20
"""Clients of which the destinations are read in one second because rows name unknown ones."""
_log = get_logger("minutehand.node")


@dataclass(frozen=True, slots=True)
class ServedClient:
    """`settings` are the effective ones; `secrets` are the raw bytes of the active secrets, oldest first, those of key
    pairs apart as `private_keys`. `locked`: why not all of them could be decrypted, or None. No attempt takes longer
    than `longest_attempt_seconds`, whatever a stored schedule or destination says."""

    record: Client
    settings: ClientSettings
    secrets: tuple[bytes, ...]
    locked: str | None = None
    private_keys: tuple[bytes, ...] = ()
    destinations: Destinations = field(default_factory=dict)
    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    longest_attempt_seconds: float = UNBOUND.timeout_seconds

    @property
    def client_id(self) -> ClientId:
        return self.record.client_id

    @property
    def quota(self) -> int:
        return self.record.poller_quota

    @property
    def active(self) -> bool:
        """Whether its calls may be made."""
        return not self.record.calls_held and self.locked is None

    def named(self, url: str | None) -> tuple[ServedDestination | None, str]:
        """The destination that a row's URL names, and the path below it."""
        named = None if url is None else read_named_url(url)
        return (None, "") if named is None else (self.destinations.get(named.name), named.path)

    def settings_for(self, url: str | None) -> ClientSettings:
        """The settings for the calls of rows with this URL."""
        destination, _ = self.named(url)
        return self.settings if destination is None else destination.settings

    def attempt_seconds(self, own: float | None, settings: ClientSettings) -> float:
        """The time-out of an attempt under the settings for its URL. `own`: that of the row, if it has one."""
        return min(own or settings.timeout_seconds, self.longest_attempt_seconds)


class ServedClients:
    """The clients that this node knows. `on_change` is called after every refresh that found a change, `on_confirmed`
    for a client whose destinations were read for `surely_without`."""

    overdue_rate: float | None = None
    """The overdue rate of all clients together."""

    def __init__(
        self,
        *,
        store: ClientStore,
        destinations: DestinationStore,
        encryption: SecretEncryption,
        clock: Clock,
        randomness: Randomness,
        on_change: Callable[[], None],
        on_confirmed: Callable[[ClientId], None] = lambda client_id: None,
        bounds: ClientBounds = UNBOUND,
        kinds: TargetKinds = NO_KINDS,
    ) -> None:
        self._store = store
        self._destinations = destinations
        self._on_confirmed = on_confirmed
        self._encryption = encryption
        self._kinds = kinds
        self._clock = clock
        self._randomness = randomness
        self._on_change = on_change
        self._bounds = bounds
        self._revision: tuple[int, int] | None = None
        self._looked = 0.0
        self._doubted: float | None = None
        """Since when what is known may be as old as any cut-off (monotonic seconds); None: it is not."""
        self._wake = Signal(clock)
        self._clients: dict[ClientId, ServedClient] = {}
        self._opened: dict[ClientId, dict[str, OpenedDestination]] = {}
        """The destinations of clients that have any."""
        self._wanted: dict[ClientId, None] = {}
        self._confirmed: dict[ClientId, float] = {}
        """When the destinations of a client were last read for rows that name unknown ones (monotonic seconds)."""
        self._rows_locked: dict[ClientId, float] = {}
        self._changed = False
        self._after: ClientId | None = None
        """Where the round goes on. `_read`: parts read in it so far; `_parts`: the number of parts of the previous
        one."""
        self._read = 0
        self._parts = 1
        self._due = 0.0

    def get(self, client_id: ClientId) -> ServedClient | None:
        return self._clients.get(client_id)

    def has_feed(self, client_id: ClientId) -> bool:
        """Whether the client is told of the ends of its schedules."""
        client = self.get(client_id)
        return client is not None and client.settings.event_feed

    def all(self) -> Sequence[ServedClient]:
        return list(self._clients.values())

    @property
    def locked(self) -> int:
        """How many clients have calls that wait for a key."""
        locked = {client.client_id for client in self._clients.values() if client.locked}
        return len(locked | self._rows_locked.keys() | self._with_locked_destinations())

    def _with_locked_destinations(self) -> set[ClientId]:
        return {client_id for client_id, opened in self._opened.items() if any(one.locked for one in opened.values())}

    @property
    def _secrets_locked(self) -> bool:
        """Rows whose headers cannot be decrypted don't count: reading clients again would not change that."""
        return any(client.locked for client in self._clients.values()) or bool(self._with_locked_destinations())

    def open_headers(self, client_id: ClientId, headers: str) -> str:
        """A row's headers, decrypted. Raises SecretLocked."""
        try:
            return self._encryption.open_headers(client_id, headers)
        except SecretLocked as error:
            if client_id not in self._rows_locked:
                _log.error("client-locked", client_id=client_id, reason=str(error))
            self._rows_locked[client_id] = self._clock.monotonic()
            raise

    def surely_without(self, client_id: ClientId, *, since: float) -> bool:
        """Whether the client's destinations were read after `since` (monotonic seconds), so that one which a row named
        then, and which is not known, does not exist. If not, they will be."""
        if self._confirmed.get(client_id, since) > since:
            return True
        self._wanted[client_id] = None
        return False

    @property
    def current(self) -> bool:
        """Whether no recheck is awaited."""
        return self._doubted is None or self._clock.monotonic() >= self._doubted + RECHECK_SECONDS

    def recheck(self) -> None:
        """Storage may not have answered for any time: refresh at once, and say that nothing is current until then."""
        self._doubted = self._clock.monotonic()
        self._wake.set()

    async def run(self) -> None:
        """Refresh periodically until cancelled."""
        while True:
            await self.refresh()
            await self._wake.wait(REFRESH_SECONDS)

    async def refresh(self) -> bool:
        """Refresh once. False if storage did not answer."""
        doubted = self._doubted
        try:
            # Read before the catalogue: a change during that read then shows as another revision the next time.
            revision = (await self._store.catalog_revision(), self._encryption.generation)
            now = self._clock.monotonic()
            self._forget_locked_rows(now)
            if revision != self._revision or (now >= self._looked + UNLOCK_SECONDS and self._secrets_locked):
                await self._read_all()
                self._revision, self._looked = revision, now
            else:
                await self._go_round(now)
            if self._doubted == doubted:
                # Otherwise the recheck was asked for after the first of these reads.
                self._doubted = None
            if self._wanted:
                await self._confirm()
        except StoreUnavailable:
            return False
        finally:
            if self._changed:
                self._changed = False
                self._on_change()
        return True

    async def _confirm(self) -> None:
        """Read the destinations of the clients for which that is wanted."""
        for client_id in list(self._wanted)[:CONFIRMED_AT_ONCE]:
            began = self._clock.monotonic()
            stored = await self._destinations.list_destinations(client_id)
            if (client := self._clients.get(client_id)) is not None:
                self._serve(client, stored)
            del self._wanted[client_id]
            self._confirmed.pop(client_id, None)
            if len(self._confirmed) >= PART_CLIENTS:
                del self._confirmed[next(iter(self._confirmed))]
            self._confirmed[client_id] = began
            self._on_confirmed(client_id)

    def _forget_locked_rows(self, now: float) -> None:
        for client_id, at in list(self._rows_locked.items()):
            if now > at + ROWS_LOCKED_SECONDS:
                del self._rows_locked[client_id]
                _log.info("client-unlocked", client_id=client_id)

    async def _read_all(self) -> None:
        self._after, self._read = None, 0
        while not await self._read_part():
            pass
        self._due = self._clock.monotonic() + self._randomness.fraction() * CATALOG_SECONDS / self._parts

    async def _go_round(self, now: float) -> None:
        """Read the parts that are due. After an outage of storage that is one round at most."""
        self._due = max(self._due, now - CATALOG_SECONDS)
        while self._due <= now:
            await self._read_part()
            self._due += CATALOG_SECONDS / self._parts

    async def _read_part(self) -> bool:
        """Read the next part; True if it was the last one of the round."""
        part = await self._store.read_part(self._after, limit=PART_CLIENTS)
        self._after = part.last
        for client in part.clients:
            client_id = client.client_id
            self._see(
                client,
                part.secrets.get(client_id, ()),
                part.destinations.get(client_id, ()),
                _enabled(part.subscriptions.get(client_id, ())),
            )
        self._read += 1
        if self._after is None:
            rate = await self._store.read_overdue_rate()
            self._changed = self._changed or rate != self.overdue_rate
            self.overdue_rate = rate
            self._parts, self._read = self._read, 0
        return self._after is None

    def _see(
        self,
        client: Client,
        secrets: Sequence[SigningSecret],
        destinations: Sequence[StoredDestination],
        subscriptions: Mapping[str, Subscription],
    ) -> None:
        client_id = client.client_id
        known = self._clients.get(client_id)
        if client.state is ClientState.DELETED:
            if known is not None:
                del self._clients[client_id]
                self._opened.pop(client_id, None)
                self._changed = True
            return
        opened, private_keys, locked = self._open(secrets)
        if known is None or (
            known.record,
            known.secrets,
            known.private_keys,
            known.locked,
            known.subscriptions,
        ) != (client, opened, private_keys, locked, subscriptions):
            self._tell_of_lock(client_id, None if known is None else known.locked, locked)
            settings = self._bounds.effective(client)
            known = ServedClient(
                client,
                settings,
                opened,
                locked,
                private_keys,
                subscriptions=subscriptions,
                longest_attempt_seconds=self._bounds.timeout_seconds,
            )
            self._serve(known, destinations, changed=True)
        elif destinations or known.destinations:
            self._serve(known, destinations)

    def _serve(self, client: ServedClient, stored: Sequence[StoredDestination], *, changed: bool = False) -> None:
        """Serve this client with these destinations. `changed`: it is another client than before."""
        client_id = client.client_id
        known = self._opened.get(client_id, {})
        opened = open_all(stored, known, self._encryption, self._kinds)
        if opened == known and not changed:
            return
        for name, one in opened.items():
            before = known.get(name)
            self._tell_of_lock(client_id, None if before is None else before.locked, one.locked, destination=name)
        if opened:
            self._opened[client_id] = opened
        else:
            self._opened.pop(client_id, None)
        destinations = {name: serve(one, client.settings) for name, one in opened.items()}
        self._clients[client_id] = replace(client, destinations=destinations)
        self._changed = True

    def _tell_of_lock(self, client_id: ClientId, before: str | None, locked: str | None, **more: str) -> None:
        if locked is not None and locked != before:
            _log.error("client-locked", client_id=client_id, reason=locked, **more)
        elif locked is None and before is not None:
            _log.info("client-unlocked", client_id=client_id, **more)

    def _open(self, stored: Sequence[SigningSecret]) -> tuple[tuple[bytes, ...], tuple[bytes, ...], str | None]:
        """The active secrets, the private keys of active pairs, and why there are none: one of them is locked."""
        try:
            return *active_secrets(stored, encryption=self._encryption, now=self._clock.wall_ms()), None
        except SecretLocked as error:
            return (), (), str(error)


def _enabled(stored: Sequence[StoredSubscription]) -> dict[str, Subscription]:
    """The subscriptions for which notices are sent, by name. One that can't be decoded, such as a newer program's, is
    left to nodes that can."""
    enabled: dict[str, Subscription] = {}
    for one in stored:
        try:
            subscription = decode_subscription(one.document)
        except Undecodable:
            continue
        if subscription.enabled:
            enabled[one.name] = subscription
    return enabled
