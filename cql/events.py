"""The tables `events` and `event_blocks`, and the marks of events on rows of `schedules`."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from cql.connection import UNSET, Connection
from cql.schedule_rows import partition_parameters
from scheduler_service.domain.events import Block, Event, StoredBlock
from scheduler_service.domain.ids import ClientId, Partition, RowKey, UnixMillis


class CqlEventStore:
    """`domain.ports.EventStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def begin_block(self, client_id: ClientId, block: Block, *, begun_at: UnixMillis) -> None:
        await self._connection.write("event_blocks.insert", (client_id, *block, begun_at))

    async def append(self, client_id: ClientId, block: Block, *, first_seq: int, events: Sequence[Event]) -> None:
        await self._connection.write_batch(
            [
                (
                    "events.insert",
                    (
                        client_id,
                        *block,
                        seq,
                        event.event_id,
                        event.type,
                        event.at,
                        UNSET if event.schedule_id is None else event.schedule_id,
                        event.data,
                    ),
                )
                for seq, event in enumerate(events, first_seq)
            ]
        )

    async def read_blocks(
        self, client_id: ClientId, track: str, *, since: Block | None = None
    ) -> Sequence[StoredBlock]:
        epoch, number = (0, 0) if since is None else (since.epoch, since.number)
        rows = await self._connection.select("event_blocks.read", (client_id, track, epoch, number))
        return [StoredBlock(Block(*block), begun_at) for *block, begun_at in rows]

    async def list_blocks(self, client_id: ClientId, *, first_track: str, last_track: str) -> Sequence[StoredBlock]:
        rows = await self._connection.select("event_blocks.list", (client_id, first_track, last_track))
        return [StoredBlock(Block(*block), begun_at) for *block, begun_at in rows]

    async def newest_blocks(self, client_id: ClientId, *, first_track: str, last_track: str) -> Sequence[StoredBlock]:
        rows = await self._connection.select("event_blocks.newest", (client_id, first_track, last_track))
        return [StoredBlock(Block(*block), begun_at) for *block, begun_at in reversed(rows)]

    async def read_events(
        self, client_id: ClientId, block: Block, *, after: int = -1, limit: int
    ) -> Sequence[tuple[int, Event]]:
        rows = await self._connection.select("events.read", (client_id, *block, after, limit))
        return [
            (seq, Event(event_id=event_id, type=kind, at=at, schedule_id=schedule_id, data=data))
            for seq, event_id, kind, at, schedule_id, data in rows
        ]

    async def last_seq(self, client_id: ClientId, block: Block) -> int:
        for (seq,) in await self._connection.select("events.last", (client_id, *block)):
            return int(seq)
        return -1

    async def mark_rows(self, partition: Partition, marks: Mapping[RowKey, UUID]) -> None:
        where = partition_parameters(partition)
        if marks:
            await self._connection.write_batch(
                [("schedules.mark_event", (event_id, *where, *key)) for key, event_id in marks.items()]
            )

    async def read_marks(self, partition: Partition, keys: Collection[RowKey]) -> Mapping[RowKey, UUID]:
        where = partition_parameters(partition)
        rows = await self._connection.select("schedules.read_event_marks", (*where, list(keys))) if keys else []
        return {RowKey(due, schedule_id): mark for due, schedule_id, mark in rows if mark is not None}
