"""Events: what became of schedules, crons and destinations, as a client reads it. Pure.

A client's events are its *feed*. It has *tracks*, each of which has one writer at a time, under an epoch that grows
with each new writer. A track's events are numbered: by the writer's epoch, by *blocks* within an epoch, by seqs within
a block. They become visible in this order, so a reader that has an event has all before it in its track and epoch.

The same event may be appended again, by the next writer or by the same one: it has the same id, which derives from what
it tells.
"""

import hashlib
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from scheduler_service.domain.ids import DAY_MS, HOUR_MS, ClientId, PollerId, ScheduleId, UnixMillis
from scheduler_service.domain.schedules import Outcome, State

EVENTS_SINCE: Final = 30
"""The migration from which on programs know events."""
EVENTS_FOR_MS: Final = DAY_MS
"""For how long an event can be read, as promised; the tables keep it for twice that."""
BLOCK_EVENTS: Final = 10_000
"""Events of a block at most, which bounds its partition."""
BLOCK_MS: Final = HOUR_MS
"""A block takes no event later than this after its first one (monotonic time), so that a reader that looks for an
instant reads at most as much too much."""
BATCH_EVENTS: Final = 200
BATCH_BYTES: Final = 65_536
"""What is appended with one write, at most. One event may be larger."""
_ID_BITS: Final = (1 << 128) - 1


class EventType(StrEnum):
    """What an event tells. The words are part of the API."""

    DELIVERED = "schedule.delivered"
    FAILED = "schedule.failed"
    CANCELLED = "schedule.cancelled"
    SKIPPED = "schedule.skipped"
    OVERDUE = "schedule.overdue"
    CRON_MISSED = "cron.missed"
    DESTINATION_OPENED = "destination.opened"
    DESTINATION_CLOSED = "destination.closed"
    QUOTA_EXCEEDED = "quota.exceeded"
    BOOKS_UNBALANCED = "books.unbalanced"


OF_STATE: Final = {
    State.DELIVERED: EventType.DELIVERED,
    State.FAILED: EventType.FAILED,
    State.CANCELLED: EventType.CANCELLED,
    State.SKIPPED: EventType.SKIPPED,
}
"""The type of the event that tells of a schedule's end."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event. `at`: when it happened, by the clock of who noticed it; `data`: JSON text of an object of
    a few kilobytes at most, whose members depend on the type. `type` is text, since a newer program may know others."""

    event_id: UUID
    type: str
    at: UnixMillis
    schedule_id: ScheduleId | None = None
    data: str = "{}"

    @property
    def size(self) -> int:
        """About how many bytes it has in a request."""
        return 100 + len(self.data.encode())


class Block(NamedTuple):
    """Where consecutive events of a track are stored. Blocks of a track are ordered by epoch, then by number."""

    track: str
    epoch: int
    number: int


class Position(NamedTuple):
    """A place in a track: behind the event `seq` of this block. -1: before its first one."""

    epoch: int
    block: int
    seq: int

    def of(self, track: str) -> Block:
        return Block(track, self.epoch, self.block)


FIRST: Final = Position(0, 0, -1)
"""Before everything of a track."""


class StoredBlock(NamedTuple):
    """A block that a writer has begun; it may be empty."""

    block: Block
    begun_at: UnixMillis


class PlacedEvent(NamedTuple):
    """An event in its track: the position behind it."""

    track: str
    position: Position
    event: Event


def track_of(poller_id: PollerId) -> str:
    """The track of the outcomes of a poller's rows. Tracks sort as texts by number."""
    return f"{poller_id:04}"


def track_of_built_in(client_id: ClientId, poller_id: PollerId) -> str:
    """The track in which the owner of this poller of a built-in client, such as `$events`, appends to any client's
    feed."""
    return f"{client_id}/{poller_id:04}"


def derived_event_id(client_id: ClientId, *told: object) -> UUID:
    """The same id for the same content, in every process (version 8, 122 bits of BLAKE2b). `told`: what happened, as
    values with a stable text; the first one is the event's type, or what stands for it."""
    digest = hashlib.blake2b("\n".join([client_id, *map(str, told)]).encode(), digest_size=16).digest()
    value = int.from_bytes(digest, "big")
    return UUID(int=value & ~(0xF << 76) & ~(0b11 << 62) & _ID_BITS | 0x8 << 76 | 0b10 << 62)


def id_of_end(client_id: ClientId, schedule_id: UUID, outcome: Outcome) -> UUID:
    """The id of the event of this end. A schedule that is delivered again ends again, after further attempts."""
    return derived_event_id(client_id, OF_STATE[outcome.state], schedule_id, outcome.attempts)
