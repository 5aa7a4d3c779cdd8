"""Faults between a process and the store, as a decorator on the connection.

Every request takes a little while. It may be refused (no effect), applied with its answer lost, given up and yet
applied later, or answered late. A process may be cut off, and plain reads may be stale. Plain batches over several
partitions may be applied in part.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from cql.connection import AnswerRows, Connection, Consistency, Item, Parameters
from membership.conditional import Answer, Unknown
from membership.errors import StoreUnavailable
from tests.simulation.sim_clock import SimClock

TIMEOUT_SECONDS = 2.0
_SERVER_CLOCK = "servers.read_clock"
_MAY_BE_STALE = frozenset(("nodes.read", "pollers.list"))
"""Plain reads of what others write, which the protocol must tolerate when they are stale."""
INSERTS = frozenset(("schedules.insert_definition", "schedules.insert_packed"))
"""Inserts of rows."""
MAY_BE_LATE = INSERTS | {
    "occupied_minutes.insert",
    "catalog.bump",
    "nodes.write",
    "cron_runs.insert",
    "event_blocks.insert",
    "events.insert",
}
"""Plain writes that may arrive in any order: the table goes by arrival, Cassandra by the time of the write."""


@dataclass
class FaultPlan:
    """Probabilities per request, and a hook that may decide for a single one: 'refuse', 'lose' (apply, lose the
    answer), 'late' (no answer, and the write is applied `late_seconds` later; among plain writes only those in
    `MAY_BE_LATE`), 'crash-before' and 'crash-after' (the process dies before or after the request is applied; `crash`
    is called). Plain reads by statements named in `stale` repeat their last answer. A slow request takes up to
    `slow_seconds`, and `slow_least` of them at least.
    """

    refuse: float = 0.0
    lose_answer: float = 0.0
    slow: float = 0.0
    slow_seconds: float = 1.0
    slow_least: float = 0.0
    late: float = 0.0
    cut_off: bool = False
    late_seconds: float = 3.0
    stale: Collection[str] = ()
    hook: Callable[[str, Sequence[Item]], str | None] | None = None
    crash: Callable[[], None] = lambda: None

    @property
    def faultless(self) -> bool:
        return not (
            self.cut_off or self.refuse or self.lose_answer or self.slow or self.late or self.stale or self.hook
        )


class FaultyConnection:
    """One process's `Connection` to the shared store. It asks the store's servers in a turn of its own, as the driver
    does.
    """

    def __init__(self, inner: Connection, *, clock: SimClock, rng: random.Random) -> None:
        self.plan = FaultPlan()
        self.inner = inner
        self._clock = clock
        self._rng = rng
        self._shown: dict[tuple[str, Parameters], list[tuple[object, ...]]] = {}
        self._turns = count(1)

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[object, ...]]:
        fault = await self._before("select", [(name, parameters)])
        if name == _SERVER_CLOCK:
            parameters = (next(self._turns),)
        rows = await self.inner.select(name, parameters, serial=serial, consistency=consistency)
        if name in _MAY_BE_STALE:
            if name in self.plan.stale:
                rows = self._shown.get((name, parameters), rows)
            self._shown[name, parameters] = rows
        await self._after(fault)
        return rows

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        fault = await self._before("write", [(name, parameters)])
        if fault == "late":
            await self._give_up(lambda: self.inner.write(name, parameters, consistency=consistency))
        await self.inner.write(name, parameters, consistency=consistency)
        await self._after(fault)

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        fault = await self._before("write", items)
        if fault == "late":
            await self._give_up(lambda: self.inner.write_batch(items, consistency=consistency))
        if fault == "lose" and self._rng.random() < 0.5:
            # Each partition of a plain batch is applied or lost by itself.
            items = items[: self._rng.randrange(len(items) + 1)]
        if items:
            await self.inner.write_batch(items, consistency=consistency)
        await self._after(fault)

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        try:
            fault = await self._before("conditional", items)
            if fault == "late":
                await self._give_up(lambda: self.inner.conditional(items))
            answer = await self.inner.conditional(items)
            await self._after(fault)
        except StoreUnavailable as error:
            return Unknown(str(error))
        return answer

    def replicas(self, name: str, parameters: Parameters) -> Hashable:
        return self.inner.replicas(name, parameters)

    async def close(self) -> None:
        return

    async def _before(self, kind: str, items: Sequence[Item]) -> str | None:
        if self._clock.paused:
            await self._clock.running()
        plan = self.plan
        fault = plan.hook(kind, items) if plan.hook is not None else None
        if plan.cut_off:
            fault = "refuse"
        chance = self._rng.random()
        if fault is None and chance < plan.refuse + plan.lose_answer:
            fault = "refuse" if chance < plan.refuse else "lose"
        elif fault is None and chance < plan.refuse + plan.lose_answer + plan.late and _may_be_late(kind, items):
            fault = "late"
        await self._clock.sleep(0.0005 + self._rng.random() * 0.003)
        if plan.slow and self._rng.random() < plan.slow:
            part = plan.slow_least + self._rng.random() * (1.0 - plan.slow_least)
            await self._clock.sleep(part * plan.slow_seconds)
        if fault == "crash-before":
            await self._die()
        if fault == "refuse":
            await self._clock.sleep(self._rng.random() * TIMEOUT_SECONDS)
            raise StoreUnavailable("refused by the simulation")
        return fault

    async def _after(self, fault: str | None) -> None:
        if fault == "crash-after":
            await self._die()
        await self._clock.sleep(0.0005 + self._rng.random() * 0.003)
        if fault == "lose" or self.plan.cut_off:
            await self._clock.sleep(self._rng.random() * TIMEOUT_SECONDS)
            raise StoreUnavailable("the answer was lost by the simulation")
        if self._clock.paused:
            await self._clock.running()

    async def _give_up(self, send: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Give no answer, and apply the request later, if the store answers then. Raises StoreUnavailable."""

        async def arrive() -> None:
            with suppress(StoreUnavailable):
                await send()

        loop = asyncio.get_running_loop()
        loop.call_later(self.plan.late_seconds, lambda: loop.create_task(arrive(), name="late write"))
        raise StoreUnavailable("it is still on its way")

    async def _die(self) -> None:
        self.plan.crash()
        await asyncio.get_running_loop().create_future()


def _may_be_late(kind: str, items: Sequence[Item]) -> bool:
    return kind == "conditional" or (kind == "write" and all(name in MAY_BE_LATE for name, _ in items))
