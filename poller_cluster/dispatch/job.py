"""What the dispatcher works on: claimed rows on their way, and the engine that makes the calls."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.destinations import Destination
from scheduler_service.domain.ids import ClientId, RowKey, UnixMillis
from scheduler_service.domain.schedules import Outcome, Row


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A row that is ours to send: named by an applied advance and free of any outcome since.

    `redelivery`: an earlier owner may have called already. `first_attempt_at` and what the last attempt
    came to are the schedule's, for a retry row. `found_at`: see `PendingRow`.
    """

    row: Row
    redelivery: bool
    first_attempt_at: UnixMillis | None
    last_status: int | None = None
    last_error: str | None = None
    found_at: int = 0


class Engine(Protocol):
    """What makes the HTTP requests (`delivery.engine`)."""

    @property
    def capacity(self) -> int:
        """How many attempts may be under way at a time."""

    @property
    def in_flight(self) -> int:
        """How many are."""

    def start_attempt(
        self, request: CallbackRequest, on_done: Callable[[AttemptResult], None], *, may_start: Callable[[], bool]
    ) -> None:
        """Start; `on_done` is called exactly once, later, on the loop. `may_start` is asked again at the socket."""


class Owner(Protocol):
    """The run of a minute, whose rows these are."""

    client_id: ClientId
    epoch: int

    def attempt_ended(self, key: RowKey, outcome: Outcome, *, now: int) -> None:
        """A row has its outcome, at `now` (wall time, Unix milliseconds)."""

    def may_send(self) -> bool:
        """Whether its rows are still its own, to the last moment."""

    def queued_again(self) -> None:
        """The attempt of a row ended before anything was sent: it may be taken back again."""


class Job(msgspec.Struct, eq=False):
    """One claimed row on its way, which `owner` may take back until it is started. `over_quota`: beyond what its poller
    is guaranteed in this minute. `called`: it has waited for its destination, and its turn there has come."""

    owner: Owner
    claim: Claim
    due: UnixMillis
    over_quota: bool = False
    called: bool = False
    destination: "Destination[Job] | None" = None
