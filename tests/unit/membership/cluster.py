"""A small cluster under virtual time: real shells over one store in memory, hosts that settle marks, and the checks.

A mark is `MARK_SECONDS` of virtual time. A host settles the marks of its pollers as they pass, while it is trusted,
except for stuck pollers. Checked all the time: no two trusted processes are granted one poller, no poller is granted
from a mark that was not reached, and hosts are told what their contract promises.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from membership.errors import IncarnationOver
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from membership.lease_balancer import LeaseBalancer
from membership.membership_agent import MembershipAgent, NodeProfile
from membership.settings import MembershipSettings
from tests.support.membership_store import Fault, FaultHook, MembershipStore, StorePort
from tests.support.virtual_clock import VirtualClock
from tests.support.virtual_loop import virtual_loop

MARK_SECONDS = 5.0


class Host:
    """A `PollerHost` and `Credibility` that only keeps its positions."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self.cluster = process.cluster
        self.positions: dict[PollerKey, int] = {}
        self.epochs: dict[PollerKey, int] = {}
        self.draining: dict[PollerKey, None] = {}
        self.drain_seconds = 0.0
        self.story: list[tuple[str, PollerKey]] = []
        self.latest_credible: int | None = None
        self.gone_pollers: list[PollerKey] = []

    def granted(self, poller: PollerKey, *, epoch: int, start: int) -> None:
        assert poller not in self.positions, f"{poller} was granted twice"
        assert start <= self.cluster.reached.get(poller, self.cluster.first_mark), f"{poller} starts too late: {start}"
        assert epoch > self.cluster.epochs.get(poller, 0), f"{poller} is granted under an old epoch"
        self.cluster.epochs[poller] = epoch
        self.positions[poller] = start
        self.epochs[poller] = epoch
        self.story.append(("granted", poller))
        self.cluster.check()

    def position(self, poller: PollerKey) -> int:
        return self.positions[poller]

    def credible(self, poller: PollerKey, mark: int) -> int:
        return mark if self.latest_credible is None else min(mark, self.latest_credible)

    def credible_low_watermark(self, low_watermark: int) -> int:
        return low_watermark

    async def drain(self, poller: PollerKey) -> None:
        assert poller in self.positions
        self.draining[poller] = None
        self.story.append(("drain", poller))
        await self._process.clock.sleep(self.drain_seconds)

    def revoked(self, poller: PollerKey) -> None:
        del self.positions[poller]
        del self.epochs[poller]
        self.draining.pop(poller, None)
        self.story.append(("revoked", poller))

    def gone(self, poller: PollerKey) -> None:
        assert poller not in self.positions
        self.gone_pollers.append(poller)

    def settle(self, mark: int) -> None:
        for poller in self.positions:
            if poller not in self.cluster.stuck:
                self.positions[poller] = max(self.positions[poller], mark)
                self.cluster.reached[poller] = max(self.cluster.reached.get(poller, 0), mark)


class Process:
    """The process of one incarnation: its clock, its access to the store, its shells."""

    def __init__(
        self, cluster: "Cluster", incarnation: NodeIncarnation, *, rate: float = 1.0, skew_ms: float = 0.0
    ) -> None:
        self.cluster = cluster
        self.incarnation = incarnation
        self.clock = VirtualClock(rate=rate, skew_ms=skew_ms)
        self.port = StorePort(cluster.store, self.clock)
        self.host = Host(self)
        self.over: str | None = None
        self.started = False
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.membership_agent = MembershipAgent(
            incarnation=incarnation,
            profile=NodeProfile(
                address=f"{incarnation.node_id}:1",
                version="1",
                capacity_per_minute=1_000,
                knows=incarnation.number,
            ),
            store=self.port,
            clock=self.clock,
            settings=cluster.settings,
            spawn=self.spawn,
            on_over=self.incarnation_over,
            low_watermark=lambda: self.balancer.low_watermark(),
        )
        self.balancer = LeaseBalancer(
            incarnation=incarnation,
            members=self.membership_agent,
            store=self.port,
            host=self.host,
            credibility=self.host,
            clock=self.clock,
            settings=cluster.settings,
            spawn=self.spawn,
        )

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=f"{self.incarnation}.{name}")
        self.tasks[task] = None
        task.add_done_callback(self.ended)
        return task

    def ended(self, task: asyncio.Task[Any]) -> None:
        del self.tasks[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            self.cluster.errors.append(error)

    def incarnation_over(self, reason: str) -> None:
        assert self.over is None, "told twice"
        assert not self.membership_agent.trusted()
        assert not self.host.positions, "the pollers are revoked before the process is told to end"
        self.over = reason

    def drain(self) -> None:
        self.spawn(self.balancer.release_all(), name="drain")

    async def run(self) -> None:
        self.balancer.set_pollers(self.cluster.pollers)
        await self.balancer.start()
        try:
            await self.membership_agent.start()
        except IncarnationOver:
            assert self.membership_agent.over is not None
        else:
            self.started = True

    async def stop(self) -> None:
        """Stop in good order, as on SIGTERM."""
        await self.balancer.release_all()
        await self.balancer.stop()
        await self.membership_agent.stop()

    async def kill(self) -> None:
        """Kill as by SIGKILL: nothing more is done."""
        self.clock.resume()
        while self.tasks:
            tasks = list(self.tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        self.host.positions.clear()

    def acts_for(self, poller: PollerKey) -> bool:
        return poller in self.host.positions and poller not in self.host.draining and self.membership_agent.trusted()


class Cluster:
    """See the module. `settings` may be any valid ones; `pollers` is what every process knows of the clients."""

    def __init__(self, pollers: dict[str, int], *, settings: MembershipSettings | None = None) -> None:
        self.store = MembershipStore()
        self.settings = settings or MembershipSettings(mark_round_seconds=3.0, lag_marks=2, watermark_marks=3)
        self.pollers = pollers
        self.first_mark = 0
        self.processes: list[Process] = []
        self.reached: dict[PollerKey, int] = {}
        self.epochs: dict[PollerKey, int] = {}
        self.stuck: dict[PollerKey, None] = {}
        self.errors: list[BaseException] = []
        self.store.create_pollers(self.all_pollers, watermark=self.first_mark)

    @property
    def all_pollers(self) -> list[PollerKey]:
        return [PollerKey(client_id, number) for client_id, count in self.pollers.items() for number in range(count)]

    def add(self, node_id: str, *, rate: float = 1.0, skew_ms: float = 0.0, incarnation: int | None = None) -> Process:
        """Add a process that starts now, under a new incarnation unless one is given."""
        begun = len(self.processes) + 1 if incarnation is None else incarnation
        process = Process(self, NodeIncarnation(NodeId(node_id), IncarnationNumber(begun)), rate=rate, skew_ms=skew_ms)
        self.processes.append(process)
        process.spawn(process.run(), name="run")
        return process

    async def advance(self, seconds: float, *, until: Callable[[], bool] | None = None) -> float:
        """Let time pass in small steps, while hosts work and everything is checked. Returns how much has passed."""
        loop = virtual_loop()
        end, begun = loop.time() + seconds, loop.time()
        while loop.time() < end and not (until is not None and until()):
            await loop.advance(min(0.1, end - loop.time()))
            mark = int(loop.time() // MARK_SECONDS)
            for process in self.processes:
                if process.membership_agent.trusted():
                    process.host.settle(mark)
            self.check()
        if until is not None:
            assert until(), f"not within {seconds} s"
        return loop.time() - begun

    def check(self) -> None:
        for error in self.errors:
            raise error
        owners: dict[PollerKey, Process] = {}
        for process in self.processes:
            if process.membership_agent.trusted():
                for poller in process.host.positions:
                    assert poller not in owners, (
                        f"{poller} is {owners[poller].incarnation}'s and {process.incarnation}'s at {now():.1f}"
                    )
                    owners[poller] = process
        for poller, row in self.store.leases.items():
            assert row.watermark <= self.reached.get(poller, self.first_mark), f"{poller}: watermark too high"

    def owner_of(self, poller: PollerKey) -> Process | None:
        """The process that acts for the poller."""
        return next((process for process in self.processes if process.acts_for(poller)), None)

    def owned(self) -> bool:
        """Whether the process that rendezvous hashing prefers acts for every poller."""
        return all(
            (process := self.owner_of(poller)) is not None
            and process.balancer.hint_of(poller) == process.incarnation.node_id
            for poller in self.all_pollers
        )

    async def ends(self) -> None:
        """Kill all processes that still run."""
        for process in self.processes:
            await process.kill()
        self.check()


def now() -> float:
    return virtual_loop().time()


def on(name: str, fault: Fault, *, times: int = 1) -> FaultHook:
    """A hook that makes the next `times` requests of that name fail."""
    left = [times]

    def hook(called: str, subject: object) -> Fault | None:
        if called != name or not left[0]:
            return None
        left[0] -= 1
        return fault

    return hook
