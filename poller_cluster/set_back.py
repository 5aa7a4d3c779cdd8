"""Where pollers go on when a wall clock was ahead and is set right.

A minute is passed by the wall clock. If that was ahead, minutes were passed before rows came into them, and low
watermarks and watermarks may say so. Nothing that was recorded by a clock that was ahead is believed:

    this node's clock is set back    every poller stops, and is taken under a new epoch (as after a doubtful write)
                                     from the minute in which this incarnation began, in the time that is accepted now
    a poller is taken whose mark is    its recorder was ahead, since when is unknown: it is recovered again from
    still to come in `APART_MS`      `REWALK_MINUTES` before the present; one less far ahead passed no minute before its
                                     grace, so the poller begins in the present
    a low watermark is announced             it is at most the present
    the servers' clocks are behind   the present is theirs: nodes that all are ahead may have outvoted them

To begin earlier than recorded costs reads: what has ended is read again and stays as it is. So low watermarks need not
fall, and no other rule of `membership` changes: a poller that is taken lags, and counts again when it has come to the
highest low watermark that this incarnation ever sent."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from membership.clocks import APART_MS
from membership.identity import PollerKey
from scheduler_service.domain.ids import Minute, minute_of
from scheduler_service.runtime.clock import Clock

REWALK_MINUTES = 24 * 60
"""More costs reads of the index, and of minutes long over; less may miss minutes that a clock further ahead passed."""


class Passing(Protocol):
    """A client's pollers on this node."""

    def set_back(self) -> None:
        """Stand still until the pollers are granted again; go by the time that is accepted now."""


class SetBack:
    """`grace_ms`: from a minute's end to the instant at which it may be passed. `leases()`: the pollers that are held,
    with their epochs. `ahead_of_servers_ms()`: how far the wall clock is ahead of storage's. `clients()`: what passes
    their minutes. `start_again(poller, epoch)`: let it go, and take it under a new epoch."""

    def __init__(
        self,
        *,
        clock: Clock,
        grace_ms: int,
        ahead_of_servers_ms: Callable[[], int],
        leases: Callable[[], Mapping[PollerKey, int]],
        clients: Callable[[], Iterable[Passing]],
        start_again: Callable[[PollerKey, int], None],
    ) -> None:
        self._clock = clock
        self._grace_ms = grace_ms
        self._ahead_of_servers_ms = ahead_of_servers_ms
        self._leases = leases
        self._clients = clients
        self._start_again = start_again
        self._begun = clock.monotonic()
        self._from = Minute(0)
        self._pending: set[PollerKey] = set()

    def present(self) -> Minute:
        """The first minute that can't be over by the accepted time, nor by the servers'."""
        return self._present(by_others_ms=0)

    def _present(self, *, by_others_ms: int) -> Minute:
        """The same for somebody whose clock is ahead of that time."""
        ahead_ms = self._ahead_of_servers_ms()
        now_ms = self._clock.wall_ms() - (ahead_ms if ahead_ms >= APART_MS else 0)
        return minute_of(now_ms - self._grace_ms + by_others_ms)

    def step_accepted(self, step_ms: int) -> None:
        """The wall clock was set by so much, and that is right."""
        if step_ms > -APART_MS:
            return
        lived_ms = (self._clock.monotonic() - self._begun) * 1000.0
        self._from = Minute(minute_of(round(self._clock.wall_ms() - lived_ms)) - 1)
        for client in self._clients():
            client.set_back()
        for poller, epoch in list(self._leases().items()):
            self._pending.add(poller)
            self._start_again(poller, epoch)

    def credible(self, poller: PollerKey, mark: int) -> int:
        """The latest mark at which a poller may begin, or be released, that is recorded at `mark`."""
        present = self.present()
        if poller in self._pending:
            return min(mark, present, self._from)
        return min(mark, present) if mark <= self._present(by_others_ms=APART_MS) else present - REWALK_MINUTES

    def credible_low_watermark(self, low_watermark: int) -> int:
        """The same for the low watermark of this incarnation: one that is too low costs reads, no more."""
        return min(low_watermark, self.present())

    def granted(self, poller: PollerKey, epoch: int, start: int) -> None:
        """A poller begins at `start`. Where that was decided before the clock was set right, it is given up again."""
        self._pending.discard(poller)
        if start > self.present() + 1:
            self._pending.add(poller)
            self._clock.call_later(0.0, lambda: self._start_again(poller, epoch))

    def gone(self, poller: PollerKey) -> None:
        """A poller is another incarnation's, or nobody's: it is recorded where it goes on."""
        self._pending.discard(poller)
