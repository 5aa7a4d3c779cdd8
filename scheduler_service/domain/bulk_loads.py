"""Bulk loads: what is fixed when one begins, so that every later run of it makes the same rows. Pure.

    begun --run--> running --every row judged--> whole
                      |  ^-------- run ---------- | (any number of times)
                      '--cut short--> partial (or still `running`, where nobody was left to say so)

A row's id and its definition follow from the load and the row alone: the pollers and the creation instant are the
load's, the id derives from client, load, key and due. So the same row inserted again has equal values, in whichever
run."""

from enum import StrEnum

import msgspec

from scheduler_service.domain.ids import ClientId, PollerId, ScheduleId, UnixMillis, derived_schedule_id

MAX_NAME = 256
"""Characters of a load's name."""


class BulkState(StrEnum):
    """How far the last run came."""

    RUNNING = "running"
    PARTIAL = "partial"
    WHOLE = "whole"


class BulkLoad(msgspec.Struct, frozen=True, kw_only=True):
    """`load_id`: its name, one namespace of keys. `key_column`: where the input has them. `pollers`: over which rows
    are spread, 0 to `pollers` - 1. `started_at`: when it was first begun, which is when its rows count as created."""

    client_id: ClientId
    load_id: str
    key_column: str
    pollers: int
    started_at: UnixMillis
    state: BulkState = BulkState.RUNNING
    state_at: UnixMillis

    def schedule_id(self, *, key: str, due: int, poller_id: PollerId) -> ScheduleId:
        """The same for the same key and due, in every run."""
        name = "\0".join(("bulk", self.client_id, self.load_id, key))
        return derived_schedule_id(due=due, poller_id=poller_id, name=name)
