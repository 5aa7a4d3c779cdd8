"""One simulated node process: the real `Node` with a clock, a connection and an engine of its own."""

import asyncio
import random
import uuid
from collections.abc import Callable
from itertools import cycle
from typing import Any

from cql.connection import Connection
from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from membership.membership_agent import NodeProfile
from membership.settings import MembershipSettings
from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.node import Node
from poller_cluster.settings import NodeSettings
from scheduler_service.domain.ports import HintSender
from scheduler_service.usecases.secret_encryption import NoEncryption
from tests.simulation.faults import FaultyConnection
from tests.simulation.receivers import Call, Receiver, SimEngine
from tests.simulation.sim_clock import SimClock
from tests.simulation.token_servers import SimFetcher, TokenServer


class SeededRandomness:
    """Randomness of one process."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.bits = rng.getrandbits
        self.fraction = rng.random

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=self._rng.getrandbits(128), version=4)

    def secret_bytes(self, count: int) -> bytes:
        return self._rng.randbytes(count)


class SimNode:
    """One node process and its machine."""

    def __init__(
        self,
        *,
        name: str,
        incarnation: int,
        clock: SimClock,
        rng: random.Random,
        store: Connection,
        receiver: Receiver,
        token_server: TokenServer,
        settings: NodeSettings,
        on_call: Callable[["SimNode", Call], None],
        on_end: Callable[[Call], None],
        on_crash: Callable[[str, BaseException], None],
        on_fault: Callable[[str, BaseException], None],
        hints: HintSender,
        knows: int = 0,
    ) -> None:
        self.name = name
        self.clock = clock
        self.rng = rng
        self.connection = FaultyConnection(store, clock=clock, rng=rng)
        randomness = SeededRandomness(rng)
        budget = BackgroundBudget(
            clock=clock,
            randomness=randomness,
            settings=settings.background,
            minutes_at_once=settings.recovery_minutes_at_once,
        )
        self.storage = Storage.over(
            self.connection,
            clock=clock,
            randomness=randomness,
            packs=cycle((True, False)).__next__,  # so that every minute has rows of both forms
            on_request=budget.observe,
        )
        self.engine = SimEngine(
            node=name, clock=clock, receiver=receiver, rng=rng, on_call=lambda call: on_call(self, call), on_end=on_end
        )
        self._on_crash, self._on_fault = on_crash, on_fault
        self.over: str | None = None
        self.tasks: list[asyncio.Task[Any]] = []
        self.node = Node(
            incarnation=NodeIncarnation(NodeId(name), IncarnationNumber(incarnation)),
            profile=NodeProfile(
                address="",
                version="simulated",
                weight=settings.weight,
                capacity_per_minute=settings.capacity_per_minute,
                knows=knows,
            ),
            stores=self.storage,
            encryption=NoEncryption(),
            engine=self.engine,
            fetcher=SimFetcher(server=token_server, clock=clock, dead=lambda: self.engine.dead),
            clock=self.clock,
            randomness=randomness,
            settings=settings,
            membership=MembershipSettings(),
            process=self,
            budget=budget,
            hints=hints,
        )

    def node_over(self, reason: str) -> None:
        self.over = reason

    def task_crashed(self, name: str, error: BaseException) -> None:
        self._on_crash(name, error)

    def work_failed(self, name: str, error: BaseException) -> None:
        self._on_fault(name, error)

    def start(self) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(self.node.start()))

    async def stop(self) -> None:
        """SIGTERM."""
        await self.node.stop()
        self.engine.dead = True

    async def kill(self) -> None:
        """SIGKILL: it does nothing more, and answers reach nobody."""
        self.engine.dead = True
        self.clock.resume()
        for task in self.tasks:
            task.cancel()
        await self.node._tasks.close()
        await self.storage.close()


def announced_low_watermark(memory: InMemoryConnection, incarnation: NodeIncarnation) -> int | None:
    """The low watermark that this incarnation last announced."""
    for row in memory.rows("nodes"):
        if (row["node_id"], row["incarnation"]) == (incarnation.node_id, incarnation.number):
            return int(row["floor"]) if row["floor"] is not None else None
    return None
