"""Random faults by seed: at no time do two processes act for one poller, and afterwards every poller finds its
owner.
"""

import random

import pytest

from tests.support.membership_store import Fault, FaultHook
from tests.support.virtual_loop import run_virtual
from tests.unit.membership.cluster import Cluster, Process

POLLERS = {"shop": 7, "blog": 4}
NAMES = ("a", "b", "c")
SECONDS_WITH_FAULTS = 70
WELL_WITHIN_SECONDS = 45.0


def unreliable(chance: random.Random, rate: float) -> FaultHook:
    def hook(name: str, subject: object) -> Fault | None:
        return chance.choice(list(Fault)) if chance.random() < rate else None

    return hook


class Chaos:
    """Faults of a cluster, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.trace: list[object] = []

    async def run(self) -> None:
        cluster = self.cluster = Cluster(POLLERS)
        self.running = {name: self.add(name) for name in NAMES}
        await cluster.advance(self.random.uniform(1.0, 15.0))
        for _ in range(SECONDS_WITH_FAULTS):
            if self.random.random() < 0.3:
                await self.happen(self.random.choice(NAMES))
            await cluster.advance(1.0)
            self.note()
        self.heal()
        await cluster.advance(WELL_WITHIN_SECONDS, until=lambda: self.all_well() and cluster.owned())
        await cluster.advance(20.0)
        for _ in range(20):
            await cluster.advance(0.5)
            assert cluster.owned()
        self.note()
        await cluster.ends()

    def add(self, name: str) -> Process:
        return self.cluster.add(name, rate=self.random.uniform(0.98, 1.02), skew_ms=self.random.uniform(-100, 100))

    def note(self) -> None:
        rows = self.cluster.store.leases.values()
        self.trace.append([(str(row.owner), row.epoch, row.watermark, row.lagging) for row in rows])

    async def happen(self, name: str) -> None:
        process, draw = self.running[name], self.random.random()
        self.trace.append((name, draw))
        if draw < 0.2:
            process.clock.pause()
        elif draw < 0.4:
            process.clock.resume()
        elif draw < 0.5:
            process.port.away = not process.port.away
        elif draw < 0.7:
            process.port.fault = unreliable(self.random, self.random.choice((0.0, 0.1, 0.5)))
        elif draw < 0.78:
            await process.kill()
            self.running[name] = self.add(name)
        elif draw < 0.84:
            process.clock.resume()
            process.spawn(process.stop(), name="stop")
            self.running[name] = self.add(name)
        elif draw < 0.9:
            self.random.choice((process.balancer.take_again, process.drain))()
        elif draw < 0.95:
            process.host.drain_seconds = self.random.uniform(0.0, 20.0)
        else:
            poller = self.random.choice(self.cluster.all_pollers)
            self.cluster.stuck.pop(poller) if poller in self.cluster.stuck else self.cluster.stuck.update(
                {poller: None}
            )

    def heal(self) -> None:
        for process in self.cluster.processes:
            process.clock.resume()
            process.port.away = False
            process.port.fault = lambda name, subject: None
        for name, process in self.running.items():
            if process.membership_agent.over is not None:
                self.running[name] = self.add(name)
            else:
                process.balancer.take_again()

    def all_well(self) -> bool:
        """Whether every process is trusted. Those that have just read of their death are started again."""
        for name, process in list(self.running.items()):
            if process.over is not None:
                self.running[name] = self.add(name)
        return all(process.membership_agent.trusted() for process in self.running.values())


@pytest.mark.cpu_budget(20)
@pytest.mark.parametrize("block", range(6))
def test_random_faults(block: int) -> None:
    for seed in range(block * 3, block * 3 + 3):
        run_virtual(Chaos(seed).run, seed=seed)


@pytest.mark.cpu_budget(10)
def test_the_same_seed_gives_the_same_trace() -> None:
    first, second = Chaos(5), Chaos(5)
    run_virtual(first.run, seed=5)
    run_virtual(second.run, seed=5)
    assert first.trace == second.trace
