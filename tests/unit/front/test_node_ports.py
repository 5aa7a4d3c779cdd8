"""An API's requests to a node's own port: drain and undrain, with permissions and addresses."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest

from membership.errors import StoreUnavailable
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from poller_cluster.hand_over import LastNode, NotSeen
from poller_cluster.ops.server import OpsServer, OpsSettings, advertised_address, listen
from scheduler_service.domain.call_figures import CallFigures, ClientCalls
from scheduler_service.domain.destination_figures import BUCKETS, NO_FIGURES, BreakerState, NodeFigures
from scheduler_service.domain.errors import Conflict, NodeUnreachable
from scheduler_service.domain.ids import ClientId
from scheduler_service.node_ports import HttpNodePorts
from scheduler_service.runtime.metrics import Metrics
from tests.support.nodes import UnaskedNode

TOKEN = "the-token-of-the-cluster"
INCARNATION = NodeIncarnation(NodeId("a"), IncarnationNumber(7))
COUNTED = NodeFigures(calls=3, failures=1, answers=(1, 2), breaker=BreakerState.OPEN)


@dataclass
class Recent:
    """What a node called."""

    counted: CallFigures = field(default_factory=CallFigures)

    def figures(self) -> CallFigures:
        return self.counted


@dataclass
class Node(UnaskedNode):
    address: str
    incarnation = INCARNATION
    drains: list[str] = field(default_factory=list)
    refuses: Exception | None = None
    stopping: bool = False
    counted: NodeFigures = COUNTED
    recent_calls: Recent = field(default_factory=Recent)
    held: set[ClientId] = field(default_factory=set)

    def held_back(self) -> set[ClientId]:
        return self.held

    def figures(self, client_id: ClientId, name: str) -> NodeFigures:
        return self.counted if (client_id, name) == ("shop", "billing") else NO_FIGURES

    async def ask(self, *, force: bool) -> None:
        if self.refuses is not None and not force:
            raise self.refuses
        self.drains.append("forced" if force else "drain")

    def take_back(self) -> bool:
        self.drains.append("undrain")
        return not self.stopping


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    settings = OpsSettings()
    listener = listen(settings)
    node = Node(advertised_address(settings, listener))
    server = OpsServer(
        listener,
        node=node,
        token=TOKEN,
        unhealthy=lambda: (),
        unready=lambda: (),
        metrics=Metrics(program="node", version="0"),
    )
    await server.start()
    yield node
    await server.stop()


async def test_the_named_incarnation_drains_at_every_request(node: Node) -> None:
    for _ in range(2):
        await HttpNodePorts(token=TOKEN).drain(INCARNATION, address=node.address, force=False)
    assert node.drains == ["drain"] * 2


async def test_the_last_node_drains_only_when_it_is_forced(node: Node) -> None:
    node.refuses = LastNode("no other")
    ports = HttpNodePorts(token=TOKEN)
    with pytest.raises(Conflict, match="no other node takes pollers") as caught:
        await ports.drain(INCARNATION, address=node.address, force=False)
    assert caught.value.kind == "last-node"
    await ports.drain(INCARNATION, address=node.address, force=True)
    assert node.drains == ["forced"]


@pytest.mark.parametrize("error", [NotSeen("not yet"), StoreUnavailable("away")])
async def test_a_node_that_can_not_judge_is_asked_again(node: Node, error: Exception) -> None:
    node.refuses = error
    with pytest.raises(NodeUnreachable, match="answered 503"):
        await HttpNodePorts(token=TOKEN).drain(INCARNATION, address=node.address, force=False)


async def test_a_drain_is_taken_back_unless_the_node_is_being_stopped(node: Node) -> None:
    ports = HttpNodePorts(token=TOKEN)
    await ports.undrain(INCARNATION, address=node.address)
    node.stopping = True
    with pytest.raises(Conflict, match="being stopped"):
        await ports.undrain(INCARNATION, address=node.address)
    with pytest.raises(NodeUnreachable, match="another process"):
        await ports.undrain(NodeIncarnation(NodeId("a"), IncarnationNumber(6)), address=node.address)
    assert node.drains == ["undrain"] * 2


@pytest.mark.parametrize(("clients", "told"), [(0, True), (5_000, True), (20_000, False)])
async def test_a_long_answer_is_read_to_its_end_or_refused(node: Node, clients: int, told: bool) -> None:
    """Answers arrive in parts as large as the network likes."""
    counted = ClientCalls(10**9, 10.0**9, 10**9)
    node.recent_calls.counted = CallFigures(clients={f"{number:064d}": counted for number in range(clients)})
    answer = HttpNodePorts(token=TOKEN).call_figures(INCARNATION, address=node.address)
    if told:
        assert await answer == node.recent_calls.counted
    else:
        with pytest.raises(NodeUnreachable, match="answered more than"):
            await answer


async def test_a_node_tells_what_became_of_a_destinations_calls(node: Node) -> None:
    ports = HttpNodePorts(token=TOKEN)
    shop = ClientId("shop")
    assert await ports.destination_figures(INCARNATION, shop, "billing", address=node.address) == node.counted
    assert await ports.destination_figures(INCARNATION, shop, "other", address=node.address) == NO_FIGURES
    longest = NodeFigures(calls=10**12, failures=10**12, answers=(10**12,) * BUCKETS, breaker=BreakerState.HALF_OPEN)
    node.counted = longest
    assert await ports.destination_figures(INCARNATION, shop, "billing", address=node.address) == longest
    with pytest.raises(NodeUnreachable, match="another process"):
        await ports.destination_figures(
            NodeIncarnation(NodeId("a"), IncarnationNumber(6)), shop, "billing", address=node.address
        )


async def test_a_node_tells_which_clients_have_a_receiver_that_gets_no_calls(node: Node) -> None:
    ports, asked = HttpNodePorts(token=TOKEN), [ClientId(f"{'x' * 60}{number:02}") for number in range(100)]
    node.held = {asked[7], asked[99], ClientId("other")}
    assert await ports.held_back(INCARNATION, asked, address=node.address) == [asked[7], asked[99]]
    with pytest.raises(NodeUnreachable, match="answered 400"):
        await ports.held_back(INCARNATION, [*asked, ClientId("one-more")], address=node.address)


async def test_another_process_at_the_address_does_nothing(node: Node) -> None:
    other = NodeIncarnation(NodeId("a"), IncarnationNumber(6))
    with pytest.raises(NodeUnreachable, match="another process than node a's answers at"):
        await HttpNodePorts(token=TOKEN).drain(other, address=node.address, force=False)
    assert node.drains == []


async def test_another_token(node: Node) -> None:
    with pytest.raises(NodeUnreachable, match="cluster token"):
        await HttpNodePorts(token="x" * 20).drain(INCARNATION, address=node.address, force=False)
    assert node.drains == []


async def test_no_node_at_the_address(node: Node) -> None:
    for address in ("127.0.0.1:1", "no address", ""):
        with pytest.raises(NodeUnreachable, match="node a does not answer at"):
            await HttpNodePorts(token=TOKEN).drain(INCARNATION, address=address, force=False)


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, b"{}", 401),
        ({"Authorization": f"Basic {TOKEN}"}, b"{}", 401),
        ({"Authorization": f"Bearer {TOKEN}"}, b"{}", 400),
        ({"Authorization": f"Bearer {TOKEN}"}, b"\xff", 400),
        ({"Authorization": f"Bearer {TOKEN}"}, b'{"node_id": "a", "incarnation": 8}', 409),
        ({"Authorization": f"Bearer {TOKEN}"}, b'{"node_id": "a", "incarnation": 7}', 202),
    ],
)
async def test_what_the_port_answers(node: Node, headers: dict[str, str], body: bytes, status: int) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://{node.address}/drain", headers=headers, data=body) as answer,
    ):
        assert answer.status == status
    assert len(node.drains) == (1 if status == 202 else 0)
