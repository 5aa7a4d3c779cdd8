"""The books of one minute, counted while its machine sweeps it. Only calls count; copies stand for calls."""

from bisect import bisect_left

from scheduler_service.domain.schedules import Outcome, Row, State

LATENESS_BOUNDS_MS = (5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 600_000, 3_600_000)
"""Upper bounds of the lateness histogram; one more bucket holds what is later."""


class Account:
    """Counts by state (`retrying` is the open part) and the lateness of first attempts."""

    __slots__ = ("counts", "lateness")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A pass over the minute begins: forget what an earlier one counted."""
        self.counts: dict[State, int] = {}
        self.lateness = [0] * (len(LATENESS_BOUNDS_MS) + 1)

    @property
    def accepted(self) -> int:
        return sum(self.counts.values())

    def add(self, row: Row, outcome: Outcome) -> None:
        if row.is_copy:
            return
        self.counts[outcome.state] = self.counts.get(outcome.state, 0) + 1
        if outcome.first_attempt_at is not None:
            self.lateness[bisect_left(LATENESS_BOUNDS_MS, outcome.first_attempt_at - row.due)] += 1
