"""A store whose latency grows with its load, and whose conditional writes on one partition contend.

It is between the in-memory tables and the connections of all processes, which share its capacity. Every request costs
service time, requests queue for `cores`, and a client that has waited `CLIENT_TIMEOUT_SECONDS` gives up while its work
is still done. So load causes time-outs, and a caller that repeats what timed out adds load.

A conditional write or a serial read is a round of Paxos: it succeeds unless another proposal for the same partition
begins while it is served. A preempted proposer pauses at random and proposes again, at full cost, until
`CONTENTION_SECONDS` have passed; then the answer is unknown, and the write is applied all the same in half of the
cases, since other proposers may complete it. So n concurrent writers of one partition cost far more than n times one
writer, and many never succeed.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cql.connection import AnswerRows, Consistency, Item, Parameters
from cql.memory.connection import _SERVER, InMemoryConnection, _SelectPlan, _ServerPlan
from membership.conditional import Answer, Unknown
from membership.errors import StoreUnavailable
from tests.simulation.sim_clock import SimClock

T = TypeVar("T")

CLIENT_TIMEOUT_SECONDS = 2.0
CONTENTION_SECONDS = 1.0
PREEMPTED_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Strength:
    """The store's capacity. Costs are milliseconds of one core: an owner commit of 30 rows costs Cassandra 2.7 ms, one
    of 250 rows 6 ms (measured with `make bench`).
    """

    cores: int = 2
    request_ms: float = 0.3
    """A read or a plain write."""
    proposal_ms: float = 2.3
    """One round of a conditional write."""
    row_ms: float = 0.015
    """Each row written or read."""


@dataclass
class Contention:
    """Conditional writes and serial reads of one partition."""

    ballot: int = 0
    under_way: int = 0
    most_under_way: int = 0
    writes: list[float] = field(default_factory=list)
    """The instants at which clients requested conditional writes."""

    def busiest(self, seconds: float) -> int:
        """The largest number of writes that began within so many seconds."""
        most, first = 0, 0
        for last, at in enumerate(self.writes):
            while self.writes[first] < at - seconds:
                first += 1
            most = max(most, last - first + 1)
        return most


class LoadedStore:
    """`cql.connection.Connection` for every process of a world. `close` ends what is still being served."""

    def __init__(self, inner: InMemoryConnection, *, rng: random.Random, strength: Strength | None = None) -> None:
        self.strength = strength or Strength()
        self.partitions: dict[Hashable, Contention] = {}
        self.timeouts: Counter[str] = Counter()
        """Requests that their clients gave up or whose result stayed unknown, by the name of the first statement."""
        self._inner = inner
        self._rng = rng
        self._clock = SimClock()
        self._free_at = [0.0] * self.strength.cores
        self._serving: set[asyncio.Task[Any]] = set()

    @property
    def backlog_seconds(self) -> float:
        """How long a request that arrives now would wait for a core."""
        return max(min(self._free_at) - asyncio.get_running_loop().time(), 0.0)

    def forget(self) -> None:
        """Reset the counts."""
        self.timeouts.clear()
        for seen in self.partitions.values():
            seen.most_under_way = 0
            seen.writes.clear()

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[Any, ...]]:
        async def read() -> list[tuple[Any, ...]]:
            return await self._inner.select(name, parameters, serial=serial, consistency=consistency)

        async def serve() -> list[tuple[Any, ...]]:
            if serial:
                return await self._propose(self._contention(name, parameters), 1, read)
            await self._serve(self.strength.request_ms)
            rows = await read()
            if len(rows) > 1:
                await self._serve(self.strength.row_ms * len(rows))
            return rows

        return await self._asked(name, serve)

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        async def serve() -> None:
            await self._serve(self.strength.request_ms)
            await self._inner.write(name, parameters, consistency=consistency)

        await self._asked(name, serve)

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        async def serve() -> None:
            await self._serve(self.strength.request_ms + self.strength.row_ms * len(items))
            await self._inner.write_batch(items, consistency=consistency)

        await self._asked(items[0][0], serve)

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        seen = self._contention(*items[0])
        seen.writes.append(asyncio.get_running_loop().time())

        async def write() -> Answer[AnswerRows]:
            return await self._inner.conditional(items)

        try:
            return await self._asked(items[0][0], lambda: self._propose(seen, len(items), write))
        except StoreUnavailable as error:
            return Unknown(str(error))

    def replicas(self, name: str, parameters: Parameters) -> Hashable:
        return self._inner.replicas(name, parameters)

    async def close(self) -> None:
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    def _contention(self, name: str, parameters: Parameters) -> Contention:
        return self.partitions.setdefault(addressed(self._inner, name, parameters), Contention())

    async def _propose(self, seen: Contention, rows: int, effect: Callable[[], Awaitable[T]]) -> T:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + CONTENTION_SECONDS
        seen.under_way += 1
        seen.most_under_way = max(seen.most_under_way, seen.under_way)
        try:
            while True:
                seen.ballot += 1
                ballot = seen.ballot
                await self._serve(self.strength.proposal_ms + self.strength.row_ms * rows)
                if seen.ballot == ballot:
                    return await effect()
                if loop.time() > give_up_at:
                    if self._rng.random() < 0.5:
                        await effect()
                    raise StoreUnavailable("preempted by other proposals until the time-out")
                await self._clock.sleep(self._rng.random() * PREEMPTED_PAUSE_SECONDS)
        finally:
            seen.under_way -= 1

    async def _serve(self, milliseconds: float) -> None:
        """Wait for a core, then until the work is done."""
        now = asyncio.get_running_loop().time()
        core = min(range(len(self._free_at)), key=self._free_at.__getitem__)
        self._free_at[core] = max(now, self._free_at[core]) + milliseconds / 1000.0
        await self._clock.sleep(self._free_at[core] - now)

    async def _asked(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """Returns the client's answer. The work goes on when nobody waits for it any more; its time-out is then
        ignored.
        """

        async def served() -> T | StoreUnavailable:
            try:
                return await work()
            except StoreUnavailable as error:
                return error

        task = asyncio.get_running_loop().create_task(served(), name=f"served {name}")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        done, _ = await asyncio.wait((task,), timeout=CLIENT_TIMEOUT_SECONDS)
        answer = task.result() if done else StoreUnavailable("the client gave up")
        if isinstance(answer, StoreUnavailable):
            self.timeouts[name] += 1
            raise answer
        return answer


def addressed(connection: InMemoryConnection, name: str, parameters: Parameters) -> Hashable:
    """Table and partition that a statement addresses, if it addresses one."""
    plan = connection._plans[name]
    if isinstance(plan, _ServerPlan):
        return _SERVER, ()
    if not isinstance(plan, _SelectPlan):
        return plan.table.definition.name, plan.bind(parameters).key
    assert plan._key is not None, "it reads the whole table"
    return plan.table.definition.name, plan._key(parameters)
