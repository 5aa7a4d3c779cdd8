"""Which destinations a callback may name: those of its client, by their names as this process knows them.

A callback with a URL needs no check. The names of a client's destinations are cached like its settings
(`authenticate.Catalog`), and read again when a callback names one that is not among them. So a destination can be named
as soon as it is made, and one that was deleted is refused: at once by this process, within five seconds by others. A
schedule stored before that fails when it is due (`poller_cluster.dispatch.named_rows`).

After a callback named one that does not exist, its client's names are not read again within `ABSENT_NAME_SECONDS`,
unless this process makes a change or hears of one; requests at the same moment share one read.
"""

import asyncio
from collections.abc import Callable, Iterable, Set
from typing import Final, NamedTuple, Protocol, TypeAlias

from scheduler_service.domain.destinations import decode_destination
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.options import Undecodable
from scheduler_service.domain.ports import DestinationStore, SecretEncryption
from scheduler_service.domain.targets import HTTP
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.authenticate import Catalog

ABSENT_NAME_SECONDS: Final = 1.0
CLIENTS_KNOWN: Final = 10_000
KINDS_KNOWN: Final = 10_000

CheckDestination: TypeAlias = Callable[[str], str | None]
"""What is wrong with naming this destination, as a sentence; None: nothing."""


def no_such_destination(name: str) -> str:
    return f"there is no destination {name!r}"


class NamedDestinations(Protocol):
    """Which destinations callbacks may name."""

    async def look_up(self, client_id: ClientId, names: Iterable[str | None]) -> None:
        """Make sure that `check` knows these names. Raises StoreUnavailable."""

    async def look_at_kinds(self, client_id: ClientId, names: Iterable[str | None]) -> None:
        """Make sure that `answers_http` knows these. Raises StoreUnavailable."""

    def answers_http(self, client_id: ClientId, name: str) -> bool:
        """False: its calls go to a target of another kind. True of what is not known."""

    def holds(self, client_id: ClientId, name: str) -> bool:
        """Whether this destination is known without `look_up`."""

    def forget(self, client_id: ClientId) -> None:
        """This process has changed a destination of the client."""

    def check(self, client_id: ClientId) -> CheckDestination:
        """The rule for a client's callbacks. While nothing was looked up for the client, all names pass."""


class ListedDestinations:
    """Those of one client, as they were read before: what a bulk load knows for as long as a task takes."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)

    async def look_up(self, client_id: ClientId, names: Iterable[str | None]) -> None:
        return

    async def look_at_kinds(self, client_id: ClientId, names: Iterable[str | None]) -> None:
        return

    def answers_http(self, client_id: ClientId, name: str) -> bool:
        return True

    def holds(self, client_id: ClientId, name: str) -> bool:
        return name in self._names

    def forget(self, client_id: ClientId) -> None:
        return

    def check(self, client_id: ClientId) -> CheckDestination:
        return lambda name: None if name in self._names else no_such_destination(name)


_STALE: Final = object()
"""The mark of no generation: names are read again before a request that looks up is judged by them."""


class _Names(NamedTuple):
    """`mark`: of the catalog's generation in which they were read. `until`: they are taken for all until then
    (monotonic seconds)."""

    mark: object
    names: frozenset[str]
    until: float


class _Kind(NamedTuple):
    """`mark`: of the catalog's generation in which it was read."""

    mark: object
    http: bool


class CachedDestinations:
    """`NamedDestinations` of an API process."""

    def __init__(
        self, *, store: DestinationStore, catalog: Catalog, encryption: SecretEncryption, clock: Clock
    ) -> None:
        self._store = store
        self._encryption = encryption
        self._catalog = catalog
        self._clock = clock
        self._known: dict[ClientId, _Names] = {}
        self._reading: dict[ClientId, asyncio.Lock] = {}
        self._looked_at: dict[tuple[ClientId, str], _Kind] = {}
        self._changes = 0

    async def look_up(self, client_id: ClientId, names: Iterable[str | None]) -> None:
        wanted = {name for name in names if name is not None}
        if not wanted:
            return
        if self._knows(client_id, wanted, await self._catalog.mark()):
            return
        turn = self._reading.setdefault(client_id, asyncio.Lock())
        try:
            async with turn:
                mark = await self._catalog.mark()
                if not self._knows(client_id, wanted, mark):
                    await self._read(client_id, wanted, mark)
        finally:
            if not turn.locked():
                self._reading.pop(client_id, None)

    def _knows(self, client_id: ClientId, wanted: Set[str], mark: object) -> bool:
        known = self._known.get(client_id)
        if known is None or known.mark is not mark:
            return False
        return wanted <= known.names or self._clock.monotonic() < known.until

    async def _read(self, client_id: ClientId, wanted: Set[str], mark: object) -> None:
        changes = self._changes
        found = frozenset(await self._store.list_names(client_id))
        self._known.pop(client_id, None)
        if len(self._known) >= CLIENTS_KNOWN:
            del self._known[next(iter(self._known))]
        if changes != self._changes:
            # They may be those of before the change: they serve this request and no other one.
            mark = _STALE
        until = 0.0 if wanted <= found else self._clock.monotonic() + ABSENT_NAME_SECONDS
        self._known[client_id] = _Names(mark, found, until)

    async def look_at_kinds(self, client_id: ClientId, names: Iterable[str | None]) -> None:
        mark = await self._catalog.mark()
        for name in {name for name in names if name is not None}:
            known = self._looked_at.get((client_id, name))
            if known is None or known.mark is not mark:
                self._remember(client_id, name, _Kind(mark, await self._is_http(client_id, name)))

    async def _is_http(self, client_id: ClientId, name: str) -> bool:
        stored = await self._store.read_destination(client_id, name)
        if stored is None:
            return True
        try:
            return decode_destination(self._encryption.open_destination(client_id, name, stored.document)).kind == HTTP
        except (SecretLocked, Undecodable):
            return True

    def _remember(self, client_id: ClientId, name: str, kind: _Kind) -> None:
        self._looked_at.pop((client_id, name), None)
        if len(self._looked_at) >= KINDS_KNOWN:
            del self._looked_at[next(iter(self._looked_at))]
        self._looked_at[client_id, name] = kind

    def answers_http(self, client_id: ClientId, name: str) -> bool:
        known = self._looked_at.get((client_id, name))
        return known is None or known.http

    def forget(self, client_id: ClientId) -> None:
        self._changes += 1
        for key in [key for key in self._looked_at if key[0] == client_id]:
            del self._looked_at[key]
        if (known := self._known.get(client_id)) is not None:
            # Requests that have looked up go on with these.
            self._known[client_id] = known._replace(mark=_STALE)

    def holds(self, client_id: ClientId, name: str) -> bool:
        known = self._known.get(client_id)
        return known is not None and name in known.names and known.mark is self._catalog.served_mark()

    def check(self, client_id: ClientId) -> CheckDestination:
        known = self._known.get(client_id)
        return lambda name: None if known is None or name in known.names else no_such_destination(name)
