"""Which tracks this node writes: those of the pollers that it holds, each under the epoch of its lease."""

from collections.abc import Awaitable, Callable

from poller_cluster.events.track_writer import TrackOver, TrackWriter
from poller_cluster.node_runtime import NodeRuntime
from scheduler_service.domain.events import Event, PlacedEvent, track_of, track_of_built_in
from scheduler_service.domain.ids import ClientId, PollerId
from scheduler_service.domain.ports import EventStore

IDLE_LOOK_SECONDS = 60.0
"""An appended event is remembered this long, and at most twice as long."""

_Owner = tuple[ClientId, PollerId]


class EventTracks:
    """A track's only writer, for as long as its poller is held. `on_appended`: as for `TrackWriter`. `placed` is told
    of each event that is stored, with the feed that it is in; an event counts as appended when that has ended too, and
    is handed to it again if it raised StoreUnavailable."""

    def __init__(
        self,
        *,
        store: EventStore,
        runtime: NodeRuntime,
        on_appended: Callable[[int], None] = lambda events: None,
        placed: Callable[[ClientId, PlacedEvent], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._on_appended = on_appended
        self._placed = placed
        self._epochs: dict[_Owner, int] = {}
        self._writers: dict[_Owner, dict[ClientId, TrackWriter]] = {}
        self._forgetting = False

    def granted(self, client_id: ClientId, poller_id: PollerId, *, epoch: int) -> None:
        """The poller is held under this epoch: its tracks can be appended to. Writers of an older epoch are over."""
        self._epochs[client_id, poller_id] = epoch
        self._writers.pop((client_id, poller_id), None)

    def revoked(self, client_id: ClientId, poller_id: PollerId) -> None:
        """The poller is not held any more."""
        self._epochs.pop((client_id, poller_id), None)
        self._writers.pop((client_id, poller_id), None)

    def epoch(self, client_id: ClientId, poller_id: PollerId) -> int | None:
        """The epoch under which this poller is held; None: it is not."""
        return self._epochs.get((client_id, poller_id))

    async def append(
        self, client_id: ClientId, poller_id: PollerId, event: Event, *, feed: ClientId | None = None
    ) -> None:
        """Append an event in the track of this poller; returns when all that follows from it is acknowledged. `feed`:
        as for `writer`. Raises StoreUnavailable: append it again; TrackOver: its next owner has to."""
        if (writer := self.writer(client_id, poller_id, feed=feed)) is None:
            raise TrackOver(f"poller {poller_id} of {client_id} is not held")
        position = await writer.append(event)
        if not self._forgetting:
            self._forgetting = True
            self._runtime.spawn(self._forget(), name="forget appended events")
        if self._placed is not None:
            await self._placed(writer.client_id, PlacedEvent(writer.track, position, event))

    async def _forget(self) -> None:
        """Let idle writers keep nothing but where they are."""
        while self._forgetting:
            await self._runtime.clock.sleep(IDLE_LOOK_SECONDS)
            self._forgetting = False
            for owned in self._writers.values():
                for writer in owned.values():
                    self._forgetting |= writer.forget()

    def writer(self, client_id: ClientId, poller_id: PollerId, *, feed: ClientId | None = None) -> TrackWriter | None:
        """What appends to the track of this poller in a client's feed: its own client's (None), or for a poller of a
        built-in client any other's. None: the poller is not held."""
        owner, feed = (client_id, poller_id), feed or client_id
        epoch = self._epochs.get(owner)
        if epoch is None:
            return None
        writers = self._writers.setdefault(owner, {})
        if (writer := writers.get(feed)) is None:
            track = track_of(poller_id) if feed == client_id else track_of_built_in(client_id, poller_id)
            writer = writers[feed] = TrackWriter(
                store=self._store,
                runtime=self._runtime,
                client_id=feed,
                track=track,
                epoch=epoch,
                over=lambda: self._epochs.get(owner) != epoch,
                on_appended=self._on_appended,
            )
        return writer
