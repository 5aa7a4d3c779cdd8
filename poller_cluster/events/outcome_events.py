"""Tells clients that have a feed of the ends of their schedules.

An end is told after it was recorded, by the owner of its poller, in that poller's track: as a follow-up of its minute
(`minute.follow_ups`), so that no minute settles before, or after a hint that a schedule of a minute far away was
cancelled. In that case the row is marked, and the minute's sweep, or that of its retry row, does not tell it again. But
not before the event is acknowledged and the lease was seen after that, still under the epoch of the track: else the
event may be behind what readers have passed, and the mark, which is a plain write, would keep the next owner silent.

A hint may be lost or dropped, and so may a mark: then the sweep tells of the cancel, perhaps again.
"""

from collections.abc import Collection, Mapping
from uuid import UUID

from membership.errors import StoreUnavailable
from membership.identity import PollerKey
from membership.ports import LeaseStore
from poller_cluster.clients import ServedClients
from poller_cluster.events.tracks import EventTracks
from poller_cluster.node_runtime import NodeRuntime
from scheduler_service.domain.end_events import event_of_end
from scheduler_service.domain.ids import (
    ClientId,
    Partition,
    RowKey,
    ScheduleId,
    key_of,
    partition_of,
)
from scheduler_service.domain.ports import EventStore, ScheduleStore
from scheduler_service.domain.retry_rows import SUPERSEDED, definition_of, outcome_of
from scheduler_service.domain.schedules import Definition, Kind, Outcome, Row, State
from scheduler_service.runtime.concurrently import concurrently

HINTED_CANCELS = 20_000
"""Cancelled rows that are told of soon, at most; those beyond it are left to the sweeps of their minutes."""
CANCELS_AT_ONCE = 200


class OutcomeEvents:
    """See the module."""

    def __init__(
        self,
        *,
        tracks: EventTracks,
        store: EventStore,
        schedules: ScheduleStore,
        leases: LeaseStore,
        clients: ServedClients,
        runtime: NodeRuntime,
    ) -> None:
        self.tracks = tracks
        self._store = store
        self._schedules = schedules
        self._leases = leases
        self._clients = clients
        self._runtime = runtime
        self._cancelled: dict[Partition, dict[RowKey, None]] = {}
        self._waiting = 0
        self._telling = False

    def wanted(self, client_id: ClientId) -> bool:
        """Whether this client has a feed."""
        return self._clients.has_feed(client_id)

    async def tell(self, definition: Definition, outcome: Outcome) -> None:
        """Tell of a recorded end; returns when the event is stored, or was before. Raises StoreUnavailable."""
        client_id, schedule_id = definition.client_id, definition.schedule_id
        home, key = partition_of(client_id, schedule_id), key_of(schedule_id)
        if definition.kind is Kind.RETRY_ROW and outcome.reason == SUPERSEDED:
            # Only a cancel takes a schedule from its retry row for good; all else is told with another retry row.
            original = (await self._schedules.find_rows(home, [key])).get(key)
            if original is None or original.state != State.CANCELLED:
                return
            definition, outcome = _as_read(home, original)
        event = event_of_end(definition, outcome)
        if outcome.state is State.CANCELLED:
            marks: Mapping[RowKey, UUID] = await self._store.read_marks(home, [key])
            if marks.get(key) == event.event_id:
                return
        await self.tracks.append(client_id, definition.poller_id, event)

    def hinted(self, partition: Partition, keys: Collection[RowKey]) -> None:
        """These rows, of a minute that does not run here, may have been cancelled."""
        rows = self._cancelled.setdefault(partition, {})
        for key in keys:
            if self._waiting < HINTED_CANCELS and key not in rows:
                rows[key] = None
                self._waiting += 1
        if not self._telling:
            self._telling = True
            self._runtime.spawn(self._tell_cancelled(), name="events of cancels")

    async def _tell_cancelled(self) -> None:
        try:
            while self._cancelled:
                partition = next(iter(self._cancelled))
                keys = list(self._cancelled.pop(partition))
                self._waiting -= len(keys)
                for at in range(0, len(keys), CANCELS_AT_ONCE):
                    await self._tell_some(partition, keys[at : at + CANCELS_AT_ONCE])
        finally:
            self._telling = False

    async def _tell_some(self, partition: Partition, keys: Collection[RowKey]) -> None:
        epoch = self.tracks.epoch(partition.client_id, partition.poller_id)
        try:
            async with self._runtime.budget.slot(partition.client_id):
                rows = await self._schedules.find_rows(partition, keys)
                ends = [
                    _as_read(partition, row) for row in rows.values() if row.defined and row.state == State.CANCELLED
                ]
                events = [event_of_end(*end) for end in ends]
                if not events:
                    return
                await concurrently(
                    lambda event: self.tracks.append(partition.client_id, partition.poller_id, event),
                    events,
                    width=CANCELS_AT_ONCE,
                )
                lease = await self._leases.read_lease(PollerKey(partition.client_id, partition.poller_id))
                if lease is None or lease.epoch != epoch:
                    return
                told = {key_of(ScheduleId(event.schedule_id)): event.event_id for event in events if event.schedule_id}
                await self._store.mark_rows(partition, told)
        except StoreUnavailable:
            # The sweep of the minute, or of the retry row's, tells of what is not marked.
            return


def _as_read(partition: Partition, row: Row) -> tuple[Definition, Outcome]:
    outcome = outcome_of(row)
    assert outcome is not None
    return definition_of(partition, row), outcome
