"""What the dispatcher works with: claimed rows, and the owner that gets the results."""

from typing import Protocol

import msgspec

from poller_cluster.dispatch.flows import FlowPlace
from poller_cluster.dispatch.receivers import Receiver
from scheduler_service.domain.ids import ClientId, RowKey, UnixMillis
from scheduler_service.domain.schedules import Outcome, Row


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A row that this node may send: an applied commit names it, and it has no outcome.

    `redelivery`: an earlier owner may have called already. Of a retry row, `first_attempt_at`, `last_status` and
    `last_error` are the schedule's. `found_at`: see `PendingRow`.
    """

    row: Row
    redelivery: bool
    first_attempt_at: UnixMillis | None
    last_status: int | None = None
    last_error: str | None = None
    found_at: int = 0


class ClaimingRun(Protocol):
    """The run of a minute that owns the rows."""

    client_id: ClientId
    epoch: int

    def attempt_ended(self, key: RowKey, outcome: Outcome, *, now: int) -> None:
        """A row has its outcome, at `now` (wall time, Unix milliseconds)."""

    def may_send(self) -> bool:
        """Whether it still owns its rows; asked until right before a request is sent."""

    def queued_again(self) -> None:
        """An attempt ended before anything was sent: its row waits in the dispatcher again, and may be taken back."""


class Job(msgspec.Struct, eq=False):
    """One claimed row, which `owner` may take back until its attempt starts. `over_quota`: beyond what its poller is
    guaranteed in this minute. `called`: it has waited for its receiver or flow, and its turn there has come."""

    owner: ClaimingRun
    claim: Claim
    due: UnixMillis
    over_quota: bool = False
    called: bool = False
    receiver: "Receiver[Job] | None" = None
    flow: "FlowPlace[Job] | None" = None
