"""The clock by which calls are due: this node's wall clock, set back by what it may be ahead of the members'.

A call starts when this clock reaches its due, so it is never early. The same clock says how late a call is: judged by
the wall clock, a node that is ahead within the permitted second would find calls late that it starts on time. While the
offset is only bounded (`membership.clocks`), the members it was compared with may themselves differ from the median by
the permitted limit. Lateness is then judged by the earliest time that it can be: nothing is skipped that might be on
time, and what an outage made late is still skipped.
"""

from collections.abc import Callable

from membership.view import MembersView
from scheduler_service.runtime.clock import Clock


class DueClock:
    """`view()`: what is known of the members' clocks. `limit_ms`: what a member's clock may be off and still act."""

    def __init__(self, *, clock: Clock, view: Callable[[], MembersView], limit_ms: int) -> None:
        self._clock = clock
        self._view = view
        self._limit_ms = limit_ms

    @property
    def known(self) -> bool:
        """False before anybody else's clock was seen: no call may start."""
        return self._view().ahead_at_most_ms is not None

    def now(self) -> int:
        """Unix milliseconds: what is due by now may start."""
        return self._clock.wall_ms() - (self._view().ahead_at_most_ms or 0)

    def earliest(self) -> int:
        """Unix milliseconds that have surely passed: what is late by now is late."""
        return self.now() - (0 if self._view().offset_known else self._limit_ms)
