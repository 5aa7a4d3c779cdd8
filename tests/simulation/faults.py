"""Faults between a process and the store: a decorator on the connection.

Every request takes a little while. It may be refused (nothing happens), be applied with its answer lost, be given up
and applied later all the same, or answered late; a process may be cut off altogether, and plain reads may be stale.
Plain batches over several partitions may be applied in part.
"""

import asyncio
import random
from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import dataclass

from cql.connection import AnswerRows, Connection, Consistency, Item, Parameters
from membership.conditional import Answer, Unknown
from membership.errors import StoreUnavailable
from tests.simulation.sim_clock import SimClock

TIMEOUT_SECONDS = 2.0
_MAY_BE_STALE = frozenset(("nodes.read", "pollers.list"))
"""Plain reads of what others write: those that the protocol must bear being stale."""


@dataclass
class FaultPlan:
    """Chances per request, and a hook that may decide on single ones: 'refuse', 'lose' (apply, lose the answer), 'late'
    (no answer, and a conditional write that arrives `late_seconds` later all the same), 'crash-before' and
    'crash-after' (the process dies before or after the request is applied; `crash` is told). Plain reads by statements
    named in `stale` show what they last showed."""

    refuse: float = 0.0
    lose_answer: float = 0.0
    slow: float = 0.0
    slow_seconds: float = 1.0
    cut_off: bool = False
    late_seconds: float = 3.0
    stale: Container[str] = ()
    hook: Callable[[str, Sequence[Item]], str | None] | None = None
    crash: Callable[[], None] = lambda: None


class FaultyConnection:
    """`Connection` of one process to the store all share."""

    def __init__(self, inner: Connection, *, clock: SimClock, rng: random.Random) -> None:
        self.plan = FaultPlan()
        self._inner = inner
        self._clock = clock
        self._rng = rng
        self._shown: dict[tuple[str, Parameters], list[tuple[object, ...]]] = {}

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[object, ...]]:
        fault = await self._before("select", [(name, parameters)])
        rows = await self._inner.select(name, parameters, serial=serial, consistency=consistency)
        if name in _MAY_BE_STALE:
            if name in self.plan.stale:
                rows = self._shown.get((name, parameters), rows)
            self._shown[name, parameters] = rows
        await self._after(fault)
        return rows

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        fault = await self._before("write", [(name, parameters)])
        await self._inner.write(name, parameters, consistency=consistency)
        await self._after(fault)

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        fault = await self._before("write", items)
        if fault == "lose" and self._rng.random() < 0.5:
            # Partitions of a plain batch stand or fall by themselves.
            items = items[: self._rng.randrange(len(items) + 1)]
        if items:
            await self._inner.write_batch(items, consistency=consistency)
        await self._after(fault)

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        try:
            fault = await self._before("conditional", items)
            if fault == "late":
                self._send_later(items)
                raise StoreUnavailable("it is still on its way")
            answer = await self._inner.conditional(items)
            await self._after(fault)
        except StoreUnavailable as error:
            return Unknown(str(error))
        return answer

    def replicas(self, name: str, parameters: Parameters) -> Hashable:
        return self._inner.replicas(name, parameters)

    async def close(self) -> None:
        return

    async def _before(self, kind: str, items: Sequence[Item]) -> str | None:
        await self._clock.running()
        plan = self.plan
        fault = plan.hook(kind, items) if plan.hook is not None else None
        if plan.cut_off:
            fault = "refuse"
        chance = self._rng.random()
        if fault is None and chance < plan.refuse + plan.lose_answer:
            fault = "refuse" if chance < plan.refuse else "lose"
        await self._clock.sleep(0.0005 + self._rng.random() * 0.003)
        if plan.slow and self._rng.random() < plan.slow:
            await self._clock.sleep(self._rng.random() * plan.slow_seconds)
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
        await self._clock.running()

    def _send_later(self, items: Sequence[Item]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(self.plan.late_seconds, lambda: loop.create_task(self._arrive(items), name="late write"))

    async def _arrive(self, items: Sequence[Item]) -> None:
        await self._inner.conditional(items)

    async def _die(self) -> None:
        self.plan.crash()
        await asyncio.get_running_loop().create_future()
