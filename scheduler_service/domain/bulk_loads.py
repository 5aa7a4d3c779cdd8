"""Bulk loads: what is fixed when one begins, so that every later run of it makes the same rows. Pure.

    begun --run--> running --every row judged--> whole --.
                    ^   |                                |
                    |   `--cut short--> partial --.      |    (or still `running`, if the run died)
                    |                             |      |
                    `----------------run----------'------'    any number of times

A row's id and definition derive from the load and the row alone: pollers and creation instant are the load's, the id
derives from client, load, key and due. So the same row inserted again has equal values, in any run."""

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
    """`load_id`: its name, a namespace of keys. `key_column`: the input's column of keys. `pollers`: rows are spread
    over 0 to `pollers` - 1. `started_at`: when it was first begun, which is its rows' `created_at`."""

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
