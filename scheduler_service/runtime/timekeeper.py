"""Disciplines a process's wall clock, and judges steps of the system's clock.

The other members are witnesses, each by its machine's clock and by whether that was stepped too:

    some were not stepped      they are right: most of them agree with the anchored clock (the step is refused) or with
                               the system's clock (it is accepted). At a tie, possible because right clocks differ a
                               little, the median decides, of two the earlier one
    all were stepped           they share a host or its time server, so their anchored clocks are no evidence: if their
                               machines agree on the step, the servers of storage judge
    there is no other member   the servers of storage judge

Servers report their machines' clocks. The one of the anchored and the system's clock that most servers are nearer to
wins: the step is refused, or accepted when it lasts. While no server answers it stays in doubt. The assumption is that
some clock stayed right. If everything runs on one host, storage too, every lasting step is accepted: nothing can tell
whether the clock was set wrong or right, and processes that start there afterwards use it in any case.

A member counts after `FRESH_BEATS` heartbeats written since the step was noticed. A refused step is judged again as
long as it persists: if machines are corrected one after the other, the step is accepted after the last.
"""

from collections.abc import Callable, Sequence
from statistics import median_high
from typing import Protocol

from membership.clocks import Witness
from membership.identity import NodeIncarnation
from membership.ports import MachineClock
from scheduler_service.runtime.clock import STEP_MS, Clock, WallDiscipline
from scheduler_service.runtime.logging import get_logger

PERIOD_SECONDS = 1.0
AGREES_WITHIN_MS = 1_000
"""How much right clocks may differ (`MembershipSettings.clock_limit_ms`)."""
FRESH_BEATS = 3
BELIEVED_AFTER_SECONDS = 10.0
REFUSED = "refused"
BACK = "back by itself"
ACCEPTED = "accepted"
ACCEPTED_BY_SERVERS = "accepted, for it lasts and storage's servers agree"
_log = get_logger("minutehand")


class DisciplinedClock(Clock, MachineClock, Protocol):
    """A clock whose wall part can be disciplined."""

    def discipline(self) -> WallDiscipline:
        """Observe the system's clock now."""


class Timekeeper:
    """`witnesses()`: the known clocks of other members. `alone()`: there is no other member. `servers(since)`: how far
    the wall clock is ahead of those storage servers' clocks that were read since that monotonic instant.
    `accepted(step_ms)` is called after a step was accepted."""

    def __init__(
        self,
        *,
        clock: DisciplinedClock,
        witnesses: Callable[[], Sequence[Witness]],
        alone: Callable[[], bool],
        servers: Callable[[float], Sequence[int]],
        accepted: Callable[[int], None] = lambda step_ms: None,
    ) -> None:
        self._clock = clock
        self._witnesses = witnesses
        self._alone = alone
        self._servers = servers
        self._accepted = accepted
        self._step_ms = 0
        self._stepped_at = float("-inf")
        self._agreed_since: float | None = None
        self._beats: dict[NodeIncarnation, int] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(PERIOD_SECONDS)

    def look(self) -> None:
        """Compare once, and apply and log a verdict if there is one."""
        wall = self._clock.discipline()
        step_ms = round(wall.pending_step_ms)
        if step_ms == 0:
            if self._step_ms != 0:
                self._judged(BACK)
            return
        if wall.doubtful and abs(step_ms - self._step_ms) > STEP_MS:
            self._agreed_since = None
            self._beats = {witness.incarnation: witness.beat for witness in self._witnesses()}
            self._step_ms, self._stepped_at = step_ms, self._clock.monotonic()
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
            return self._by_servers(step_ms)
        found = self._witnesses()
        fresh = [witness for witness in found if self._fresh(witness)]
        if not fresh or len(fresh) < len(found):
            # Wait for all members: a part of them may have another majority.
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
            return None if refuse == accept else REFUSED if refuse > accept else ACCEPTED
        agree = sum(abs(one.ahead_ms + step_ms - one.step_ms) <= AGREES_WITHIN_MS for one in fresh)
        if 2 * agree <= len(fresh):
            self._agreed_since = None
            return None
        return self._by_servers(step_ms)

    def _by_servers(self, step_ms: int) -> str | None:
        ahead = self._servers(self._stepped_at)
        if not ahead:
            return None
        of_most = median_high(ahead)
        if abs(of_most) <= abs(of_most + step_ms):
            self._agreed_since = None
            return REFUSED
        return self._lasts(ACCEPTED_BY_SERVERS)

    def _fresh(self, witness: Witness) -> bool:
        return witness.beat >= self._beats.setdefault(witness.incarnation, witness.beat) + FRESH_BEATS

    def _lasts(self, verdict: str) -> str | None:
        now = self._clock.monotonic()
        if self._agreed_since is None:
            self._agreed_since = now
        return verdict if now - self._agreed_since >= BELIEVED_AFTER_SECONDS else None


def _agrees(difference_ms: int, other_ms: int) -> bool:
    """Whether a clock agrees with a witness's, and is at least as near to it as the other one."""
    return abs(difference_ms) <= min(AGREES_WITHIN_MS, abs(other_ms))
