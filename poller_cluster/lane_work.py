"""One lane under one epoch: the minutes that run, and how far everything before is settled."""

import asyncio
from collections.abc import Callable

from poller_cluster.minute.ordering import OrderingKeys
from poller_cluster.minute.runner import MinuteRun
from poller_cluster.recovery import Walk
from scheduler_service.domain.ids import Minute, PollerId


class LaneWork:
    """Bookkeeping of a held lane. `walk` covers what recovery has not looked at; `entered` is False until the minutes
    under way at the grant were looked up. `stands`: while draining, how far it had come when that began; the client's
    sweeps go on, but nothing is started here for what they find. `leaving`: it drains to be handed over. `order`: its
    ordering keys as far as known; `looked_ahead` is False until copies in minutes to come were looked for, and
    `looking` is True while something is."""

    __slots__ = (
        "entered",
        "epoch",
        "leaving",
        "looked_ahead",
        "looking",
        "order",
        "poller_id",
        "runs",
        "settled",
        "stands",
        "tasks",
        "walk",
    )

    def __init__(
        self, *, poller_id: PollerId, epoch: int, walk: Walk, on_order_wanted: Callable[[], None] = lambda: None
    ) -> None:
        self.poller_id = poller_id
        self.epoch = epoch
        self.walk = walk
        self.entered = False
        self.leaving = False
        self.looked_ahead = False
        self.looking = False
        self.order = OrderingKeys(on_change=self.wake, on_wanted=on_order_wanted)
        self.stands: Minute | None = None
        self.runs: dict[Minute, MinuteRun] = {}
        self.tasks: dict[Minute, asyncio.Task[object]] = {}
        self.settled: set[Minute] = set()
        """Settled minutes that the client's sweep has not passed yet."""

    @property
    def draining(self) -> bool:
        return self.stands is not None

    def position(self, swept: Minute) -> Minute:
        """The oldest minute not settled, where all minutes up to `swept` without a run are settled or still in the
        walk."""
        if self.stands is not None:
            return self.stands
        position = Minute(swept + 1)
        while position in self.settled:
            position = Minute(position + 1)
        if not self.walk.done:
            position = min(position, self.walk.at)
        if self.runs:
            position = min(position, min(self.runs))
        return position

    def knows(self, minute: Minute) -> bool:
        return minute in self.runs or minute in self.settled

    def knows_order(self, minute: Minute) -> bool:
        """Whether everything was read that may stand before a row of this minute in the line of its key."""
        if not (self.looked_ahead and self.entered) or self.draining:
            return False
        if not self.walk.done and self.walk.at <= minute:
            return False
        return all(read > minute for read in self.order.reading)

    def wake(self) -> None:
        """Whoever waits may go on."""
        for run in self.runs.values():
            run.wake()

    def abandon(self) -> None:
        """The lane is lost: nothing more is written or sent for it."""
        for run in self.runs.values():
            run.abandon()

    def drain(self, swept: Minute) -> None:
        """Claim nothing more, start no run. The client has swept all minutes up to `swept`."""
        if self.stands is None:
            self.stands = self.position(swept)
        for run in self.runs.values():
            run.drain()

    def resume(self, *, passed: Minute, swept: Minute) -> None:
        """Begin again where the lane stands. The client had swept up to `passed`, and passes over all up to `swept`
        now: what of it the lane has not settled is walked.

        A minute has one machine at a time under one epoch: a drain that has not ended is taken back, not begun anew.
        """
        start = self.position(passed)
        self.stands = None
        for minute, run in list(self.runs.items()):
            if minute in self.tasks:
                run.resume()
            else:
                del self.runs[minute]
        self.walk = Walk(self.poller_id, start, Minute(swept + 1))
        self.entered = False
        self.settled = {minute for minute in self.settled if minute > swept}
