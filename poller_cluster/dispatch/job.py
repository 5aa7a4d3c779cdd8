"""What the dispatcher works with: claimed rows, and the owner that gets the results."""

from typing import Protocol

import msgspec

from poller_cluster.clients import ServedClient
from poller_cluster.dispatch.flows import FlowPlace
from poller_cluster.dispatch.receivers import Receiver
from scheduler_service.domain.ids import ClientId, RowKey, UnixMillis
from scheduler_service.domain.schedules import Outcome, Row
from scheduler_service.domain.waits import Waits


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A row that this node may send: an applied commit names it, and it has no outcome.

    `redelivery`: an earlier owner may have called already. Of a retry row, `first_attempt_at`, `last_status` and
    `last_error` are the schedule's. `found_at` and `waits` (there `waited`): see `PendingRow`. `word`: it is no call,
    but says or awaits a receiver's word (`dispatch.words`). `overdue`: its call counts for the overdue rates.
    """

    row: Row
    redelivery: bool
    first_attempt_at: UnixMillis | None
    last_status: int | None = None
    last_error: str | None = None
    found_at: int = 0
    waits: Waits | None = None
    word: str | None = None
    overdue: bool = False


class ClaimingRun(Protocol):
    """The run of a minute that owns the rows."""

    client_id: ClientId
    epoch: int
    began_ms: int
    """When this run of the minute began (Unix milliseconds)."""

    def attempt_ended(self, key: RowKey, outcome: Outcome, *, now: int) -> None:
        """A row has its outcome, at `now` (wall time, Unix milliseconds)."""

    def may_send(self) -> bool:
        """Whether it still owns its rows; asked until right before a request is sent."""

    def long_call(self, key: RowKey, *, under_way: bool) -> None:
        """A long call of this row has begun or ended."""

    def queued_again(self) -> None:
        """An attempt ended before anything was sent: its row waits in the dispatcher again, and may be taken back."""


class Job(msgspec.Struct, eq=False):
    """One claimed row, which `owner` may take back until its attempt starts. `over_quota`: beyond what its poller is
    guaranteed in this minute. `called`: it has waited for its receiver or flow, and its turn there has come. `long`: it
    has a place among the long calls. `overdue`: it has a token of an overdue rate, and has not started.
    `fired_by`: what is recorded as such of a late call; None: the incarnation alone.
    `parked_for`: what it was parked for last, at `parked_at`."""

    owner: ClaimingRun
    claim: Claim
    due: UnixMillis
    over_quota: bool = False
    called: bool = False
    receiver: "Receiver[Job] | None" = None
    flow: "FlowPlace[Job] | None" = None
    long: bool = False
    overdue: bool = False
    fired_by: str | None = None
    parked_for: str | None = None
    parked_at: int = 0

    def waits_for(self, cause: str, at: int) -> None:
        """It is parked from `at` on (Unix milliseconds). Until it starts, or is parked for another cause, it counts as
        waiting for this one: few rows are late, so parking and taking back costs no more than this."""
        if self.parked_for != cause:
            self.count_parked(at)
            self.parked_for, self.parked_at = cause, max(at, self.due)

    def count_parked(self, now: int) -> None:
        """Count the time for which it was parked, in the waits of its claim."""
        if self.parked_for is None:
            return
        if self.claim.waits is None:
            self.claim = msgspec.structs.replace(self.claim, waits=Waits())
        assert self.claim.waits is not None
        self.claim.waits.add(self.parked_for, now - self.parked_at)
        self.parked_for = None


class Turn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What holds for all attempts started in one client's turn: the client, and the clocks as read at its begin. Rows
    due by `now` may start; `earliest` is the time by which lateness is judged."""

    client: ServedClient
    now: int
    earliest: int
    wall_ms: int
    monotonic: float
