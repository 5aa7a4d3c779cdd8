"""Moves the clock of a world: from one instant at which something is due to the next, and no further before all that
was due has ended.

    settle ──▶ the next stop: a timer of work under way, or when a minute with rows is entered or swept
      ▲                                          │
      └── move there; what is due by then runs ◀─┘
"""

import asyncio
import math
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar

from cql.memory.tables import Key, Partition
from minutehand.dev.clock import UPKEEP_SECONDS, Kind
from minutehand.dev.loop import DevLoop
from minutehand.dev.world import World
from poller_cluster.client_pollers import PREFETCH_MS, STAGGER_MS, ClientPollers
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.domain.ids import Minute, minute_end, minute_of, minute_start
from scheduler_service.runtime.lifecycle import Tasks

T = TypeVar("T")

ENTERED_MS: Final = PREFETCH_MS - STAGGER_MS
"""How long before a minute the last pollers enter it."""
_STEP_MS: Final = 1_000
_STEP_SECONDS: Final = 0.001


class OccupiedHours(dict[Key, Partition]):
    """The partitions of `occupied_minutes`, each of a client's hour, with the hours of each client in order."""

    def __init__(self, partitions: dict[Key, Partition]) -> None:
        super().__init__(partitions)
        self.hours: dict[str, list[int]] = defaultdict(list)
        for client_id, hour in sorted(partitions):
            self.hours[client_id].append(hour)

    def __setitem__(self, key: Key, partition: Partition) -> None:
        if key not in self:
            insort(self.hours[key[0]], key[1])
        super().__setitem__(key, partition)

    def __delitem__(self, key: Key) -> None:
        self.hours[key[0]].remove(key[1])
        super().__delitem__(key)

    def pop(self, key: Key, *default: Any) -> Any:
        if key in self:
            self.hours[key[0]].remove(key[1])
        return super().pop(key, *default)

    def after(self, client_id: str, minute: Minute) -> Iterator[tuple[Minute, int]]:
        """The occupied minutes after this one, each with a poller that has rows there, in order."""
        hours, start = self.hours[client_id], minute_start(minute)
        for position in range(max(bisect_right(hours, start) - 1, 0), len(hours)):
            for at, poller_id in self[client_id, hours[position]].keys:
                if at > start:
                    yield minute_of(at), poller_id


class Traveller:
    """Moves one world. One of its acts at a time."""

    def __init__(self, world: World, loop: DevLoop) -> None:
        self._world = world
        self._loop = loop
        self._clock = world.clock
        self._grace_ms = world.grace_ms
        table = world.memory.tables["occupied_minutes"]
        table.partitions = self._occupied = OccupiedHours(table.partitions)

    async def settle(self) -> None:
        """Return when nothing can run any more at this instant, and no call is under way."""
        while True:
            while not self._loop.idle:
                await self._clock.sleep(0)
            if self._world.under_way.quiet.is_set():
                return
            await self._world.under_way.quiet.wait()

    async def advance(self, to_ms: int) -> None:
        """Make everything that is due up to an instant (Unix milliseconds), in order."""
        clock = self._clock
        end = clock.monotonic() + (to_ms - clock.wall_ms()) / 1000.0
        clock.look_now()
        await self.settle()
        while True:
            # What is due now has run, so what still says that it is due waits for time to pass.
            stop = min(end, max(self._next_stop(), clock.monotonic() + _STEP_SECONDS))
            self._pass_empty(stop)
            clock.move(stop, every=UPKEEP_SECONDS if self._certain() else 0.0)
            await self.settle()
            if stop >= end:
                return

    async def until_idle(self, to_ms: int) -> bool:
        """Make what is due until nothing is left but crons whose next fires are minutes away, at most up to an instant
        (Unix milliseconds). Whether that was reached."""
        await self.advance(self._clock.wall_ms())
        while not self._is_idle():
            now_ms = self._clock.wall_ms()
            if now_ms >= to_ms:
                return False
            step_ms = now_ms + _STEP_MS
            if self._clock.next_at(Kind.WORK) is None:
                rows = [self._next_occupied(pollers) for pollers in self._world.node.pollers.all()]
                step_ms = max(step_ms, min((minute_start(one) for one in rows if one is not None), default=0))
            await self.advance(min(step_ms, to_ms))
        return True

    def _is_idle(self) -> bool:
        pollers = self._world.node.pollers.all()
        if self._clock.next_at(Kind.WORK) is not None or not self._all_held():
            return False
        return all(
            one.suspended or (one.at_rest and (one.client_id == CRON_CLIENT or self._next_occupied(one) is None))
            for one in pollers
        )

    async def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work that waits for virtual time: the clock goes on until it has ended."""
        tasks = Tasks(lambda name, error: None)
        task = tasks.spawn(work, name="driven")
        while True:
            while not self._loop.idle:
                await self._clock.sleep(0)
            if task.done():
                result: T = task.result()
                return result
            first = self._clock.next_at(*Kind)
            if first is None:
                await asyncio.wait([task])
            else:
                self._clock.move(first, every=0.0)

    def _next_stop(self) -> float:
        """The next instant, in seconds of `monotonic`, at which something may have to be done."""
        clock = self._clock
        pollers = self._world.node.pollers.all()
        kinds = (Kind.WORK,) if self._certain() else tuple(Kind)
        stops = [at for at in [clock.next_at(*kinds)] if at is not None]
        for one in pollers:
            minute = None if one.suspended else self._next_occupied(one)
            if minute is not None:
                at_ms = minute_end(minute) + self._grace_ms
                if minute > one.entered:
                    at_ms = minute_start(minute) - ENTERED_MS
                stops.append(clock.monotonic() + (at_ms - clock.wall_ms()) / 1000.0)
        return min(stops, default=math.inf)

    def _certain(self) -> bool:
        """Whether what is stored says when the pollers have something to do."""
        pollers = self._world.node.pollers.all()
        return all(one.suspended or one.caught_up for one in pollers) and self._all_held()

    def _pass_empty(self, stop: float) -> None:
        """Let pollers pass the minutes up to `stop` that have no rows."""
        now_ms = self._clock.wall_ms() + round((stop - self._clock.monotonic()) * 1000.0)
        for one in self._world.node.pollers.all():
            if not one.suspended and one.caught_up:
                one.pass_empty(now_ms, before=self._next_occupied(one))

    def _next_occupied(self, pollers: ClientPollers) -> Minute | None:
        for minute, poller_id in self._occupied.after(pollers.client_id, pollers.swept):
            if poller_id in pollers.pollers:
                return minute
        return None

    def _all_held(self) -> bool:
        """Whether the node has taken every poller: else one may have rows that nobody looks for yet."""
        held = sum(len(one.pollers) for one in self._world.node.pollers.all())
        table = self._world.memory.tables["pollers"]
        return sum(len(partition.keys) for partition in table.partitions.values()) == held
