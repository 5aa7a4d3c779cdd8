"""Whom a lane is hinted to: weighted rendezvous hashing. Pure.

Every node has a score for every lane, from nothing but the two names and the node's weight; the highest score wins. So
all who know the same nodes agree, in whatever order they met them; a node that leaves moves its own lanes only, and one
that joins takes its share of everybody's. Score = -w / ln(h), h a 64-bit hash in (0, 1): the nodes' shares are
proportional to their weights (Schindelhauer & Schomaker, "Weighted distributed hash tables", SPAA 2005; Resch, "New
hashing algorithms for data storage", SDC 2015). Compared here is -ln(h) / w, of which the lowest wins: the same order,
with nothing to divide by zero.

h is the 64-bit hash of the lane's name (BLAKE2b, once a lane) multiplied by the node's 64-bit key and folded, twice:
the mixing step of wyhash. Python does all nodes of one weight in one product of long integers, 128 bits a node, so that
a lane over 50 nodes costs a few microseconds. Among nodes of equal weight the highest h wins, without a logarithm.
"""

import struct
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from math import log
from typing import NamedTuple

from membership.identity import Lane, NodeId

_MASK = (1 << 64) - 1
_MIX = 0x9E37_79B9_7F4A_7C15
_FIELD = 128


def lane_hash(lane: Lane) -> int:
    """64 bits of the lane's name; odd, so that no product is zero."""
    name = f"{lane.client_id}/{lane.poller_id}".encode()
    return int.from_bytes(blake2b(name, digest_size=8, person=b"lane").digest(), "big") | 1


def node_key(node_id: NodeId) -> int:
    """64 bits of the node's name, odd."""
    return int.from_bytes(blake2b(node_id.encode(), digest_size=8, person=b"node").digest(), "big") | 1


def mixed(hashed: int, key: int) -> int:
    """The 64-bit hash of a lane keyed by a node, from `lane_hash` and `node_key`."""
    product = hashed * key
    product = ((product ^ product >> 64) & _MASK) * _MIX
    return (product ^ product >> 64) & _MASK


def cost(mixed_hash: int, weight: float) -> float:
    """-ln(h) / w. The lowest wins."""
    return -log(((mixed_hash >> 11) + 0.5) * 2.0**-53) / weight


def hint_for(lane: Lane, weights: Mapping[NodeId, float]) -> NodeId | None:
    """The node with the highest score among those of positive weight; None when there is none. The plain definition."""
    hashed = lane_hash(lane)
    scores = [
        (cost(h, weight), -h, node_id)
        for node_id, weight in weights.items()
        if weight > 0
        for h in (mixed(hashed, node_key(node_id)),)
    ]
    return min(scores)[2] if scores else None


class _Node(NamedTuple):
    node_id: NodeId
    key: int
    weight: float


class _Equals:
    """The nodes of one weight, packed to be hashed together."""

    __slots__ = ("_keys", "_length", "_mask", "_nodes", "_unpack")

    def __init__(self, nodes: list[_Node]) -> None:
        self._nodes = nodes
        self._keys = sum(node.key << _FIELD * place for place, node in enumerate(nodes))
        self._mask = sum(_MASK << _FIELD * place for place in range(len(nodes)))
        self._length = len(nodes) * _FIELD // 8
        self._unpack = struct.Struct("<" + "Q8x" * len(nodes)).unpack

    def best(self, hashed: int) -> tuple[int, _Node]:
        product = self._keys * hashed
        product = ((product ^ product >> 64) & self._mask) * _MIX
        values = self._unpack(((product ^ product >> 64) & self._mask).to_bytes(self._length, "little"))
        highest: int = max(values)
        return highest, self._nodes[values.index(highest)]


def _beats(challenger: tuple[int, _Node], holder: tuple[int, _Node]) -> bool:
    (h, node), (other_h, other) = challenger, holder
    if node.weight == other.weight:
        return (-h, node.node_id) < (-other_h, other.node_id)
    return (cost(h, node.weight), -h, node.node_id) < (cost(other_h, other.weight), -other_h, other.node_id)


class HintTable:
    """The hints of many lanes over changing nodes, recomputed only where they may have changed.

    A lane that is added costs a hash per node, a node that joins one hash per lane, a node that leaves one hash per
    node for each of its own lanes. Iteration is in order of insertion, never of hashes.
    """

    def __init__(self) -> None:
        self._nodes: dict[NodeId, _Node] = {}
        self._groups: list[_Equals] = []
        self._hashes: dict[Lane, int] = {}
        self._best: dict[Lane, tuple[int, _Node]] = {}
        self._by_node: dict[NodeId, dict[Lane, None]] = {}

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, lane: object) -> bool:
        return lane in self._hashes

    def hint_of(self, lane: Lane) -> NodeId | None:
        """None for a lane that is not in the table, and while there is no node."""
        best = self._best.get(lane)
        return None if best is None else best[1].node_id

    def lanes_of(self, node_id: NodeId) -> Mapping[Lane, None]:
        """The lanes hinted to a node, as the keys of a live view."""
        return self._by_node.get(node_id, {})

    def add(self, lanes: Iterable[Lane]) -> None:
        """Lanes that are there already keep their hints."""
        new = [lane for lane in lanes if lane not in self._hashes]
        for lane in new:
            self._hashes[lane] = lane_hash(lane)
        self._place(new)

    def remove(self, lanes: Iterable[Lane]) -> None:
        """Lanes that are not there are passed over."""
        for lane in lanes:
            self._hashes.pop(lane, None)
            self._displace(lane)

    def set_nodes(self, weights: Mapping[NodeId, float]) -> bool:
        """Replace the nodes; those without a positive weight count for nothing. True when anything changed."""
        wanted = {node_id: weight for node_id, weight in sorted(weights.items()) if weight > 0}
        gone = [node for node in self._nodes.values() if wanted.get(node.node_id) != node.weight]
        kept = len(self._nodes) - len(gone)
        joined = [
            _Node(node_id, node_key(node_id), weight)
            for node_id, weight in wanted.items()
            if (old := self._nodes.get(node_id)) is None or old.weight != weight
        ]
        if not gone and not joined:
            return False
        for node in gone:
            del self._nodes[node.node_id]
        self._nodes.update((node.node_id, node) for node in joined)
        self._regroup()
        stranded = list(self._hashes) if len(joined) > kept else [x for n in gone for x in self.lanes_of(n.node_id)]
        for lane in stranded:
            self._displace(lane)
        for node in joined:
            self._challenge(node)
        self._place(stranded)
        return True

    def _regroup(self) -> None:
        by_weight: dict[float, list[_Node]] = {}
        for _, node in sorted(self._nodes.items()):
            by_weight.setdefault(node.weight, []).append(node)
        self._groups = [_Equals(nodes) for _, nodes in sorted(by_weight.items())]

    def _place(self, lanes: Iterable[Lane]) -> None:
        if not self._groups:
            return
        first, *others = self._groups
        for lane in lanes:
            hashed = self._hashes[lane]
            best = first.best(hashed)
            for group in others:
                if _beats(candidate := group.best(hashed), best):
                    best = candidate
            self._best[lane] = best
            self._by_node.setdefault(best[1].node_id, {})[lane] = None

    def _displace(self, lane: Lane) -> None:
        if (best := self._best.pop(lane, None)) is not None:
            del self._by_node[best[1].node_id][lane]

    def _challenge(self, node: _Node) -> None:
        """Give `node` the lanes it wins from those who hold them."""
        hashes, key = self._hashes, node.key
        won = []
        for lane, best in self._best.items():
            product = hashes[lane] * key
            product = ((product ^ product >> 64) & _MASK) * _MIX
            candidate = (product ^ product >> 64) & _MASK, node
            if _beats(candidate, best):
                won.append((lane, candidate))
        for lane, candidate in won:
            self._displace(lane)
            self._best[lane] = candidate
            self._by_node.setdefault(node.node_id, {})[lane] = None
