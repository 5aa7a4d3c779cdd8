"""What this room counts of its work, for Prometheus, and the connection that counts it.

Counting adds 1.0 µs to a request (`tests/bench/counting.py`): two clock reads, a coroutine, one count. The rows of a
request share that. A batch, conditional or not, counts under its first statement, which bounds the number of labels.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from cql.connection import AnswerRows, Connection, Consistency, Item, Parameters
from cql.errors import UNANSWERED_REASONS, unanswered_reason
from membership.conditional import Answer, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.errors import ContentTooLarge, Overloaded
from scheduler_service.domain.ids import due_of
from scheduler_service.domain.schedules import ExternalUpdate, State
from scheduler_service.runtime.metrics import Distribution, Kind, Metric

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
ROWS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500)
UNAVAILABLE, OVERLOADED, TOO_LARGE, REFUSED = "unavailable", "overloaded", "too-large", "refused"
ERROR_KINDS: Final = (*UNANSWERED_REASONS, UNAVAILABLE, OVERLOADED, TOO_LARGE, REFUSED)
"""Why a request failed: no answer (the driver's reason, else `unavailable`), not sent for lack of room, refused for its
size, refused for another reason."""


OnRequest: TypeAlias = Callable[[float, bool], None]
"""Is told the seconds that a request took, and whether storage answered it."""


class RequestCounts:
    """By statement: durations of requests, failed ones included, and reasons of failures. `on_request` is told
    of each request."""

    __slots__ = ("_on_request", "errors", "seconds")

    def __init__(self, on_request: OnRequest = lambda seconds, answered: None) -> None:
        self.seconds: dict[str, Distribution] = {}
        self.errors: dict[tuple[str, str], int] = {}
        self._on_request = on_request

    def ended(self, name: str, seconds: float, *, answered: bool = True) -> None:
        self._on_request(seconds, answered)
        distribution = self.seconds.get(name)
        if distribution is None:
            distribution = self.seconds[name] = Distribution(SECONDS)
        distribution.observe(seconds)

    def failed(self, name: str, kind: str) -> None:
        self.errors[name, kind] = self.errors.get((name, kind), 0) + 1


class CommitCounts:
    """Counts of group commit. `waited`: from submission to sending, by submission and partition. `stored`: acknowledged
    rows. `refused`: rows for which there was no room."""

    __slots__ = ("refused", "rows", "stored", "waited")

    def __init__(self) -> None:
        self.rows = Distribution(ROWS)
        self.waited = Distribution(SECONDS)
        self.stored = 0
        self.refused = 0


class UpdateCounts:
    """Schedules that ended by an external update: cancelled, or created as skipped. For a retrying schedule the
    original counts, not its retry row."""

    __slots__ = ("ended", "skipped")

    def __init__(self) -> None:
        self.ended: dict[str, int] = {State.CANCELLED.value: 0}
        self.skipped: dict[str, int] = {}

    def applied(self, update: ExternalUpdate) -> None:
        for write in update.writes:
            state, reason = write.outcome.state, write.outcome.reason or "unknown"
            if write.key.due != due_of(write.key.schedule_id):
                continue
            if state is State.CANCELLED:
                self.ended[state] += 1
            elif state is State.SKIPPED and write.expect_state is State.SCHEDULED:
                self.ended[state] = self.ended.get(state, 0) + 1
                self.skipped[reason] = self.skipped.get(reason, 0) + 1


@dataclass(slots=True)
class PauseCounts:
    """Pauses of partitions whose conditional write or serial read got no answer (`cql.partition_turns`). `now`: paused
    partitions. `begun`: pauses since the start."""

    now: int = 0
    begun: int = 0


@dataclass(frozen=True, slots=True)
class StorageMetrics:
    """Everything that is counted over one connection."""

    requests: RequestCounts = field(default_factory=RequestCounts)
    commits: CommitCounts = field(default_factory=CommitCounts)
    external_updates: UpdateCounts = field(default_factory=UpdateCounts)
    pauses: PauseCounts = field(default_factory=PauseCounts)


class MeasuredConnection:
    """A `Connection` that counts what it passes on. Requests whose caller was cancelled are not counted."""

    def __init__(self, connection: Connection, *, counts: RequestCounts, monotonic: Callable[[], float]) -> None:
        self._connection = connection
        self._counts = counts
        self._monotonic = monotonic

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[Any, ...]]:
        began = self._monotonic()
        try:
            rows = await self._connection.select(name, parameters, serial=serial, consistency=consistency)
        except Exception as error:
            self._failed(name, began, error)
            raise
        self._counts.ended(name, self._monotonic() - began)
        return rows

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        began = self._monotonic()
        try:
            await self._connection.write(name, parameters, consistency=consistency)
        except Exception as error:
            self._failed(name, began, error)
            raise
        self._counts.ended(name, self._monotonic() - began)

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        began = self._monotonic()
        try:
            await self._connection.write_batch(items, consistency=consistency)
        except Exception as error:
            self._failed(items[0][0], began, error)
            raise
        self._counts.ended(items[0][0], self._monotonic() - began)

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        began, name = self._monotonic(), items[0][0]
        try:
            answer = await self._connection.conditional(items)
        except Exception as error:
            self._failed(name, began, error)
            raise
        self._counts.ended(name, self._monotonic() - began, answered=not isinstance(answer, Unknown))
        if isinstance(answer, Unknown):
            self._counts.failed(name, answer.reason if answer.reason in ERROR_KINDS else UNAVAILABLE)
        return answer

    def replicas(self, name: str, parameters: Parameters) -> Hashable:
        return self._connection.replicas(name, parameters)

    async def close(self) -> None:
        await self._connection.close()

    def _failed(self, name: str, began: float, error: Exception) -> None:
        answered = not isinstance(error, Overloaded | StoreUnavailable)
        self._counts.ended(name, self._monotonic() - began, answered=answered)
        match error:
            case Overloaded():
                kind = OVERLOADED
            case StoreUnavailable():
                cause = error.__cause__
                kind = (None if cause is None else unanswered_reason(cause)) or UNAVAILABLE
            case ContentTooLarge():
                kind = TOO_LARGE
            case _:
                kind = REFUSED
        self._counts.failed(name, kind)


METRICS: Final[tuple[Metric[StorageMetrics], ...]] = (
    Metric(
        "minutehand_storage_request_duration_seconds",
        Kind.HISTOGRAM,
        "Seconds from a request to Cassandra to its answer or time-out; a batch counts as its first statement.",
        lambda metrics: metrics.requests.seconds,
        labels=("statement",),
    ),
    Metric(
        "minutehand_storage_errors_total",
        Kind.COUNTER,
        "Requests to Cassandra that failed or whose result is unknown, by statement and kind of error.",
        lambda metrics: metrics.requests.errors,
        labels=("statement", "kind"),
    ),
    Metric(
        "minutehand_storage_partitions_paused",
        Kind.GAUGE,
        "Partitions of schedules to which no conditional request is sent for now, as the last one got no answer.",
        lambda metrics: metrics.pauses.now,
    ),
    Metric(
        "minutehand_storage_partition_pauses_total",
        Kind.COUNTER,
        "Pauses of single partitions after a conditional write or serial read that got no answer.",
        lambda metrics: metrics.pauses.begun,
    ),
    Metric(
        "minutehand_group_commit_rows",
        Kind.HISTOGRAM,
        "Rows of schedules in one request of group commit.",
        lambda metrics: metrics.commits.rows,
    ),
    Metric(
        "minutehand_group_commit_wait_seconds",
        Kind.HISTOGRAM,
        "Seconds that new rows waited in group commit for others to share their request.",
        lambda metrics: metrics.commits.waited,
    ),
    Metric(
        "minutehand_group_commit_stored_rows_total",
        Kind.COUNTER,
        "Rows of schedules that storage acknowledged to group commit: creates, fires of crons, retry rows.",
        lambda metrics: metrics.commits.stored,
    ),
    Metric(
        "minutehand_group_commit_refused_rows_total",
        Kind.COUNTER,
        "Rows that group commit refused because its queue was full: the API sheds load (503, Retry-After).",
        lambda metrics: metrics.commits.refused,
    ),
)
"""The storage metrics of APIs and nodes. Ends by external updates are shown with the other ends of the program."""
