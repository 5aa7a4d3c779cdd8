"""One run of a random world, and the shortest list of operations that fails in the same way."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

from poller_cluster.settings import NodeSettings, ReceiverSettings
from tests.simulation.drawn.administrators import Administrators, clients_of
from tests.simulation.drawn.clients import DrawnClients
from tests.simulation.drawn.crons import DrawnCrons
from tests.simulation.drawn.destinations import DrawnDestinations
from tests.simulation.drawn.operations import Operation, draw
from tests.simulation.drawn.performing import Performing
from tests.simulation.drawn.promises import Promises
from tests.simulation.drawn.setting import APIS, NODES, draw_setting, small_scale
from tests.simulation.drawn.troubles import Troubles
from tests.simulation.drawn.windows import Windows
from tests.simulation.drawn.world import DrawnWorld
from tests.simulation.receivers import answers_ok
from tests.simulation.world import Violation
from tests.support.virtual_loop import run_virtual

COUNT = 40
"""Operations of a run."""
EASILY_OPENED = ReceiverSettings(breaker_failures=2, breaker_open_seconds=2, breaker_longest_seconds=60)
HEARD_SECONDS = 150
"""How long a world runs without faults until every process must know every client, and clocks must have been compared:
the last write may arrive 90 s late, and every process reads it within another minute."""
PROBES = 2
"""Schedules of each client that are created at the end."""
PROBE_MS = 4_000
"""The greatest lateness of a call long after the last fault: clocks differ, and its row is created on short notice."""


def run(seed: int, *, operations: Sequence[Operation] | None = None, count: int = COUNT) -> DrawnWorld:
    """Make one run; raises Violation or the error of what failed."""
    chosen = draw(seed, count) if operations is None else operations

    async def scenario() -> DrawnWorld:
        world = DrawnWorld(seed, draw_setting(seed), node_settings=NodeSettings(receivers=EASILY_OPENED))
        try:
            with small_scale(world.setting):
                await _Run(world).whole(chosen)
        except BaseException:
            with suppress(Violation):  # the same error, or a consequence of it
                await world.close()
            raise
        await world.close()
        return world

    return run_virtual(scenario, seed=seed)


class _Run:
    def __init__(self, world: DrawnWorld) -> None:
        self.world = world
        self.administrators = Administrators(world)
        self.clients = DrawnClients(world)
        self.windows = Windows(world)
        self.crons = DrawnCrons(world)
        self.troubles = Troubles(world)
        self.destinations = DrawnDestinations(world, self.troubles)
        self.performing = Performing(
            world,
            clients=self.clients,
            windows=self.windows,
            crons=self.crons,
            administrators=self.administrators,
            destinations=self.destinations,
        )
        self.promises = Promises(world, self.administrators, self.troubles, self.destinations)

    async def whole(self, operations: Sequence[Operation]) -> None:
        watching = asyncio.get_running_loop().create_task(self.troubles.watch(), name="troubles")
        try:
            await self._whole(operations)
        finally:
            watching.cancel()

    async def _whole(self, operations: Sequence[Operation]) -> None:
        await self._begin()
        for operation in operations:
            await self.world.advance(operation.after)
            self.world.note("run", str(operation))
            await asyncio.wait_for(self.performing.perform(operation), 120)
            await self.promises.watch()
        await self._all_is_well()
        await self.promises.settle(within=900)
        await self.windows.ended(within=300)
        self.promises.check_owned()
        await self._probe()
        await self.crons.end()
        await self.promises.check_deleted()

    async def _begin(self) -> None:
        world, setting = self.world, self.world.setting
        for name in APIS[: setting.apis]:
            world.start_api(name)
        await self.crons.begin()
        for name, (quota, settings) in clients_of(setting).items():
            await self.administrators.register(name, quota=quota, settings=settings)
        await self.destinations.make_all()
        for name in NODES[: setting.nodes]:
            world.start_node(name)
        await world.advance(4)

    async def _all_is_well(self) -> None:
        world = self.world
        world.heal()
        world.set_clocks_right()
        world.receiver.latency_seconds = 0.01
        world.receiver.script = answers_ok
        world.hints_lost = world.hints_crowded = 0.0
        # A write under way may still end in the crash that was drawn for it.
        await world.advance(1)
        if not world.nodes:
            world.start_node(NODES[0])
        if not world.apis:
            world.start_api(APIS[0])
        await world.revive()
        for node in world.nodes:
            await asyncio.wait_for(self.administrators.undrain(node, patience=None), 120)
        await asyncio.wait_for(self.destinations.resume_all(), 120)
        for _ in range(HEARD_SECONDS):
            await world.revive()
            await world.advance(1)
        self.promises.check_known()
        for client in world.clients:
            await asyncio.wait_for(self.administrators.resume(client), 120)
        await world.callers_gone(within=300)
        # Some have paused one meanwhile.
        await asyncio.wait_for(self.destinations.resume_all(), 120)

    async def _probe(self) -> None:
        """New schedules of every client are called at their due, also where their destination was made just now."""
        world = self.world
        await self.destinations.make_all()
        known, dice = len(world.schedules), random.Random(0)
        for client in world.clients:
            requests = self.clients.requests(dice, count=PROBES, spread_seconds=10)
            await self.clients.create_under_key(client, f"probe {client}", requests, patience=None)
        await world.advance(20)
        probes = [schedule for schedule in list(world.schedules.values())[known:] if schedule.acknowledged]
        if len(probes) != PROBES * len(world.clients):
            raise world.violation(f"all is well, and only {probes} are acknowledged")
        for schedule in probes:
            late_ms = schedule.calls[0].at_ms - schedule.due if schedule.calls else None
            if late_ms is None or late_ms > PROBE_MS:
                raise world.violation(f"all is well, and {schedule} is called {late_ms} ms after its due")


def shrink(seed: int, operations: list[Operation]) -> list[Operation]:
    """A shorter list that still fails: pieces are left out as long as the rest fails."""
    size = len(operations) // 2
    while size >= 1:
        start = 0
        while start < len(operations):
            candidate = operations[:start] + operations[start + size :]
            if fails(seed, candidate):
                operations = candidate
            else:
                start += size
        size //= 2
    return operations


def fails(seed: int, operations: list[Operation]) -> bool:
    try:
        run(seed, operations=operations)
    except Exception:
        return True
    return False
