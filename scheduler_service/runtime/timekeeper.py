"""Keeps a process's wall clock disciplined, and decides what a step of the system's clock means.

The other members are the jury, each by what its machine's clock says now and by whether that was stepped too:

    some were not stepped      they are right: most of them agree with the anchored clock (the step is refused) or with
                               the system's clock (it is accepted). If as many agree with either, because they differ
                               as right clocks may, the middle one decides, of two the earlier one
    all were stepped           they share a host or its time server, so none of their anchored clocks is a witness for
                               another: a step that lasts and that their machines agree on is believed
    there is nobody            a step that lasts is believed

A member counts after `FRESH_BEATS` heartbeats that it wrote since the step was noticed. A refused step is judged on as
long as it is there: machines that are set right one after the other are believed when the last one is.
"""

from collections.abc import Callable, Sequence
from statistics import median_high
from typing import Protocol

import structlog

from membership.clocks import Witness
from membership.identity import Life
from scheduler_service.runtime.clock import STEP_MS, Clock, WallDiscipline

PERIOD_SECONDS = 1.0
AGREES_WITHIN_MS = 1_000
"""What clocks that are right may differ by (`MembershipSettings.clock_limit_ms`)."""
FRESH_BEATS = 3
BELIEVED_AFTER_SECONDS = 10.0
REFUSED = "refused"
BACK = "back by itself"
_log = structlog.get_logger("minutehand")


class DisciplinedClock(Clock, Protocol):
    """A clock whose wall part can be disciplined."""

    def system_ms(self) -> int:
        """Unix milliseconds as the system's clock has them."""

    def discipline(self) -> WallDiscipline:
        """Observe the system's clock now."""


class Timekeeper:
    """`witnesses()`: the other members' clocks, as far as they are known. `alone()`: there is nobody to ask.
    `accepted(step_ms)` hears of a step that was believed."""

    def __init__(
        self,
        *,
        clock: DisciplinedClock,
        witnesses: Callable[[], Sequence[Witness]],
        alone: Callable[[], bool],
        accepted: Callable[[int], None] = lambda step_ms: None,
    ) -> None:
        self._clock = clock
        self._witnesses = witnesses
        self._alone = alone
        self._accepted = accepted
        self._step_ms = 0
        self._agreed_since: float | None = None
        self._beats: dict[Life, int] = {}

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(PERIOD_SECONDS)

    def look(self) -> None:
        """One comparison, and the verdict if one can be given. What is judged is said, once."""
        wall = self._clock.discipline()
        step_ms = round(wall.pending_step_ms)
        if step_ms == 0:
            if self._step_ms != 0:
                self._judged(BACK)
            return
        if wall.doubtful and abs(step_ms - self._step_ms) > STEP_MS:
            self._agreed_since = None
            self._beats = {witness.life: witness.beat for witness in self._witnesses()}
            self._step_ms = step_ms
            _log.warning("clock-stepped", by_ms=step_ms)
        verdict = self._judge(step_ms)
        if verdict == REFUSED:
            if wall.doubtful:
                wall.hold()
                self._say(REFUSED)
        elif verdict is not None:
            wall.accept()
            self._judged(verdict)
            self._accepted(step_ms)

    def _judged(self, verdict: str) -> None:
        self._say(verdict)
        self._step_ms = 0

    def _say(self, verdict: str) -> None:
        _log.warning("clock-step-judged", by_ms=self._step_ms, verdict=verdict)

    def _judge(self, step_ms: int) -> str | None:
        if self._alone():
            return self._lasts("accepted, for nobody can be asked")
        found = self._witnesses()
        fresh = [witness for witness in found if self._fresh(witness)]
        if not fresh or len(fresh) < len(found):
            return None
        steady = [witness.ahead_ms for witness in fresh if abs(witness.step_ms) <= STEP_MS]
        if steady:
            self._agreed_since = None
            refuse = sum(_agrees(ahead, ahead + step_ms) for ahead in steady)
            accept = sum(_agrees(ahead + step_ms, ahead) for ahead in steady)
            if refuse == accept and max(steady) - min(steady) <= AGREES_WITHIN_MS:
                middle = median_high(steady)
                refuse = _agrees(middle, middle + step_ms)
                accept = not refuse and _agrees(middle + step_ms, middle)
            return None if refuse == accept else REFUSED if refuse > accept else "accepted"
        agree = sum(abs(one.ahead_ms + step_ms - one.step_ms) <= AGREES_WITHIN_MS for one in fresh)
        if 2 * agree <= len(fresh):
            self._agreed_since = None
            return None
        return self._lasts("accepted, for all machines were set to it")

    def _fresh(self, witness: Witness) -> bool:
        return witness.beat >= self._beats.setdefault(witness.life, witness.beat) + FRESH_BEATS

    def _lasts(self, verdict: str) -> str | None:
        now = self._clock.monotonic()
        if self._agreed_since is None:
            self._agreed_since = now
        return verdict if now - self._agreed_since >= BELIEVED_AFTER_SECONDS else None


def _agrees(difference_ms: int, other_ms: int) -> bool:
    """Whether a clock is right by a witness's, and nearer to it than the other one is."""
    return abs(difference_ms) <= min(AGREES_WITHIN_MS, abs(other_ms))
