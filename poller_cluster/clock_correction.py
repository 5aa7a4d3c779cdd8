"""Where pollers resume after a fast wall clock is corrected.

Minutes are passed by the wall clock. If it was ahead, minutes were passed before their rows were created, and
watermarks and low watermarks may be too high. No mark recorded by a clock that was ahead is believed:

    this node's clock is set back    every poller stops, and is taken under a new epoch (as after an unknown write)
                                     from the minute before this incarnation began, in the time that is accepted now
    a poller is taken whose mark is  its recorder's clock was ahead, for an unknown time: the poller is recovered from
    beyond `CLOCKS_APART_MS` ahead   `REWALK_MINUTES` before the present. A clock less far ahead passed no minute before
                                     its grace was over, so with such a mark the poller begins in the present
    a low watermark is announced     it is at most the present
    the servers' clocks are behind   the present is theirs: if all nodes are ahead, they may have outvoted the servers

To begin earlier than recorded costs reads only: ended rows are read again and stay as they are. So low watermarks need
not fall, and no other rule of `membership` changes: a taken poller lags, and counts again when it has reached the
highest low watermark that this incarnation ever sent."""

from collections.abc import Callable, Mapping
from typing import Protocol

from membership.clocks import CLOCKS_APART_MS
from membership.identity import PollerKey
from scheduler_service.domain.ids import Minute, minute_of
from scheduler_service.runtime.clock import Clock

REWALK_MINUTES = 24 * 60
"""More costs reads of the index and of settled minutes; less may miss minutes that a clock further ahead passed."""


class Passing(Protocol):
    """The pollers of this node."""

    def clock_corrected(self) -> None:
        """Stop until granted again; use the corrected time."""


class ClockCorrection:
    """`grace_ms`: from a minute's end to the instant at which it may be passed. `leases()`: the held pollers with their
    epochs. `ahead_of_servers_ms()`: how far the wall clock is ahead of storage's. `start_again(poller, epoch)`: give
    the poller up, and take it under a new epoch."""

    def __init__(
        self,
        *,
        clock: Clock,
        grace_ms: int,
        ahead_of_servers_ms: Callable[[], int],
        leases: Callable[[], Mapping[PollerKey, int]],
        pollers: Passing,
        start_again: Callable[[PollerKey, int], None],
    ) -> None:
        self._clock = clock
        self._grace_ms = grace_ms
        self._ahead_of_servers_ms = ahead_of_servers_ms
        self._leases = leases
        self._pollers = pollers
        self._start_again = start_again
        self._begun = clock.monotonic()
        self._from = Minute(0)
        self._pending: set[PollerKey] = set()

    def present(self) -> Minute:
        """The first minute that is not over yet, grace included, by the accepted time nor by the servers'."""
        return self._present(by_others_ms=0)

    def _present(self, *, by_others_ms: int) -> Minute:
        """The same as seen by a clock that is `by_others_ms` ahead."""
        ahead_ms = self._ahead_of_servers_ms()
        now_ms = self._clock.wall_ms() - (ahead_ms if ahead_ms >= CLOCKS_APART_MS else 0)
        return minute_of(now_ms - self._grace_ms + by_others_ms)

    def step_accepted(self, step_ms: int) -> None:
        """A step of the wall clock by `step_ms` was accepted as right."""
        # After a step forward, or a small one back, no minute was passed too early.
        if step_ms > -CLOCKS_APART_MS:
            return
        lived_ms = (self._clock.monotonic() - self._begun) * 1000.0
        self._from = Minute(minute_of(round(self._clock.wall_ms() - lived_ms)) - 1)
        self._pollers.clock_corrected()
        for poller, epoch in list(self._leases().items()):
            self._pending.add(poller)
            self._start_again(poller, epoch)

    def credible(self, poller: PollerKey, mark: int) -> int:
        """The latest mark at which a poller recorded at `mark` may begin, or be released."""
        present = self.present()
        if poller in self._pending:
            return min(mark, present, self._from)
        return min(mark, present) if mark <= self._present(by_others_ms=CLOCKS_APART_MS) else present - REWALK_MINUTES

    def credible_low_watermark(self, low_watermark: int) -> int:
        """The same for the low watermark of this incarnation: one that is too low only costs reads."""
        return min(low_watermark, self.present())

    def granted(self, poller: PollerKey, epoch: int, start: int) -> None:
        """A poller begins at `start`. If that was decided before the clock was corrected, it is given up again."""
        self._pending.discard(poller)
        if start > self.present() + 1:
            self._pending.add(poller)
            # Later, since the lease table calls this in the middle of a transition.
            self._clock.call_later(0.0, lambda: self._start_again(poller, epoch))

    def gone(self, poller: PollerKey) -> None:
        """A poller has another owner, or none: where it goes on is recorded."""
        self._pending.discard(poller)
