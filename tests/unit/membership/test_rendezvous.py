"""Weighted rendezvous hashing: agreement, minimal movement, shares, cost."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from membership.identity import NodeId, PollerKey
from membership.rendezvous import HintTable, hint_for, mixed, node_key, poller_hash

POLLERS = [PollerKey(f"client-{number // 10}", number % 10) for number in range(200)]
NODE_IDS = st.text("abcdefgh-0123456789", min_size=1, max_size=8).map(NodeId)
WEIGHTS = st.one_of(st.just(1.0), st.sampled_from([0.5, 1.0, 2.0, 3.5]))
NODES = st.dictionaries(NODE_IDS, WEIGHTS, min_size=1, max_size=8)


def table(pollers: list[PollerKey], nodes: dict[NodeId, float]) -> HintTable:
    hints = HintTable()
    hints.add(pollers)
    hints.set_nodes(nodes)
    return hints


def hints_of(hints: HintTable) -> dict[PollerKey, NodeId | None]:
    return {poller: hints.hint_of(poller) for poller in POLLERS}


@given(NODES)
def test_the_table_agrees_with_the_plain_definition(nodes: dict[NodeId, float]) -> None:
    assert hints_of(table(POLLERS, nodes)) == {poller: hint_for(poller, nodes) for poller in POLLERS}


@given(st.lists(NODES, min_size=1, max_size=5))
def test_hints_depend_only_on_the_present_nodes_and_pollers(steps: list[dict[NodeId, float]]) -> None:
    travelled = HintTable()
    for place, nodes in enumerate(steps):
        travelled.add(POLLERS[place::5])
        travelled.set_nodes(nodes)
        travelled.remove(POLLERS[place::50])
    travelled.add(reversed(POLLERS))
    direct = table(POLLERS, steps[-1])
    assert hints_of(travelled) == hints_of(direct)
    for node_id in steps[-1]:
        assert sorted(travelled.pollers_of(node_id)) == sorted(direct.pollers_of(node_id))


@given(NODES, st.data())
def test_a_node_that_leaves_moves_its_own_pollers_only(nodes: dict[NodeId, float], data: st.DataObject) -> None:
    leaver = data.draw(st.sampled_from(sorted(nodes)))
    hints = table(POLLERS, nodes)
    before = hints_of(hints)
    hints.set_nodes({node: weight for node, weight in nodes.items() if node != leaver})
    moved = {poller for poller in POLLERS if hints.hint_of(poller) != before[poller]}
    assert moved == {poller for poller in POLLERS if before[poller] == leaver}


@given(NODES, NODE_IDS, WEIGHTS)
def test_a_node_that_joins_only_takes(nodes: dict[NodeId, float], joiner: NodeId, weight: float) -> None:
    nodes.pop(joiner, None)
    hints = table(POLLERS, nodes)
    before = hints_of(hints)
    hints.set_nodes({**nodes, joiner: weight})
    assert {hints.hint_of(poller) for poller in POLLERS if hints.hint_of(poller) != before[poller]} <= {joiner}


def test_nodes_without_weight_get_nothing() -> None:
    hints = table(POLLERS, {NodeId("a"): 0.0, NodeId("b"): -1.0})
    assert set(hints_of(hints).values()) == {None}
    assert hint_for(POLLERS[0], {NodeId("a"): 0.0}) is None
    hints.set_nodes({NodeId("a"): 0.0, NodeId("c"): 1.0})
    assert set(hints_of(hints).values()) == {NodeId("c")}


def test_the_same_nodes_again_change_nothing() -> None:
    hints = table(POLLERS, {NodeId("a"): 1.0, NodeId("b"): 2.0})
    assert not hints.set_nodes({NodeId("b"): 2.0, NodeId("a"): 1.0, NodeId("c"): 0.0})
    assert hints.set_nodes({NodeId("b"): 1.0, NodeId("a"): 1.0})


@pytest.mark.parametrize("weights", [[1.0] * 7, [1.0, 2.0, 3.0, 0.5], [1.0, 10.0]])
def test_shares_are_proportional_to_weights(weights: list[float]) -> None:
    count = 20_000
    pollers = [PollerKey(f"c{number % 13}", number) for number in range(count)]
    nodes = {NodeId(f"node-{place}"): weight for place, weight in enumerate(weights)}
    hints = table(pollers, nodes)
    for node_id, weight in nodes.items():
        share = weight / sum(weights)
        deviation = (count * share * (1 - share)) ** 0.5
        assert abs(len(hints.pollers_of(node_id)) - count * share) < 4.5 * deviation


def test_second_choices_of_nodes_are_spread_evenly() -> None:
    """The pollers of a node that leaves spread over all that stay: the hashes of different nodes are independent."""
    nodes = [NodeId(f"node-{place}") for place in range(6)]
    counts = dict.fromkeys(itertools.permutations(nodes, 2), 0)
    keys = [node_key(node) for node in nodes]
    for number in range(12_000):
        hashed = poller_hash(PollerKey("client", number))
        first, second, *_ = sorted(range(6), key=lambda place: -mixed(hashed, keys[place]))
        counts[nodes[first], nodes[second]] += 1
    expected = 12_000 / len(counts)
    chi_square = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi_square < 60  # 29 degrees of freedom: beyond 0.999


@pytest.mark.cpu_budget(6)
def test_a_hundred_thousand_pollers_over_fifty_nodes() -> None:
    pollers = [PollerKey(f"client-{number // 100}", number % 100) for number in range(100_000)]
    nodes = {NodeId(f"node-{place}"): 1.0 for place in range(50)}
    hints = HintTable()
    hints.add(pollers)

    def cpu_seconds(change: dict[NodeId, float]) -> float:
        began = time.process_time()
        hints.set_nodes(change)
        return time.process_time() - began

    assert cpu_seconds(nodes) < 2.0
    assert cpu_seconds({**nodes, NodeId("joiner"): 1.0}) < 0.6
    assert cpu_seconds(nodes) < 0.3
