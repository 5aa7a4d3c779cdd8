"""A node's counts of its calls to destinations: attempts of the last hour, calls that come back later, and failed
fetches of tokens. Pure.

Only calls that name a destination are counted, each for 1.5 µs; `destination_figures` shows them.
"""

from typing import Final

from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.outcome import DESTINATION_LOCKED, RECEIVER_OPEN, TOKEN_UNAVAILABLE
from poller_cluster.dispatch.tokens import MAX_SOURCES, TokenKey
from scheduler_service.domain.destination_figures import NO_FIGURES, AttemptCounts, NodeFigures
from scheduler_service.domain.destinations import read_named_url
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.retry_rows import DESTINATION_PAUSED
from scheduler_service.domain.schedules import Outcome, Row

MOST: Final = 10_000
"""Destinations that are counted at a time; beyond, those that began to be counted first are forgotten."""
_SECONDS: Final = 2_048
"""Seconds in which calls come back, of one destination; beyond, those that have passed are forgotten."""
_DEFERRALS: Final = frozenset({DESTINATION_PAUSED, DESTINATION_LOCKED, RECEIVER_OPEN, TOKEN_UNAVAILABLE})
"""Why a call comes back later for its destination's sake."""


class _Counts:
    __slots__ = ("attempts", "back_in")

    def __init__(self) -> None:
        self.attempts = AttemptCounts()
        self.back_in: dict[int, int] = {}
        """How many calls come back in a second, Unix time."""

    def defer_until(self, at: int, now: int) -> None:
        second = at // 1000
        if second not in self.back_in and len(self.back_in) >= _SECONDS:
            self.back_in = {then: calls for then, calls in self.back_in.items() if then * 1000 > now}
        self.back_in[second] = self.back_in.get(second, 0) + 1

    def deferred_at(self, now: int) -> int:
        return sum(calls for then, calls in self.back_in.items() if then * 1000 > now)


class DestinationCounts:
    """The counts of one node. Every `now` is Unix milliseconds."""

    def __init__(self) -> None:
        self._of: dict[tuple[ClientId, str], _Counts] = {}
        self._fetches: dict[TokenKey, AttemptCounts] = {}
        """Those that failed, by source."""

    def attempt_made(self, client_id: ClientId, row: Row, result: AttemptResult) -> None:
        """An attempt has ended."""
        counts = self._named(client_id, row)
        if counts is not None:
            seconds = result.duration_seconds
            counts.attempts.ended(
                answered_after=seconds if result.error is None else None,
                succeeded=result.succeeded,
                now=result.started_at_ms + round(seconds * 1000),
            )

    def recorded(self, client_id: ClientId, row: Row, outcome: Outcome) -> None:
        """An outcome of this node is durable."""
        at = outcome.next_attempt_at
        if at is not None and outcome.reason in _DEFERRALS and (counts := self._named(client_id, row)) is not None:
            counts.defer_until(at, row.due)

    def token_failed(self, key: TokenKey, *, now: int) -> None:
        """A fetch from a token source has failed."""
        counts = self._fetches.get(key)
        if counts is None:
            while len(self._fetches) >= MAX_SOURCES:
                del self._fetches[next(iter(self._fetches))]
            counts = self._fetches[key] = AttemptCounts()
        counts.ended(answered_after=None, succeeded=False, now=now)

    def token_failures(self, key: TokenKey, *, now: int) -> int:
        """Fetches of the last hour that failed."""
        counts = self._fetches.get(key)
        return 0 if counts is None else counts.figures(now=now).failures

    def figures(self, client_id: ClientId, name: str, *, now: int) -> tuple[NodeFigures, int]:
        """Those of attempts, and how many calls come back later."""
        counts = self._of.get((client_id, name))
        return (NO_FIGURES, 0) if counts is None else (counts.attempts.figures(now=now), counts.deferred_at(now))

    def _named(self, client_id: ClientId, row: Row) -> _Counts | None:
        named = None if row.url is None else read_named_url(row.url)
        if named is None:
            return None
        counts = self._of.get((client_id, named.name))
        if counts is None:
            while len(self._of) >= MOST:
                del self._of[next(iter(self._of))]
            counts = self._of[client_id, named.name] = _Counts()
        return counts
