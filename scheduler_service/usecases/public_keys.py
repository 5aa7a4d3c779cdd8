"""Public keys: what anybody may know of a client's key pairs, without a key of the API.

A client that does not exist, or was deleted, has no public keys, like one without pairs, so an answer reveals only
which clients have pairs; their receivers know them anyway.

Nobody pays for such a request, so it must stay cheap. The keys of up to MAX_CLIENTS clients that have any are served
from memory and read again after FRESH_SECONDS; without storage the last known ones are served. That a name has none is
known for ABSENT_SECONDS, of MAX_ABSENT names, so that asking again for one costs no read. Only names that are not in
memory have to be read first, and the caller bounds how often: a million guesses cost as many answers, but few reads,
and no guess takes the place of a client with keys.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import SignatureScheme, SigningSecret
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import ClientStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.authenticate import Catalog

FRESH_SECONDS = 10.0
ABSENT_SECONDS = 2.0
"""Shorter: a client that makes its first pair may look at once whether it is there."""
MAX_CLIENTS = 1_000
MAX_ABSENT = 10_000


@dataclass(slots=True)
class _Known:
    pairs: Sequence[SigningSecret]
    fresh_until: float


class ShowPublicKeys:
    """The active key pairs of one client at a time."""

    def __init__(self, *, store: ClientStore, catalog: Catalog, clock: Clock) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._known: OrderedDict[ClientId, _Known] = OrderedDict()
        self._absent: OrderedDict[ClientId, float] = OrderedDict()
        """Until when a name is known to have none, the longest known first."""

    async def __call__(self, client_id: ClientId, *, before_reading: Callable[[], None]) -> Sequence[SigningSecret]:
        """Oldest first; empty for a client that does not exist. `before_reading` is called before the keys of a client
        are read that is not in memory, and may raise. Raises what that raises, and StoreUnavailable."""
        now, known = self._clock.monotonic(), self._known.get(client_id)
        if known is None:
            if now < self._absent.get(client_id, 0.0):
                return ()
            before_reading()
            pairs = await self._read(client_id)
        elif now < known.fresh_until:
            pairs = known.pairs
        else:
            # Others are served what is known meanwhile.
            known.fresh_until = now + FRESH_SECONDS
            try:
                pairs = await self._read(client_id)
            except StoreUnavailable:
                pairs = known.pairs
        self._remember(client_id, pairs)
        wall_ms = self._clock.wall_ms()
        return [pair for pair in pairs if pair.active_at(wall_ms)]

    async def _read(self, client_id: ClientId) -> Sequence[SigningSecret]:
        secrets = await self._store.list_secrets(client_id)
        pairs = [secret for secret in secrets if secret.scheme is SignatureScheme.V1A]
        if pairs:  # else it takes as long whether or not there is such a client
            try:
                await self._catalog.client(client_id)
            except NotFound:
                return ()
        return pairs

    def _remember(self, client_id: ClientId, pairs: Sequence[SigningSecret]) -> None:
        if not pairs:
            self._known.pop(client_id, None)
            self._absent.pop(client_id, None)
            if len(self._absent) >= MAX_ABSENT:
                self._absent.popitem(last=False)
            self._absent[client_id] = self._clock.monotonic() + ABSENT_SECONDS
            return
        known = self._known.get(client_id)
        if known is None:
            if len(self._known) >= MAX_CLIENTS:
                self._known.popitem(last=False)
            known = self._known[client_id] = _Known(pairs, self._clock.monotonic() + FRESH_SECONDS)
        known.pairs = pairs
        self._known.move_to_end(client_id)
