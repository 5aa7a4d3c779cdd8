"""Ids, instants and addresses.

A schedule_id is a UUID of version 8 that carries the address of its row: 48 bits due time in Unix milliseconds, 16 bits
poller_id (12 before the variant bits, 4 behind them), 58 bits random or derived. Ids sort by due time. With the
client_id from the path, an id leads to exactly one row, without a look-up table.

    0                                                 48   52             64 66   70                        128
    | due, Unix ms                                    | 8  | poller 15..4 | 10 | p3..0 | random or derived   |
"""

import hashlib
from typing import NamedTuple, NewType
from uuid import UUID

from scheduler_service.runtime.randomness import Randomness

ClientId = NewType("ClientId", str)
PollerId = NewType("PollerId", int)
CronId = NewType("CronId", str)
ScheduleId = NewType("ScheduleId", UUID)
UnixMillis = NewType("UnixMillis", int)
"""An instant: milliseconds since 1970-01-01T00:00Z."""
Minute = NewType("Minute", int)
"""A UTC minute: minutes since 1970-01-01T00:00Z."""
Hour = NewType("Hour", int)
"""A UTC hour: hours since 1970-01-01T00:00Z. Buckets the index tables."""

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MINUTES_PER_HOUR = 60
MAX_POLLERS = 1024
MAX_DUE = UnixMillis((1 << 48) - 1)

_TAIL_BITS = 58
_TAIL_MASK = (1 << _TAIL_BITS) - 1
_VERSION = 0x8 << 76
_VARIANT = 0b10 << 62


class Partition(NamedTuple):
    """The Cassandra partition of one poller's minute."""

    client_id: ClientId
    poller_id: PollerId
    minute: Minute


class RowKey(NamedTuple):
    """The clustering key of a row within its partition. Orders by due, then by id."""

    due: UnixMillis
    schedule_id: ScheduleId


def minute_of(instant: int) -> Minute:
    return Minute(instant // MINUTE_MS)


def hour_of(minute: int) -> Hour:
    return Hour(minute // MINUTES_PER_HOUR)


def minute_start(minute: int) -> UnixMillis:
    return UnixMillis(minute * MINUTE_MS)


def minute_end(minute: int) -> UnixMillis:
    """The first millisecond after the minute."""
    return UnixMillis((minute + 1) * MINUTE_MS)


def compose_schedule_id(*, due: int, poller_id: int, tail: int) -> ScheduleId:
    """The id of a schedule due at `due` in poller `poller_id`; `tail` gives its 58 free bits."""
    return ScheduleId(
        UUID(
            int=due << 80
            | _VERSION
            | (poller_id >> 4) << 64
            | _VARIANT
            | (poller_id & 0xF) << _TAIL_BITS
            | tail & _TAIL_MASK
        )
    )


def new_schedule_id(*, due: int, poller_id: int, randomness: Randomness) -> ScheduleId:
    return compose_schedule_id(due=due, poller_id=poller_id, tail=randomness.bits(_TAIL_BITS))


def derived_schedule_id(*, due: int, poller_id: int, name: str) -> ScheduleId:
    """The same id for the same due, poller and name, in every process (58 bits of the name's BLAKE2b)."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return compose_schedule_id(due=due, poller_id=poller_id, tail=int.from_bytes(digest, "big"))


def redated(schedule_id: UUID, due: int) -> ScheduleId:
    """The id in the same poller and with the same free bits, of a schedule due at `due`."""
    return ScheduleId(UUID(int=due << 80 | schedule_id.int & (1 << 80) - 1))


def due_of(schedule_id: UUID) -> UnixMillis:
    return UnixMillis(schedule_id.int >> 80)


def poller_of(schedule_id: UUID) -> PollerId:
    value = schedule_id.int
    return PollerId((value >> 64 & 0xFFF) << 4 | value >> _TAIL_BITS & 0xF)


def is_schedule_id(value: UUID) -> bool:
    """Whether a UUID can be a schedule_id: version 8, the RFC's variant, and a poller that can exist."""
    return value.int >> 76 & 0xF == 0x8 and value.int >> 62 & 0b11 == 0b10 and poller_of(value) < MAX_POLLERS


def partition_of(client_id: ClientId, schedule_id: UUID) -> Partition:
    """Where the original row of a schedule is."""
    return Partition(client_id, poller_of(schedule_id), minute_of(schedule_id.int >> 80))


def key_of(schedule_id: ScheduleId) -> RowKey:
    """The clustering key of the original row of a schedule."""
    return RowKey(due_of(schedule_id), schedule_id)
