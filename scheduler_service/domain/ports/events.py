"""The store of events."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from scheduler_service.domain.events import Block, Event, StoredBlock
from scheduler_service.domain.ids import ClientId, Partition, RowKey, UnixMillis


class EventStore(Protocol):
    """The feeds of clients. One writer appends to a track under each epoch, one request at a time; `domain.events`
    says what follows from that. Everything here is a plain write or a read at LOCAL_QUORUM, so what was acknowledged
    before a read began is seen by it. Nothing tests the epoch: a writer of an older one may still append."""

    async def begin_block(self, client_id: ClientId, block: Block, *, begun_at: UnixMillis) -> None:
        """Make a block known to readers, before the first event of it is appended. Repeatable."""

    async def append(self, client_id: ClientId, block: Block, *, first_seq: int, events: Sequence[Event]) -> None:
        """Store events under consecutive seqs: all or none, with one request. If no answer came the same events must
        be appended under the same seqs before any other."""

    async def read_blocks(
        self, client_id: ClientId, track: str, *, since: Block | None = None
    ) -> Sequence[StoredBlock]:
        """The blocks of a track from one on (itself included; it need not exist), in order. None: all."""

    async def list_blocks(self, client_id: ClientId, *, first_track: str, last_track: str) -> Sequence[StoredBlock]:
        """The blocks of several tracks, both ends included, by track and in order."""

    async def newest_blocks(self, client_id: ClientId, *, first_track: str, last_track: str) -> Sequence[StoredBlock]:
        """The last block of each of several tracks, both ends included, by track: one request."""

    async def read_events(
        self, client_id: ClientId, block: Block, *, after: int = -1, limit: int
    ) -> Sequence[tuple[int, Event]]:
        """The first `limit` events of a block behind seq `after`, each with its seq, in order."""

    async def last_seq(self, client_id: ClientId, block: Block) -> int:
        """The seq of the newest event of a block; -1: it has none."""

    async def mark_rows(self, partition: Partition, marks: Mapping[RowKey, UUID]) -> None:
        """Note for rows that the event with this id was appended. Cells of their own, repeatable; the rows must exist.
        Nothing but the repetition of an event depends on it."""

    async def read_marks(self, partition: Partition, keys: Collection[RowKey]) -> Mapping[RowKey, UUID]:
        """The last such mark of each of these rows that has one."""
