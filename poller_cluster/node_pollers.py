"""The pollers that a node holds, by client, and how they come and go.

    LeaseBalancer --granted/drain/revoked--> PollerGrants --begins, ends--> ClientPollers, held in NodePollers
    ServedClients --quota, state--------------------------------------------^    ^
    hints -----------------------------------------------------------------------'

A client's pollers begin with the first grant of one of them, and end when the last is revoked."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

from membership.identity import PollerKey
from poller_cluster.client_pollers import ClientPollers
from poller_cluster.clients import ServedClients
from poller_cluster.clock_correction import ClockCorrection
from poller_cluster.minute.context import MinuteContext
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId, RowKey
from scheduler_service.domain.ports import HintSender


class NodePollers:
    """The held pollers of every client: the `HeldPollers` of a node's other parts. Also a `HintSender` for rows that
    the node places itself: those in its own pollers it reads at once, of others it tells `elsewhere`.

    `draining()`: whether all pollers are being handed over."""

    def __init__(self, *, clients: ServedClients, elsewhere: HintSender | None, draining: Callable[[], bool]) -> None:
        self._clients = clients
        self._elsewhere = elsewhere
        self._draining = draining
        self._pollers: dict[ClientId, ClientPollers] = {}
        self._shares: dict[ClientId, float] = {}
        self._share_of_all: float | None = None

    # Clients come, go and change.

    def get(self, client_id: ClientId) -> ClientPollers | None:
        return self._pollers.get(client_id)

    def all(self) -> Collection[ClientPollers]:
        return self._pollers.values()

    def begin(self, pollers: ClientPollers) -> None:
        """The first poller of a client is about to be granted."""
        self._pollers[pollers.client_id] = pollers
        self._follow_state(pollers)

    def end(self, client_id: ClientId) -> None:
        """The last poller of a client was revoked."""
        del self._pollers[client_id]

    def grant(self, client_id: ClientId, poller_id: PollerId, *, epoch: int, start: Minute) -> None:
        """Hold a poller of a client that was begun."""
        self._pollers[client_id].grant(poller_id, epoch=epoch, start=start)
        self._held_others(client_id)

    def revoke(self, client_id: ClientId, poller_id: PollerId) -> None:
        self._pollers[client_id].revoke(poller_id)
        self._held_others(client_id)

    def _held_others(self, client_id: ClientId) -> None:
        """Other pollers of this client are held than before."""
        self._shares.pop(client_id, None)
        self._share_of_all = None

    def clients_changed(self) -> None:
        """Quotas or states of clients may be others than before."""
        self._shares.clear()
        self._share_of_all = None
        for pollers in self._pollers.values():
            self._follow_state(pollers)

    def _follow_state(self, pollers: ClientPollers) -> None:
        client = self._clients.get(pollers.client_id)
        if client is not None and client.active:
            pollers.resume()
            pollers.wake()
        else:
            pollers.suspend()

    def clock_corrected(self) -> None:
        """The clock was ahead and was corrected (`clock_correction`)."""
        for pollers in self._pollers.values():
            pollers.clock_corrected()

    # HeldPollers.

    def positions(self, client_id: ClientId) -> dict[PollerId, Minute]:
        pollers = self._pollers.get(client_id)
        return {} if pollers is None else {poller_id: pollers.position(poller_id) for poller_id in pollers.pollers}

    def kept(self, client_id: ClientId) -> Collection[PollerId]:
        pollers = self._pollers.get(client_id)
        if pollers is None or self._draining():
            return ()
        return [poller_id for poller_id, poller in pollers.pollers.items() if not poller.leaving]

    def share(self, client_id: ClientId) -> float:
        """Pollers beyond a quota that was lowered don't count; a node that holds only such has the share of one
        poller."""
        share = self._shares.get(client_id)
        if share is None:
            pollers, client = self._pollers.get(client_id), self._clients.get(client_id)
            if pollers is None or client is None:
                return 1.0
            held = sum(poller_id < client.quota for poller_id in pollers.pollers)
            share = self._shares[client_id] = min(max(held, 1) / max(client.quota, 1), 1.0)
        return share

    def share_of_all(self) -> float:
        """A node that holds only pollers beyond quotas that were lowered has the share of one: they still have rows."""
        if self._share_of_all is None:
            quotas = {one.client_id: one.quota for one in self._clients.all() if not one.record.built_in}
            held = [
                poller_id < quotas[pollers.client_id]
                for pollers in self._pollers.values()
                if pollers.client_id in quotas
                for poller_id in pollers.pollers
            ]
            self._share_of_all = max(sum(held), min(len(held), 1)) / max(sum(quotas.values()), 1)
        return self._share_of_all

    def wake(self, client_id: ClientId) -> None:
        pollers = self._pollers.get(client_id)
        if pollers is not None:
            pollers.wake()

    # Hints.

    def hint(self, partition: Partition, key: RowKey) -> None:
        pollers = self._pollers.get(partition.client_id)
        if pollers is not None and partition.poller_id in pollers.pollers:
            self.hinted([(partition, key)])
        elif self._elsewhere is not None:
            self._elsewhere.hint(partition, key)

    def hinted(self, hints: Sequence[tuple[Partition, RowKey | None]]) -> None:
        """Rows placed near their due. A partition with None for the row has too many to be named."""
        for partition, key in hints:
            pollers = self._pollers.get(partition.client_id)
            if pollers is not None:
                pollers.hint(partition.poller_id, partition.minute, None if key is None else [key])


class PollerGrants:
    """The `PollerHost` of a node: begins and ends its pollers as the lease balancer grants and revokes them.

    `on_lost(poller, epoch)`: a poller can't go on under this epoch, because of a lease that another node has taken or a
    write that was never answered."""

    def __init__(
        self,
        *,
        pollers: NodePollers,
        context: MinuteContext,
        settings: MinuteSettings,
        clock_correction: ClockCorrection,
        on_lost: Callable[[PollerKey, int], None],
    ) -> None:
        self._pollers = pollers
        self._context = context
        self._settings = settings
        self._clock_correction = clock_correction
        self._on_lost = on_lost
        self._tasks: dict[ClientId, list[asyncio.Task[Any]]] = {}

    def granted(self, poller: PollerKey, *, epoch: int, start: int) -> None:
        client_id = ClientId(poller.client_id)
        if self._pollers.get(client_id) is None:
            self._begin_client(client_id)
        if self._context.events is not None:
            self._context.events.tracks.granted(client_id, PollerId(poller.poller_id), epoch=epoch)
        self._pollers.grant(client_id, PollerId(poller.poller_id), epoch=epoch, start=Minute(start))
        self._clock_correction.granted(poller, epoch, start)

    def _begin_client(self, client_id: ClientId) -> None:
        runtime = self._context.runtime
        pollers = ClientPollers(
            client_id=client_id,
            context=self._context,
            settings=self._settings,
            stagger=runtime.randomness.fraction(),
            on_lost=lambda poller_id, epoch: self._on_lost(PollerKey(client_id, poller_id), epoch),
        )
        self._tasks[client_id] = [
            runtime.spawn(pollers.run(), name=f"pollers {client_id}"),
            runtime.spawn(pollers.recover(), name=f"recovery {client_id}"),
        ]
        self._pollers.begin(pollers)

    def position(self, poller: PollerKey) -> int:
        pollers = self._pollers.get(ClientId(poller.client_id))
        assert pollers is not None, "asked for granted pollers only"
        return pollers.position(PollerId(poller.poller_id))

    async def drain(self, poller: PollerKey) -> None:
        pollers = self._pollers.get(ClientId(poller.client_id))
        if pollers is not None:
            await pollers.drain(PollerId(poller.poller_id))

    def revoked(self, poller: PollerKey) -> None:
        client_id = ClientId(poller.client_id)
        pollers = self._pollers.get(client_id)
        if pollers is None:
            return
        self._pollers.revoke(client_id, PollerId(poller.poller_id))
        if self._context.events is not None:
            self._context.events.tracks.revoked(client_id, PollerId(poller.poller_id))
        if not pollers.pollers:
            self._pollers.end(client_id)
            self._context.dispatcher.left(client_id)
            for task in self._tasks.pop(client_id):
                task.cancel()
