"""Hints from an API to the nodes: gathered, sent to the poller's owner over loopback, never delaying a request."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest
from aiohttp import web

from membership.identity import NodeId, PollerKey
from membership.rendezvous import hint_for
from poller_cluster.ops.server import OpsServer, OpsSettings, advertised_address, listen
from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId, RowKey, UnixMillis, compose_schedule_id
from scheduler_service.hints import MAX_HINTS, HintForwarder, HintSettings
from scheduler_service.runtime.metrics import Metrics
from scheduler_service.usecases.members import HintTargets, WatchMembers
from tests.support.api import ManualClock
from tests.support.nodes import UnaskedNode

TOKEN = "the-token-of-the-cluster"
MINUTE = Minute(29_421_210)
Hint = tuple[Partition, RowKey | None]


class Node(UnaskedNode):
    """A node's port, which records the hints that it gets."""

    def __init__(self, name: str, *, token: str = TOKEN) -> None:
        self.node_id = NodeId(name)
        self.requests: list[list[Hint]] = []
        self.told = asyncio.Event()
        self.refuses = 0
        listener = listen(OpsSettings())
        self.address = advertised_address(OpsSettings(), listener)
        self.server = OpsServer(
            listener,
            node=self,
            token=token,
            unhealthy=lambda: (),
            unready=lambda: (),
            metrics=Metrics(program="node", version="1"),
        )

    def hinted(self, hints: Sequence[Hint]) -> None:
        if self.refuses:
            self.refuses -= 1
            raise web.HTTPServiceUnavailable
        self.requests.append(list(hints))
        self.told.set()

    async def hear(self, count: int) -> set[Hint]:
        """All hints received, once there are so many."""
        async with asyncio.timeout(10):
            while sum(map(len, self.requests)) < count:
                self.told.clear()
                await self.told.wait()
        return {hint for request in self.requests for hint in request}


@dataclass
class Members:
    targets: HintTargets = field(default_factory=HintTargets)

    def set(self, *nodes: Node) -> None:
        self.targets = HintTargets(
            {node.node_id: node.address for node in nodes}, {node.node_id: 1.0 for node in nodes}
        )


@dataclass
class Scene:
    nodes: dict[str, Node]
    members: Members
    clock: ManualClock
    dropped: list[int]
    dropping: asyncio.Event
    forwarder: HintForwarder

    def gathered(self) -> None:
        self.clock.advance(0.010)

    async def drop(self, count: int) -> None:
        async with asyncio.timeout(10):
            while sum(self.dropped) < count:
                self.dropping.clear()
                await self.dropping.wait()
        assert sum(self.dropped) == count


class LaterMembers:
    """Members that are set later: the node that sees them is built after its hint sender."""

    @property
    def targets(self) -> HintTargets:
        raise AssertionError("nothing is to be told yet")


def test_the_members_are_not_needed_before_there_is_a_hint() -> None:
    HintForwarder(
        members=LaterMembers(), clock=ManualClock(), settings=HintSettings(), token=TOKEN, on_dropped=lambda count: None
    )


def hint(poller_id: int, number: int = 0) -> tuple[Partition, RowKey]:
    due = MINUTE * 60_000 + number
    key = RowKey(UnixMillis(due), compose_schedule_id(due=due, poller_id=poller_id, tail=number))
    return Partition(ClientId("shop"), PollerId(poller_id), MINUTE), key


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    nodes = {name: Node(name) for name in ("a", "b")}
    members, clock, dropped, dropping = Members(), ManualClock(), list[int](), asyncio.Event()

    def drop(count: int) -> None:
        dropped.append(count)
        dropping.set()

    forwarder = HintForwarder(
        members=cast(WatchMembers, members),
        clock=clock,
        settings=HintSettings(queue_rows=5000),
        token=TOKEN,
        on_dropped=drop,
    )
    for node in nodes.values():
        await node.server.start()
    await forwarder.start()
    members.set(*nodes.values())
    yield Scene(nodes, members, clock, dropped, dropping, forwarder)
    await forwarder.stop()
    for node in nodes.values():
        await node.server.stop()
    assert len(asyncio.all_tasks()) == 1


async def test_hints_of_a_moment_go_in_one_request_to_each_pollers_owner(scene: Scene) -> None:
    hints = [hint(poller, number) for poller in range(16) for number in range(3)]
    for one in [*hints, *hints]:
        scene.forwarder.hint(*one)
    assert all(not node.requests for node in scene.nodes.values())
    scene.gathered()
    weights = scene.members.targets.weights
    expected: dict[str, set[Hint]] = {"a": set(), "b": set()}
    for one in hints:
        owner = hint_for(PollerKey(one[0].client_id, one[0].poller_id), weights)
        assert owner is not None
        expected[owner].add(one)
    assert all(expected.values()), "sixteen pollers are on one node: this says nothing"
    for name, node in scene.nodes.items():
        assert await node.hear(len(expected[name])) == expected[name]
        assert len(node.requests) == 1
    assert scene.dropped == []


async def test_pollers_follow_the_members(scene: Scene) -> None:
    scene.forwarder.hint(*hint(0))
    scene.gathered()
    scene.members.set(scene.nodes["b"])
    for poller in range(8):
        scene.forwarder.hint(*hint(poller, 7))
    scene.gathered()
    assert {hint(poller, 7) for poller in range(8)} <= await scene.nodes["b"].hear(8)


async def test_a_pollers_new_owner_gets_the_old_ones_hints(scene: Scene) -> None:
    scene.members.set(scene.nodes["a"])
    scene.forwarder.hint(*hint(0, 1))
    scene.gathered()
    scene.clock.advance(4.0)
    scene.forwarder.hint(*hint(0, 2))
    scene.gathered()
    await scene.nodes["a"].hear(2)
    scene.clock.advance(2.0)
    scene.members.set(scene.nodes["b"])
    scene.clock.advance(0.1)
    assert await scene.nodes["b"].hear(1) == {hint(0, 2)}, "the other one was told too long ago"
    scene.clock.advance(10.0)
    scene.members.set(scene.nodes["a"])
    scene.clock.advance(0.1)
    scene.forwarder.hint(*hint(0, 3))
    scene.gathered()
    assert await scene.nodes["a"].hear(3) == {hint(0, number) for number in (1, 2, 3)}
    assert sum(map(len, scene.nodes["a"].requests)) == 3, "what is old is not told again"


async def test_hints_without_a_receiver_go_to_the_next_node(scene: Scene) -> None:
    scene.members.set()
    scene.forwarder.hint(*hint(0))
    scene.gathered()
    await scene.drop(1)
    scene.members.set(scene.nodes["a"])
    scene.clock.advance(0.1)
    assert await scene.nodes["a"].hear(1) == {hint(0)}


async def test_large_numbers_go_in_several_requests(scene: Scene) -> None:
    scene.members.set(scene.nodes["a"])
    for number in range(2 * MAX_HINTS + 1):
        scene.forwarder.hint(*hint(0, number))
    scene.gathered()
    await scene.nodes["a"].hear(2 * MAX_HINTS + 1)
    assert [len(request) for request in scene.nodes["a"].requests] == [MAX_HINTS, MAX_HINTS, 1]


async def test_for_hints_that_do_not_fit_the_partition_is_hinted_once(scene: Scene) -> None:
    """Whether there is no room where hints gather, or in a node's queue."""
    scene.members.set(scene.nodes["a"])
    rows = [hint(0, number) for number in range(5003)]
    for one in rows:
        scene.forwarder.hint(*one)
    scene.gathered()
    for poller in (0, 1, 1):
        scene.forwarder.hint(*hint(poller, 6000))
    scene.gathered()
    crowded = {(hint(poller)[0], None) for poller in (0, 1)}
    assert await scene.nodes["a"].hear(5002) == {*rows[:5000], *crowded}
    assert sum(map(len, scene.nodes["a"].requests)) == 5002
    assert crowded <= set(scene.nodes["a"].requests[0]), "it takes longest, so it is told first"
    assert scene.dropped == []
    scene.forwarder.hint(*hint(0, 7000))
    scene.gathered()
    assert hint(0, 7000) in await scene.nodes["a"].hear(5003)


async def test_partitions_beyond_the_bound_are_dropped_and_counted(scene: Scene) -> None:
    scene.members.set(scene.nodes["a"])
    for number in range(5000):
        scene.forwarder.hint(*hint(0, number))
    for minute in range(5003):
        partition, key = hint(0)
        scene.forwarder.hint(partition._replace(minute=Minute(MINUTE + minute)), key)
    assert sum(scene.dropped) == 3
    scene.gathered()
    await scene.nodes["a"].hear(10_000)
    assert sum(scene.dropped) == 3


async def test_a_pollers_new_owner_gets_its_partitions_too(scene: Scene) -> None:
    scene.members.set(scene.nodes["a"])
    for number in range(5001):
        scene.forwarder.hint(*hint(0, number))
    scene.gathered()
    await scene.nodes["a"].hear(5001)
    scene.members.set(scene.nodes["b"])
    scene.clock.advance(0.1)
    assert (hint(0)[0], None) in await scene.nodes["b"].hear(5000)


async def test_without_nodes_hints_are_dropped(scene: Scene) -> None:
    scene.members.set()
    scene.forwarder.hint(*hint(0))
    scene.gathered()
    await scene.drop(1)


async def test_a_dead_node_costs_its_own_hints_only(scene: Scene) -> None:
    await scene.nodes["a"].server.stop()
    for poller in range(16):
        scene.forwarder.hint(*hint(poller))
    scene.gathered()
    weights = scene.members.targets.weights
    lost = sum(hint_for(PollerKey("shop", poller), weights) == "a" for poller in range(16))
    await scene.drop(lost)
    await scene.nodes["b"].hear(16 - lost)


async def test_for_rows_that_a_node_refused_the_partitions_are_hinted(scene: Scene) -> None:
    node = scene.nodes["a"]
    scene.members.set(node)
    node.refuses = 1
    for number in range(3):
        scene.forwarder.hint(*hint(0, number))
    scene.gathered()
    assert await node.hear(1) == {(hint(0)[0], None)}
    assert scene.dropped == []


async def test_a_node_of_another_cluster_takes_nothing(scene: Scene) -> None:
    stranger = Node("stranger", token="another-clusters-token")
    await stranger.server.start()
    scene.members.set(stranger)
    scene.forwarder.hint(*hint(0))
    scene.gathered()
    await scene.drop(1)
    assert stranger.requests == []
    await stranger.server.stop()


async def test_hints_after_the_stop_are_nothing(scene: Scene) -> None:
    scene.forwarder.hint(*hint(0))
    await scene.forwarder.stop()
    scene.gathered()
    scene.forwarder.hint(*hint(0))
    scene.gathered()


@pytest.mark.parametrize("wrong", [{"delay_seconds": -1.0}, {"queue_rows": 0}, {"timeout_seconds": 0.0}])
def test_settings_that_cannot_work(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        HintSettings(**wrong)  # type: ignore[arg-type]
