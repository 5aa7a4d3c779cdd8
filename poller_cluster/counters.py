"""A node's counts of its calls, for Prometheus: plain numbers, incremented as each call is made.

Counting costs 1.0 µs a call (`tests/bench/counting.py`): 0.7 when its attempt has ended, 0.3 when its outcome is
recorded; a hundredth of the cost of the call. Wake-ups of crons are rows of the client `$cron` and no calls: they are
counted elsewhere (`usecases.expand_crons`).
"""

from typing import Final

from poller_cluster.delivery.result import AttemptError, AttemptResult
from poller_cluster.delivery.token_request import FAILURE_CODES, TokenFailure
from poller_cluster.destination_counts import DestinationCounts
from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.tokens import TokenKey
from scheduler_service.domain.call_figures import LATENESS_BOUNDS
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.domain.destinations import names_destination
from scheduler_service.domain.ids import ClientId, due_of
from scheduler_service.domain.notices import EVENTS_CLIENT
from scheduler_service.domain.retry_rows import SUPERSEDED
from scheduler_service.domain.schedules import Outcome, Row, State
from scheduler_service.domain.targets import HTTP
from scheduler_service.runtime.busiest import Busiest
from scheduler_service.runtime.metrics import Distribution

_SHORT: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)
DURATION_BOUNDS: Final = (*_SHORT, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds. The longest time-out that an operator may allow is the last."""
GUARANTEED: Final = "guaranteed"
BEYOND: Final = "beyond"
DEFERRED: Final = "deferred"
"""First attempts of rows within, and beyond, the thousand a minute that a poller guarantees; and of rows that had been
deferred or requeued: their breaker was open, an earlier row of their ordering key had not ended, they came too late."""
CLASSES: Final = ("2xx", "3xx", "4xx", "5xx")
_OF_STATUS: Final = dict(zip(range(2, 6), CLASSES, strict=True))
_OF_ERROR: Final[dict[AttemptError, str]] = {
    "bad-response": "bad_response",
    "connect-failed": "connect",
    "connect-refused": "connect",
    "forbidden-address": "refused_by_policy",
    "forbidden-port": "refused_by_policy",
    "proxy-failed": "connect",
    "reset": "reset",
    "resolve-failed": "dns",
    "timeout": "timeout",
    "rejected": "rejected",
    "tls-failed": "tls",
    "unavailable": "unavailable",
}
ACKNOWLEDGED: Final = "acknowledged"
"""A target took the call; it knows no statuses."""
OTHER_CLASS: Final = "other"
CODE_CLASSES: Final = tuple(dict.fromkeys((*CLASSES, ACKNOWLEDGED, *_OF_ERROR.values(), OTHER_CLASS)))
"""The possible results of an attempt."""
GRANTED: Final = "granted"
_BUILT_IN: Final = (CRON_CLIENT, EVENTS_CLIENT)
_ENDS: Final = (State.DELIVERED, State.FAILED, State.SKIPPED)


class ClientCounts:
    """The counts of one client, or of all clients without a label of their own."""

    __slots__ = ("failed_attempts", "fires", "lateness_seconds")

    def __init__(self) -> None:
        self.failed_attempts = 0
        self.fires = 0
        self.lateness_seconds = 0.0


class CallCounts:
    """All counts of one node. `named_clients`: how many clients are shown by name."""

    def __init__(self, *, named_clients: int = 20) -> None:
        self.lateness = {share: Distribution(LATENESS_BOUNDS) for share in (GUARANTEED, BEYOND, DEFERRED)}
        self.attempts: dict[tuple[str, str], int] = {(HTTP, one): 0 for one in CODE_CLASSES}
        """By the kind of what was called, one that the operator has switched on, and the class of result."""
        self.durations = {HTTP: Distribution(DURATION_BOUNDS)}
        """By the kind."""
        self.outcomes: dict[str, int] = {state.value: 0 for state in _ENDS}
        self.skipped: dict[str, int] = {"late": 0}
        self.in_doubt = 0
        """Rows found that an earlier owner may have called."""
        self.fenced = 0
        """Writes that were rejected by a newer owner's epoch."""
        self.clients = Busiest(most=named_clients, new=ClientCounts)
        self.destinations = DestinationCounts()
        self.token_fetches: dict[str, int] = dict.fromkeys((GRANTED, *FAILURE_CODES), 0)
        """Fetches of tokens that ended, by what came of them."""
        self.events = 0
        """Events that were appended to feeds."""

    def attempt_made(self, job: Job, result: AttemptResult) -> None:
        """An attempt has ended."""
        if job.owner.client_id in _BUILT_IN:
            return
        status, error, row = result.status, result.error, job.claim.row
        if status is not None:
            code_class = _OF_STATUS.get(status // 100, OTHER_CLASS)
        else:
            code_class = ACKNOWLEDGED if error is None else _OF_ERROR.get(error, OTHER_CLASS)
        if result.kind not in self.durations:
            self.attempts |= {(result.kind, one): 0 for one in CODE_CLASSES}
            self.durations[result.kind] = Distribution(DURATION_BOUNDS)
        self.attempts[result.kind, code_class] += 1
        self.durations[result.kind].observe(result.duration_seconds)
        if names_destination(row.url):
            self.destinations.attempt_made(job.owner.client_id, row, result)
        if not result.succeeded:
            self.clients.account(job.owner.client_id).failed_attempts += 1
        if job.claim.first_attempt_at is None and not row.attempt_base:
            late = max(result.started_at_ms - due_of(row.schedule_id), 0) / 1000.0
            share = DEFERRED if row.is_retry_row else BEYOND if job.over_quota else GUARANTEED
            self.lateness[share].observe(late)
            client = self.clients.account(job.owner.client_id)
            client.fires += 1
            client.lateness_seconds += late

    def token_fetched(self, key: TokenKey, failure: TokenFailure | None, *, now: int) -> None:
        """A fetch of a token has ended at `now`, Unix milliseconds."""
        self.token_fetches[GRANTED if failure is None else failure.code] += 1
        if failure is not None:
            self.destinations.token_failed(key, now=now)

    def events_appended(self, events: int) -> None:
        """A batch of events was acknowledged."""
        self.events += events

    def recorded(self, client_id: ClientId, row: Row, outcome: Outcome) -> None:
        """An outcome of this node is durable. The end of a superseded retry row is not counted: no schedule ends."""
        state = outcome.state
        if state is State.RETRYING and names_destination(row.url):
            self.destinations.recorded(client_id, row, outcome)
        if client_id in _BUILT_IN or state is State.RETRYING or outcome.reason == SUPERSEDED:
            return
        self.outcomes[state] = self.outcomes.get(state, 0) + 1
        if state is State.SKIPPED:
            reason = outcome.reason or "unknown"
            self.skipped[reason] = self.skipped.get(reason, 0) + 1
