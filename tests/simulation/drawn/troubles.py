"""When something outside Minutehand kept calls from being made in time: the only reasons for which a late policy may
skip.

Only the state of the world counts, not the operations on it: a poller without an owner or with another one; a node that
is paused, cut off or has a wrong clock; receivers that fail; clients that are suspended. Faults of API processes and
clients' requests excuse nothing.
"""

from membership.identity import IncarnationNumber, NodeId
from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.ids import minute_end, minute_of, poller_of
from tests.simulation.drawn.schedules import Schedule
from tests.simulation.drawn.world import CLOCK_LIMIT_MS, DrawnWorld
from tests.simulation.sim_node import SimNode

LOOKS_SECONDS = 0.25
NODES, RECEIVERS = "nodes", "receivers"
AFTER_SECONDS = {NODES: 20.0, RECEIVERS: 75.0}
"""How long calls may be late after a trouble: pollers are recovered, and attempts to failed hosts are held back for at
most a minute."""
AFTER_CLIENT_SECONDS = 75.0
"""The same for a client that is active again: every node reads of it within a minute."""
CLAIMED_MS = 6_000
"""How long before its due a row may be claimed."""
SWEPT_MS = 15_000
"""How long after its minute a row whose hint was lost is found. An owner that takes its poller before finds it late,
and does not know the reason."""
STUCK_KEY_MS = 600_000
"""How long a key may be stuck after a trouble, since its head is retried with growing pauses."""


class Troubles:
    """`spans`: by kind and client, the times in which calls may have been late for this reason, in order."""

    def __init__(self, world: DrawnWorld) -> None:
        self._world = world
        self._spans: dict[str, list[tuple[int, int]]] = {}
        self._epochs: dict[str, int] = {}
        self._hindered: dict[str, int] = {}
        """When each node was last seen hindered."""
        self._calm: tuple[int, int, set[tuple[NodeId, IncarnationNumber]]] | None = None
        """Changes of both tables, and the incarnations, when nothing stored was a trouble."""

    async def watch(self) -> None:
        """Watch until cancelled."""
        while True:
            self.look()
            await self._world.api_clock.sleep(LOOKS_SECONDS)

    def look(self) -> None:
        world = self._world
        world.look_at_clocks()
        hindered = [name for name, node in world.nodes.items() if not acts(node)]
        self._hindered.update(dict.fromkeys(hindered, world.now_ms()))
        if hindered:
            passed_early = max(world.furthest_ms - world.now_ms(), 0) / 1000
            self._note(NODES, AFTER_SECONDS[NODES] + passed_early)
        incarnations = {(node.node.incarnation.node_id, node.node.incarnation.number) for node in world.nodes.values()}
        tables = world.memory.tables
        stored = (tables["pollers"].changes, tables["clients"].changes, incarnations)
        if stored != self._calm:
            self._calm = stored if self._stored_is_calm(incarnations) else None
        if not world.receiver.well:
            self._note(RECEIVERS, AFTER_SECONDS[RECEIVERS])

    def _stored_is_calm(self, incarnations: set[tuple[NodeId, IncarnationNumber]]) -> bool:
        """Note what is stored of pollers and clients and keeps calls from being made in time; returns whether nothing
        does.
        """
        world, calm = self._world, True
        for client_id, poller_id, owner, incarnation, epoch in world.memory.columns(
            "pollers", "client_id", "poller_id", "owner_node", "owner_incarnation", "epoch"
        ):
            poller = f"{client_id}/{poller_id}"
            if (owner, incarnation) not in incarnations or self._epochs.get(poller) != epoch:
                self._note(poller, AFTER_SECONDS[NODES])
                self._epochs[poller] = epoch
                calm = False
        for client_id, state in world.memory.columns("clients", "client_id", "state"):
            if state != ClientState.ACTIVE:
                self._note(client_id, AFTER_CLIENT_SECONDS)
                calm = False
        return calm

    def excuse(self, schedule: Schedule, *, late_ms: float) -> bool:
        """Whether something prevented its call at its due or until that much later, or prevented finding it."""
        if schedule.flow is not None:
            # Other calls of its key may have been before it.
            return True
        first = schedule.due - CLAIMED_MS
        last = max(schedule.due + late_ms, minute_end(minute_of(schedule.due)) + SWEPT_MS)
        if schedule.ordering_key is not None:
            first -= STUCK_KEY_MS
        return self.between(schedule, first, last)

    def between(self, schedule: Schedule, first: float, last: float) -> bool:
        """Whether something may have delayed calls of this schedule's poller then."""
        poller = f"{schedule.client_id}/{poller_of(schedule.schedule_id)}"
        kinds = (NODES, RECEIVERS, schedule.client_id, poller)
        return any(begin <= last and end >= first for kind in kinds for begin, end in self._spans.get(kind, ()))

    def hindered(self, node: str, *, since: float) -> bool:
        """Whether something may have kept a node from reading what is stored. Where storage is slow, that is always."""
        return self._world.setting.strength is not None or self._hindered.get(node, 0) >= since

    def _note(self, kind: str, after_seconds: float) -> None:
        spans, now = self._spans.setdefault(kind, []), self._world.now_ms()
        begin = spans.pop()[0] if spans and spans[-1][1] >= now else now
        spans.append((begin, now + int(1000 * after_seconds)))


def acts(node: SimNode) -> bool:
    """Whether nothing keeps this node from calling in time."""
    clock = node.clock
    return (
        not clock.paused
        and node.over is None
        and clock.wall_trusted()
        and abs(clock.wall_ms() - clock.true_ms()) < CLOCK_LIMIT_MS
        and node.node.membership_agent.trusted()
        and node.connection.plan.faultless
    )
