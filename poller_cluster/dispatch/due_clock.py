"""The clock by which calls are due: this node's wall clock less the time that it may be ahead of the members'.

A call starts when this clock reaches its due, so it is never early. Lateness is judged by the same clock: by its wall
clock, a node that is ahead within the permitted second would judge calls late that it starts on time. While the offset
is only bounded (`membership.clocks`), the members it was compared with may themselves differ from the median by the
permitted limit. Lateness is then judged by the earliest possible time: no call is skipped that might be on time, and
calls that an outage made late are still skipped.
"""

from collections.abc import Callable

from membership.view import MembersView
from scheduler_service.runtime.clock import Clock


class DueClock:
    """`view()`: what is known of the members' clocks. `limit_ms`: how far off the clock of an acting member may be."""

    def __init__(self, *, clock: Clock, view: Callable[[], MembersView], limit_ms: int) -> None:
        self._clock = clock
        self._view = view
        self._limit_ms = limit_ms

    @property
    def known(self) -> bool:
        """False until another clock was seen: before that no call may start."""
        return self._view().ahead_at_most_ms is not None

    def now(self) -> int:
        """Unix milliseconds: calls due by now may start."""
        return self._clock.wall_ms() - (self._view().ahead_at_most_ms or 0)

    def earliest(self) -> int:
        """The earliest that the time can be, in Unix milliseconds: lateness is judged by it."""
        return self.now() - (0 if self._view().offset_known else self._limit_ms)
