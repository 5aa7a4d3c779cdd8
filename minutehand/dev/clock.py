"""The virtual clock: it stands until it is moved, or follows real time.

`VirtualClock` is given to everything that schedules, `RealWaits` to everything that has real input and output: the same
wall time, but real seconds for time-outs.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from typing import Final

from membership.ports import Timer
from scheduler_service.runtime.clock import Clock, WallDiscipline

UPKEEP: Final = frozenset(
    {
        "clients",
        "timekeeper",
        "retention",
        "overdue scan of crons",
        "search for reconciliations",
        "minute loads",
        "forget appended events",
        "attempts",
        "recounts",
        "membership.incarnation",
        "membership.observer",
        "membership.servers",
        "balancer.rounds",
    }
)
"""Names of the node's tasks that only look, again and again. When time is moved, they run where the clock stops for
something else, at most once there and in `UPKEEP_SECONDS`."""
UPKEEP_SECONDS: Final = 600.0
_MINUTES: Final = ("pollers ", "recovery ")
"""How the names of tasks begin that wait for a client's next minute."""


class Kind(Enum):
    """Whose timer it is: of tasks that only look, of pollers that wait for minutes, or of work under way."""

    UPKEEP = "upkeep"
    MINUTE = "minute"
    WORK = "work"


class _Timer:
    __slots__ = ("at", "callback", "context", "kind")

    def __init__(self, at: float, callback: Callable[[], None], kind: Kind) -> None:
        self.at = at
        self.callback: Callable[[], None] | None = callback
        self.context: Context = copy_context()
        self.kind = kind

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """Begins at `start_ms` (Unix milliseconds), standing. A `DisciplinedClock` that no step can make doubtful."""

    def __init__(self, *, start_ms: int, real: Clock) -> None:
        self._real = real
        self._start_ms = start_ms
        self._at = 0.0
        self._since: float | None = None
        self._timers: dict[Kind, list[tuple[float, int, _Timer]]] = {kind: [] for kind in Kind}
        self._order = count()
        self._rings: Timer | None = None
        self._upkeep_at = 0.0
        self._wall = WallDiscipline(system_ms=float(start_ms), monotonic=0.0)

    @property
    def following(self) -> bool:
        """Whether it goes as real time does."""
        return self._since is not None

    def monotonic(self) -> float:
        return self._at if self._since is None else self._at + self._real.monotonic() - self._since

    def wall_ms(self) -> int:
        return self._start_ms + round(self.monotonic() * 1000.0)

    def system_ms(self) -> int:
        return self.wall_ms()

    def wall_trusted(self) -> bool:
        return True

    def discipline(self) -> WallDiscipline:
        return self._wall

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await self._real.sleep(0)
            return
        rung = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if rung.done() else rung.set_result(None))
        try:
            await rung
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        kind = _kind_of_caller()
        timer = _Timer(self.monotonic() + max(seconds, 0.0), callback, kind)
        if seconds <= 0:
            self._ring(timer)
            return timer
        heappush(self._timers[kind], (timer.at, next(self._order), timer))
        if self.following:
            self._set_alarm()
        return timer

    # Moving it.

    def follow(self) -> None:
        """Go as real time does, from where it stands."""
        if not self.following:
            self._since = self._real.monotonic()
            self._set_alarm()

    def freeze(self) -> None:
        """Stand still."""
        self._at, self._since = self.monotonic(), None
        if self._rings is not None:
            self._rings.cancel()

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Stand still meanwhile, apart from being moved; then go on as before."""
        follows = self.following
        self.freeze()
        try:
            yield
        finally:
            if follows:
                self.follow()

    def next_at(self, *kinds: Kind) -> float | None:
        """When the first timer of these kinds is due, in seconds of `monotonic`."""
        found = []
        for kind in kinds:
            timers = self._timers[kind]
            while timers and timers[0][2].callback is None:
                heappop(timers)
            if timers:
                found.append(timers[0][0])
        return min(found, default=None)

    def move(self, to: float, *, every: float = UPKEEP_SECONDS) -> None:
        """Stand at `to` (seconds of `monotonic`, never back); what is due by then runs in the loop's next turn, in
        order. `every`: so many seconds after upkeep it is left out."""
        self._at = max(self._at, to)
        due: list[tuple[float, int, _Timer]] = []
        for kind, timers in self._timers.items():
            if kind is Kind.UPKEEP:
                if self._at < self._upkeep_at:
                    continue
                self._upkeep_at = self._at + every
            while timers and timers[0][0] <= self._at:
                due.append(heappop(timers))
        for _, _, timer in sorted(due):
            self._ring(timer)

    def look_now(self) -> None:
        """Let all that only looks do so in the loop's next turn: what changed while the clock stood is known then."""
        timers = self._timers[Kind.UPKEEP]
        self._timers[Kind.UPKEEP] = []
        for _, _, timer in sorted(timers):
            self._ring(timer)

    def _ring(self, timer: _Timer) -> None:
        asyncio.get_running_loop().call_soon(_call, timer, context=timer.context)

    def _set_alarm(self) -> None:
        if self._rings is not None:
            self._rings.cancel()
        if (first := self.next_at(*Kind)) is not None:
            self._rings = self._real.call_later(max(first - self.monotonic(), 0.0), self._alarm)

    def _alarm(self) -> None:
        if self.following:
            self.freeze()
            self.move(self._at, every=0.0)
            self.follow()


def _call(timer: _Timer) -> None:
    if (callback := timer.callback) is not None:
        timer.callback = None
        callback()


def _kind_of_caller() -> Kind:
    task = asyncio.current_task()
    if task is None:
        return Kind.WORK
    name = task.get_name()
    if name in UPKEEP:
        return Kind.UPKEEP
    return Kind.MINUTE if name.startswith(_MINUTES) else Kind.WORK


class RealWaits:
    """The virtual clock's wall time with real seconds: for sockets, whose time-outs and waits are real."""

    def __init__(self, virtual: VirtualClock, real: Clock) -> None:
        self.wall_ms = virtual.wall_ms
        self.system_ms = virtual.system_ms
        self.wall_trusted = virtual.wall_trusted
        self.monotonic = real.monotonic
        self.sleep = real.sleep
        self.call_later = real.call_later
