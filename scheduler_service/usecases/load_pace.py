"""How fast a bulk load may go: at its rate, and slower while storage is.

    answers in time   a tenth faster, up to the rate
    slow answers      half as fast, down to a 64th of the rate
    no answer         the same, and a pause that doubles from try to try

(Additive increase would take minutes to be back at the rate after one slow answer; here it is some seven chunks.)
"""

from scheduler_service.runtime.clock import Clock

SLOW_SECONDS = 1.0
"""An answer to a chunk that takes longer says that storage has too much to do."""
_SLOWEST = 64
_FASTER = 1.1


class Pace:
    """Of one task. `rate`: rows a second at most."""

    def __init__(self, *, clock: Clock, rate: float) -> None:
        if rate <= 0:
            raise ValueError("the rate of a load must be above 0")
        self._clock = clock
        self._most = rate
        self._free_at = clock.monotonic()
        self.rate = rate
        """Rows a second right now."""

    async def take(self, count: int) -> None:
        """Return when so many rows may go. What was not used before is not made up for."""
        now = self._clock.monotonic()
        begin = max(self._free_at, now)
        self._free_at = begin + count / self.rate
        if begin > now:
            await self._clock.sleep(begin - now)

    def answered(self, seconds: float) -> None:
        """An answer that took so long."""
        if seconds > SLOW_SECONDS:
            self.unanswered()
        else:
            self.rate = min(self._most, self.rate * _FASTER)

    def unanswered(self) -> None:
        self.rate = max(self._most / _SLOWEST, self.rate / 2)
