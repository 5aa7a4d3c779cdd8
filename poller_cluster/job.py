"""What the dispatcher works on: claimed rows on their way, and the engine that makes the calls."""

from collections.abc import Callable
from typing import Protocol

from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.destinations import Destination
from poller_cluster.steps import Claim
from scheduler_service.domain.ids import ClientId, RowKey
from scheduler_service.domain.schedules import Outcome


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


class Job:
    """One claimed row on its way. `done` hears its outcome; `may_start` says whether its owner still owns it, to the
    last moment. `owner` may take it back until it is started, and again after `queued_again` was called: the attempt
    ended before anything was sent. `over_quota`: beyond what its poller is guaranteed in this minute."""

    __slots__ = (
        "called",
        "claim",
        "client_id",
        "destination",
        "done",
        "due",
        "epoch",
        "may_start",
        "over_quota",
        "owner",
        "queued_again",
    )

    def __init__(
        self,
        *,
        client_id: ClientId,
        claim: Claim,
        epoch: int,
        owner: object,
        done: Callable[[RowKey, Outcome], None],
        may_start: Callable[[], bool],
        queued_again: Callable[[], None],
        over_quota: bool = False,
    ) -> None:
        self.client_id = client_id
        self.destination: Destination[Job] | None = None
        self.called = False
        """It has waited for its destination, and its turn there has come."""
        self.over_quota = over_quota
        self.claim = claim
        self.epoch = epoch
        self.owner = owner
        self.done = done
        self.may_start = may_start
        self.queued_again = queued_again
        self.due = claim.row.due
