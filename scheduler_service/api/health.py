"""Whether an API process can do its work, judged by its requests and by the probes of `/readyz`.

Storage: the outcome of each request and each probe is counted. A single failure changes nothing.

    available --two failed, the first LOST_AFTER_SECONDS ago or more, none answered since--> unavailable
        ^                                                                                         |
        '------------------------------- BACK_AFTER answered in a row ----------------------------'

Shedding: creates have been refused for want of room (`Overloaded`) over SHED_SECONDS; over after CALM_SECONDS without.

If all API processes share one Cassandra, its outage makes all of them unready. That is intended: a load balancer then
refuses callers at once, and every process is ready again a second after storage answers.
"""

from collections.abc import Sequence

from scheduler_service.domain.errors import ClockInDoubt
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.health import CLOCK_UNTRUSTED, SHEDDING, STOPPING, STORAGE_AWAY, LoopHeartbeat, Reason
from scheduler_service.runtime.logging import get_logger
from scheduler_service.usecases.admission import JudgeClock
from scheduler_service.usecases.storage_probes import ProbeStorage

LOST_AFTER_SECONDS = 3.0
BACK_AFTER = 2
SHED_SECONDS = 3.0
CALM_SECONDS = 5.0

_log = get_logger("minutehand.api")


class StorageHealth:
    """Turns failures and successes of single requests into two states; logs each change of state once."""

    __slots__ = ("_answered", "_clock", "_failed", "_failing_since", "available", "doubted")

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._failing_since: float | None = None
        self._failed = 0
        self._answered = 0
        self.available = True
        self.doubted = False
        """Whether a success would change anything; spares `worked` on each request of a healthy process."""

    def failed(self, reason: str) -> None:
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        self._failed += 1
        self._answered = 0
        self.doubted = True
        if self.available and self._failed > 1 and now - self._failing_since >= LOST_AFTER_SECONDS:
            self.available = False
            _log.warning("storage-lost", reason=reason)

    def worked(self) -> None:
        self._failing_since, self._failed = None, 0
        self._answered += 1
        if not self.available and self._answered >= BACK_AFTER:
            self.available = True
            _log.info("storage-back")
        self.doubted = not self.available


class Shedding:
    """Whether creates have been refused for want of room over SHED_SECONDS; logs each change once."""

    __slots__ = ("_clock", "_first", "_last", "_said")

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._first = self._last = float("-inf")
        self._said = False

    def refused(self) -> None:
        """A create was refused."""
        now = self._clock.monotonic()
        if now - self._last >= CALM_SECONDS:
            self._first = now
        self._last = now
        self.now()

    def now(self) -> bool:
        """Whether the process is shedding now."""
        going_on = self._last - self._first >= SHED_SECONDS and self._clock.monotonic() - self._last < CALM_SECONDS
        if going_on != self._said:
            self._said = going_on
            if going_on:
                _log.warning("shedding-begun")
            else:
                _log.info("shedding-ended")
        return going_on


class ApiHealth:
    """Everything that makes an API process unready. `heartbeat` watches the event loop; the process must run it."""

    def __init__(self, *, clock: Clock, probe: ProbeStorage, judge_clock: JudgeClock) -> None:
        self.heartbeat = LoopHeartbeat(clock=clock)
        self.storage = StorageHealth(clock=clock)
        self.shedding = Shedding(clock=clock)
        self.stopping = False
        """The process was told to stop: requests are still answered, each as the last one of its connection."""
        self._probe = probe
        self._judge_clock = judge_clock

    async def unready(self) -> Sequence[Reason]:
        """Why this process can't do its work now; empty if it can. May take as long as a probe of storage."""
        asked, answered = await self._probe()
        if asked and answered:
            self.storage.worked()
        elif asked:
            self.storage.failed("a probe got no answer")
        reasons = []
        if self.stopping:
            reasons.append(Reason(STOPPING, "this process was told to stop"))
        if not self.storage.available:
            reasons.append(Reason(STORAGE_AWAY, "storage has not answered for a while"))
        if self.shedding.now():
            reasons.append(Reason(SHEDDING, "creates are refused because the queue for storage is full"))
        try:
            self._judge_clock()
        except ClockInDoubt as error:
            reasons.append(Reason(CLOCK_UNTRUSTED, f"{error}: creates are refused"))
        return reasons
