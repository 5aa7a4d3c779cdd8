"""A node's log of its own and others' state changes: each change once, and nothing without a change."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from structlog.testing import capture_logs

from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from membership.ports import Heartbeat, NodeState
from membership.view import MembersView
from poller_cluster.node import Node
from poller_cluster.ops.status import StateChangeLog, unready
from tests.support.api import ManualClock


def incarnation(name: str) -> NodeIncarnation:
    return NodeIncarnation(NodeId(name), IncarnationNumber(1))


def heartbeat(name: str, state: NodeState = NodeState.LIVE) -> Heartbeat:
    return Heartbeat(
        incarnation=incarnation(name),
        beat=1,
        state=state,
        address=f"{name}:1",
        wall_ms=0,
        version="1",
        low_watermark=None,
        weight=1.0,
        capacity_per_minute=1,
    )


@dataclass
class Scene:
    """The parts of a node that its state-change log sees."""

    beats: list[Heartbeat] = field(default_factory=list)
    ended: list[Heartbeat] = field(default_factory=list)
    leases: dict[PollerKey, int] = field(default_factory=dict)
    trusts: bool = True
    over: str | None = None

    @property
    def node(self) -> Any:
        view = MembersView(
            read_at=1.0,
            members=tuple(self.beats),
            free=frozenset(one.incarnation for one in self.ended),
            heartbeats={one.incarnation: one for one in (*self.beats, *self.ended)},
        )
        membership_agent = SimpleNamespace(view=view, trusted=lambda: self.trusts, over=self.over)
        balancer = SimpleNamespace(leases=lambda: dict(self.leases))
        return SimpleNamespace(
            incarnation=incarnation("me"),
            membership_agent=membership_agent,
            balancer=balancer,
            running=True,
            draining=False,
        )


def heard(changes: StateChangeLog, scene: Scene) -> list[dict[str, Any]]:
    changes._node = cast(Node, scene.node)
    with capture_logs() as logs:
        changes.look()
        changes.look()
    return [{name: value for name, value in line.items() if name not in ("log_level", "address")} for line in logs]


def test_each_change_is_logged_once() -> None:
    scene = Scene(beats=[heartbeat("me"), heartbeat("a")])
    changes = StateChangeLog(node=scene.node, clock=ManualClock())
    assert heard(changes, scene) == [], "who is there at first is nothing new"
    scene.beats += [heartbeat("b")]
    assert heard(changes, scene) == [{"event": "node-joined", "node": str(incarnation("b")), "version": "1"}]
    scene.beats = [heartbeat("me"), heartbeat("a"), heartbeat("b", NodeState.DRAINING)]
    assert heard(changes, scene) == [{"event": "node-draining", "node": str(incarnation("b"))}]
    scene.beats, scene.ended = [heartbeat("me")], [heartbeat("a"), heartbeat("b", NodeState.LEFT)]
    told = heard(changes, scene)
    assert sorted(line["event"] for line in told) == ["node-dead", "node-left"]


def test_leases_are_logged_as_counts() -> None:
    scene = Scene(leases={PollerKey("shop", number): 1 for number in range(3)})
    changes = StateChangeLog(node=scene.node, clock=ManualClock())
    assert heard(changes, scene) == [{"event": "leases-changed", "taken": 3, "given_up": 0, "held": 3}]
    scene.leases = {PollerKey("shop", number): 1 for number in range(2, 7)}
    assert heard(changes, scene) == [{"event": "leases-changed", "taken": 4, "given_up": 2, "held": 5}]


def test_losing_trust_is_logged_unless_the_incarnation_is_over() -> None:
    scene = Scene()
    changes = StateChangeLog(node=scene.node, clock=ManualClock())
    heard(changes, scene)
    scene.trusts = False
    assert [line["event"] for line in heard(changes, scene)] == ["trust-lost"]
    scene.trusts = True
    heard(changes, scene)
    scene.trusts, scene.over = False, "stopped"
    assert heard(changes, scene) == []


def test_why_a_node_is_not_ready() -> None:
    clock, scene = ManualClock(), Scene()

    def words(node: Any) -> list[str]:
        return [one.reason for one in unready(cast(Node, node), clock=clock)]

    node = scene.node
    assert words(node) == []
    node.running = False
    assert words(node) == ["starting"]
    node.running, node.draining = True, True
    assert words(node) == ["draining"]
    node.draining, scene.trusts, clock.trusted = False, False, False
    assert words(node) == ["trust-lost", "clock-untrusted"]
