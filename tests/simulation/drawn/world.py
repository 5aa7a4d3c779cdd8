"""The random world's processes: hosts with clocks, and nodes and API processes that fail and start again."""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from statistics import median_low
from typing import Any, NamedTuple, TypeVar

from cql.memory.connection import InMemoryConnection
from membership.clocks import CLOCKS_APART_MS
from membership.identity import NodeIncarnation
from poller_cluster.settings import NodeSettings
from scheduler_service.api.services import ApiServices
from scheduler_service.domain.clients import Client
from scheduler_service.domain.destinations import StoredDestination
from scheduler_service.domain.ids import ClientId, minute_of
from scheduler_service.domain.reconciliations import Action
from scheduler_service.domain.schedules import State
from tests.simulation.drawn.api import ApiProcess, Unanswered
from tests.simulation.drawn.schedules import Schedule, TellingMemory, schedule_of
from tests.simulation.drawn.setting import APIS, NODES, SERVERS, SHORT_DAY_MS, Setting
from tests.simulation.faults import FaultPlan
from tests.simulation.loaded_store import LoadedStore
from tests.simulation.receivers import Call
from tests.simulation.sim_clock import SimClock
from tests.simulation.sim_node import SimNode
from tests.simulation.world import CLOCK_TOLERANCE_MS, World

T = TypeVar("T")
ASKED_SECONDS = 10.0
"""The time in which every server is asked for its time, and the answers are used."""
HEARD_BEATS = 5
"""The heartbeats after which every node has read one: reads may be 3.5 s old, and take a second."""
CLOCK_LIMIT_MS = 1_000
"""A wall clock with a larger error is wrong."""


class Window(NamedTuple):
    """A reconciliation of everything due in a window."""

    client_id: ClientId
    action: Action
    start: int
    end: int


class _EarliestClock(SimClock):
    """Not ahead of any API process's clock. Where all are behind, rows are created in minutes that are truly over."""

    def __init__(self, world: "DrawnWorld") -> None:
        super().__init__()
        self._world = world

    def wall_ms(self) -> int:
        walls = [api.clock.wall_ms() for api in self._world.apis.values()]
        return min([super().wall_ms(), *(wall for wall in walls if wall < self.true_ms() - CLOCK_LIMIT_MS)])


class DrawnWorld(World):
    """See the package. `skews`: the error of each host's clock, in milliseconds, with which its processes begin."""

    def __init__(self, seed: int, setting: Setting, *, node_settings: NodeSettings) -> None:
        super().__init__(seed, node_settings=node_settings)
        self.setting = setting
        self.nodes_know *= setting.in_place
        if setting.strength is not None:
            self.store = LoadedStore(self.memory, rng=random.Random(seed + 3), strength=setting.strength)
        self.schedules: dict[str, Schedule] = {}
        self.asked = self.schedules  # type: ignore[assignment]
        self.apis: dict[str, ApiProcess] = {}
        self.usual_skews = {name: self.rng.uniform(-1, 1) * setting.skew_ms for name in (*NODES, *APIS)}
        self.skews = dict(self.usual_skews)
        self.rates = {name: 1 + self.rng.uniform(-1, 1) * setting.skew_ms / 100_000 for name in self.skews}
        self._servers = {name: SimClock(skew_ms=ms) for name, ms in zip(SERVERS, setting.servers_ms, strict=False)}
        self.server_clocks = list(self._servers.values())
        self._servers_before: list[tuple[float, list[float]]] = []
        self.reader_clock = _EarliestClock(self)
        self.memory.server_clocks = [clock.system_ms for clock in self.server_clocks]
        self.skews.update(zip(SERVERS, setting.servers_ms, strict=False))
        self.usual_skews.update(dict.fromkeys(self._servers, 0.0))
        self.at_call: Callable[[SimNode, Schedule, Call], None] = lambda node, schedule, call: None
        self.on_destination: Callable[[str, str, StoredDestination | None], None] = lambda client, name, stored: None
        self.on_announced: Callable[[], None] = lambda: None
        self._callers: dict[asyncio.Task[None], None] = {}
        self._turn = 0
        self._windows: list[Window] = []
        self.hints_lost, self.hints_crowded = setting.hints_lost, setting.hints_crowded

    def storage(self) -> InMemoryConnection:
        return TellingMemory(
            self._inserted,
            on_destination=lambda *changed: self.on_destination(*changed),
            on_announced=lambda: self.on_announced(),
        )

    # Processes.

    def start_node(self, name: str) -> None:
        node = self.add_node(name, skew_ms=self.skews[name], rate=self.rates[name])
        node.connection.plan = self.plan_for(name)

    def start_api(self, name: str) -> None:
        self.note(name, "starts")
        api = self.apis[name] = ApiProcess(
            name=name,
            clock=SimClock(skew_ms=self.skews[name], rate=self.rates[name]),
            rng=random.Random(self.rng.getrandbits(64)),
            store=self.store,
            hints=self,
            told=self,
            on_crash=self.crashed,
        )
        api.connection.plan = self.plan_for(name)
        api.start()

    async def kill(self, name: str) -> None:
        if name in self.nodes:
            await super().kill(name)

    async def kill_api(self, name: str) -> None:
        if name in self.apis:
            self.note(name, "is killed")
            await self.apis.pop(name).kill()

    def plan_for(self, name: str) -> FaultPlan:
        """A plan without faults. A process that a hook crashes is killed, and stays down until it is started."""
        return FaultPlan(crash=lambda: self.spawn(self._crash(name)))

    async def _crash(self, name: str) -> None:
        await self.kill_api(name)
        await self.kill(name)

    def plan_of(self, name: str) -> FaultPlan | None:
        """The faults between one process and the store; None if the process does not run."""
        process: SimNode | ApiProcess | None = self.apis.get(name) or self.nodes.get(name)
        return None if process is None else process.connection.plan

    def clock_of(self, name: str) -> SimClock | None:
        if name in self._servers:
            return self._servers[name]
        process: SimNode | ApiProcess | None = self.apis.get(name) or self.nodes.get(name)
        return None if process is None else process.clock

    def step(self, name: str, milliseconds: float) -> None:
        """Step a host's clock, if there is such a host."""
        if name not in self.skews:
            return
        self.note(name, f"its clock is stepped by {milliseconds:.0f} ms")
        self.skews[name] += milliseconds
        self.skewed = True
        if (clock := self.clock_of(name)) is not None:
            if clock in self.server_clocks:
                self._servers_before.append((asyncio.get_running_loop().time(), self._server_errors_ms()))
            clock.step(milliseconds)

    def set_clocks_right(self) -> None:
        for name, usual in self.usual_skews.items():
            if self.skews[name] != usual:
                self.step(name, usual - self.skews[name])

    async def drain(self, incarnation: NodeIncarnation, *, force: bool) -> bool:
        if (node := self._reached(incarnation)) is not None:
            await node.node.hand_over.ask(force=force)
        return node is not None

    async def undrain(self, incarnation: NodeIncarnation) -> bool:
        node = self._reached(incarnation)
        return node is not None and node.node.hand_over.take_back()

    def _reached(self, incarnation: NodeIncarnation) -> SimNode | None:
        node = self.nodes.get(incarnation.node_id)
        return None if node is None or node.node.incarnation != incarnation or node.clock.paused else node

    def heal(self) -> None:
        self.note("world", "heals")
        processes: dict[str, SimNode | ApiProcess] = {**self.nodes, **self.apis}
        for name, process in processes.items():
            process.connection.plan = self.plan_for(name)
            process.clock.resume()

    @property
    def kept_since(self) -> int:
        """Rows of minutes before this one may have been deleted."""
        present = max(self.now_ms() + 2_000, self.furthest_ms)
        return minute_of(present - SHORT_DAY_MS) if self.setting.short_days else 0

    # The callers.

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a caller's task, which runs beside the operations."""
        task = asyncio.get_running_loop().create_task(work, name=f"outside.{len(self._callers)}")
        self._callers[task] = None
        task.add_done_callback(self._gone)

    def _gone(self, task: asyncio.Task[None]) -> None:
        self._callers.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.crashed(task.get_name(), error)

    async def callers_gone(self, *, within: float) -> None:
        """Wait until every caller's task has ended."""
        for _ in range(round(within)):
            if not self._callers:
                return
            await self.advance(1.0)
        raise self.violation(f"{len(self._callers)} callers get no answer although all is well")

    async def ask(self, verb: Callable[[ApiServices], Coroutine[Any, Any, T]], *, of: str | None = None) -> T:
        """Make one request, to the named API process or to each in turn. Raises Unanswered."""
        self._turn += 1
        names = list(self.apis)
        api = self.apis.get(of) if of is not None else self.apis[names[self._turn % len(names)]] if names else None
        if api is None:
            await self.api_clock.sleep(0.05)
            raise Unanswered("nobody listens")
        return await api.ask(verb)

    async def asked_until_answered(
        self, verb: Callable[[ApiServices], Coroutine[Any, Any, T]], *, tries: int | None = None
    ) -> T:
        """Repeat a request that gets no answer, so often at most. Raises Unanswered after the last."""
        pause = 0.3
        while True:
            try:
                return await self.ask(verb)
            except Unanswered:
                if tries is not None:
                    tries -= 1
                    if tries <= 0:
                        raise
            await self.api_clock.sleep(pause)
            pause = min(pause * 1.5, 5.0)

    def client(self, name: str) -> Client:
        return self.clients[name]

    def query_of_window(self, window: Window) -> None:
        """Note a reconciliation on every schedule in its window, future ones included."""
        self._windows.append(window)
        for schedule in self.schedules.values():
            self._wished(schedule, window)

    @staticmethod
    def _wished(schedule: Schedule, window: Window) -> None:
        if schedule.client_id != window.client_id or not window.start <= schedule.due < window.end:
            return
        schedule.cancel_wishes += window.action is Action.CANCEL
        schedule.skip_wishes += window.action is Action.SKIP
        if window.action is Action.REDELIVER:
            schedule.redeliver_wishes += 1
            if schedule.in_line is None:
                schedule.in_line = len(schedule.calls)

    # What is seen.

    def _inserted(self, columns: dict[str, object]) -> None:
        schedule = schedule_of(columns)
        if schedule.client_id.startswith("$"):
            return
        if str(schedule.schedule_id) not in self.schedules:
            self.schedules[str(schedule.schedule_id)] = schedule
            for window in self._windows:
                self._wished(schedule, window)

    def called(self, node: SimNode, call: Call) -> None:
        self.at_call(node, self.schedules[call.schedule_id], call)
        super().called(node, call)

    def tolerance_ms(self, node: SimNode) -> float:
        return self.ahead_ms(node) + (CLOCK_TOLERANCE_MS if self.skewed else 0.0)

    def ahead_ms(self, node: SimNode) -> float:
        """How far ahead of the truth the time by which a node acts may be. Only nodes with which it can have compared
        its clock count: not one that has just begun, and not one that was declared dead.
        """
        incarnations = [row for row in self.memory.rows("lives") if row["state"] == "live"]
        live = {(row["node_id"], row["incarnation"]) for row in incarnations}
        beats = {(row["node_id"], row["incarnation"]): row["beat"] for row in self.memory.rows("nodes")}
        others = [other for other in self.nodes.values() if other is not node and other.node.incarnation in live]
        heard = [other for other in others if beats.get(other.node.incarnation, 0) > HEARD_BEATS]
        return max(self._ahead_ms(node, others), self._ahead_ms(node, heard))

    def _ahead_ms(self, node: SimNode, others: Sequence[SimNode]) -> float:
        """Among clocks that agree within the precision of servers' clocks, the members' median counts. A clock ahead of
        most others, servers' included, is not believed; of two the earlier counts.
        """
        own = node.clock.wall_ms() - node.clock.true_ms()
        accepted = [one.clock.wall_ms() - one.clock.true_ms() for one in others]
        # A node that has not accepted a step yet does not contradict it, because its machine's clock was stepped too.
        stepped = [one.clock.exact_ms() - one.clock.true_ms() for one in others]
        asked_since = asyncio.get_running_loop().time() - ASKED_SECONDS
        told = [self._server_errors_ms(), *(errors for at, errors in self._servers_before if at >= asked_since)]
        return max(self._believed_ms(own, members, servers) for members in (accepted, stepped) for servers in told)

    def behind_ms(self) -> int:
        return max(-round(median_low(self._server_errors_ms())), 0)

    def _server_errors_ms(self) -> list[float]:
        return [clock.exact_ms() - clock.true_ms() for clock in self.server_clocks]

    def _believed_ms(self, own: float, members: Sequence[float], servers: Sequence[float]) -> float:
        most = median_low([own, *members, *servers])
        if own - most >= CLOCKS_APART_MS:
            return max(most, 0.0)
        near = sorted([own, *(error for error in members if abs(error - own) < CLOCKS_APART_MS)])
        return max(near[len(near) // 2] if len(near) > 2 else near[-1], 0.0)

    def look_at_clocks(self) -> None:
        """Record the wrong times by which nodes act."""
        for node in self.nodes.values():
            ahead = node.clock.wall_ms() - node.clock.true_ms() > CLOCK_LIMIT_MS
            if ahead and (ahead_ms := self.ahead_ms(node)) > CLOCK_LIMIT_MS:
                self.furthest_ms = max(self.furthest_ms, self.now_ms() + round(ahead_ms))

    async def check_ends(self) -> None:
        """An end changes only by a redelivery that a caller requested; a cancelled row's end never changes."""
        for schedule in self.schedules.values():
            state = self.state_of(schedule)
            if state is None and self.kept_since > minute_of(schedule.due):
                schedule.gone = True
                continue
            fixed = schedule.redeliver_wishes == 0 or schedule.end == State.CANCELLED
            if fixed and schedule.end is not None and state != schedule.end:
                raise self.violation(f"{schedule.schedule_id} had ended as {schedule.end}, now it is {state}")
            schedule.end = state if state is not None and State(state).ended else None

    def unfinished_ones(self) -> list[Schedule]:
        """Acknowledged schedules without an end, although one was promised."""
        return [
            schedule
            for schedule in self.schedules.values()
            if schedule.acknowledged
            and not schedule.gone
            and not schedule.redelivery_given_up
            and not State(self.state_of(schedule) or State.SCHEDULED).ended
        ]

    async def close(self) -> None:
        callers = list(self._callers)
        for task in callers:
            task.cancel()
        if callers:
            await asyncio.wait(callers)
        for name in list(self.apis):
            await self.kill_api(name)
        await super().close()
