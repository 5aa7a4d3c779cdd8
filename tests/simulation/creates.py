"""The schedules that callers of the simulated API created, and the order in which they must have been called."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from uuid import UUID

from scheduler_service.domain.flows import Flow
from scheduler_service.domain.ids import (
    ClientId,
    PollerId,
    ScheduleId,
    UnixMillis,
    due_of,
    key_of,
    minute_start,
    partition_of,
    poller_of,
)
from tests.simulation.receivers import Call

IN_TIME_MS = 6_000
"""A row acknowledged this long before its minute begins is read in time, even without its hint."""


@dataclass
class CreateRecord:
    """One create, as its caller knows it."""

    client_id: ClientId
    schedule_id: ScheduleId
    due: UnixMillis
    ordering_key: str | None = None
    in_time: bool = False
    acknowledged: bool = False
    cancelled: bool = False
    end: str | None = None
    calls: list[Call] = field(default_factory=list)
    flow: Flow | None = None
    destination: str | None = None
    """The one that its callback names."""
    in_line: int | None = None
    """The number of calls made before a redelivery was requested: redeliveries are not in order."""

    @cached_property
    def address(self) -> tuple[tuple[object, ...], tuple[object, ...]]:
        """The keys of its row in the table of schedules: partition and clustering."""
        client_id, poller_id, minute = partition_of(self.client_id, self.schedule_id)
        return (client_id, poller_id, minute_start(minute)), (*key_of(self.schedule_id),)

    @property
    def calls_in_line(self) -> list[Call]:
        return self.calls[: self.in_line]


def record_of(asked: dict[str, CreateRecord], call: Call) -> CreateRecord:
    """The schedule that a call is for. Fires of crons are created by no caller; their first call adds them."""
    if call.schedule_id not in asked and call.cron_id is not None:
        schedule_id = ScheduleId(UUID(call.schedule_id))
        asked[call.schedule_id] = CreateRecord(ClientId(call.client_id), schedule_id, due_of(schedule_id))
    return asked[call.schedule_id]


def out_of_order(asked: Iterable[CreateRecord]) -> tuple[ScheduleId, ScheduleId] | None:
    """Two rows of one key that were called out of order, or None. If both were created before their minutes were read,
    the later row is called only after the last call of the earlier one.
    """
    keys: dict[tuple[ClientId, PollerId, str], list[CreateRecord]] = {}
    for each in asked:
        if each.ordering_key is not None and each.calls_in_line and each.in_time:
            poller = poller_of(each.schedule_id)  # the key's poller may differ under another quota
            keys.setdefault((each.client_id, poller, each.ordering_key), []).append(each)
    for rows in keys.values():
        rows.sort(key=lambda each: each.schedule_id)
        for earlier, later in pairwise(rows):
            if earlier.calls_in_line[-1].at_ms > later.calls_in_line[0].at_ms:
                return earlier.schedule_id, later.schedule_id
    return None
