"""Which node a poller is hinted to: weighted rendezvous hashing. Pure.

Every node has a score for every poller, from the two names and the node's weight alone; the highest score wins. So
processes that know the same nodes agree, in whatever order they learned of them; a node that leaves moves only its own
pollers, and one that joins takes a share of all others'. Score = -w / ln(h), h a 64-bit hash in (0, 1): the nodes'
shares are proportional to their weights (Schindelhauer & Schomaker, "Weighted distributed hash tables", SPAA 2005;
Resch, "New hashing algorithms for data storage", SDC 2015). The code compares -ln(h) / w, of which the lowest wins: the
same order without a division by zero.

h is the 64-bit hash of the poller's name (BLAKE2b, once a poller) multiplied by the node's 64-bit key and folded,
twice: the mixing step of wyhash. All nodes of one weight take one product of Python's long integers, 128 bits a node,
so a poller over 50 nodes costs a few microseconds. Among nodes of equal weight the highest h wins, without a logarithm.
"""

import struct
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from math import log
from typing import NamedTuple

from membership.identity import NodeId, PollerKey

_MASK = (1 << 64) - 1
_MIX = 0x9E37_79B9_7F4A_7C15
_FIELD = 128


def poller_hash(poller: PollerKey) -> int:
    """64 bits of the poller's name; odd, so that no product is zero."""
    name = f"{poller.client_id}/{poller.poller_id}".encode()
    # The tag `lane` stays: another would move every poller during an upgrade.
    return int.from_bytes(blake2b(name, digest_size=8, person=b"lane").digest(), "big") | 1


def node_key(node_id: NodeId) -> int:
    """64 bits of the node's name, odd."""
    return int.from_bytes(blake2b(node_id.encode(), digest_size=8, person=b"node").digest(), "big") | 1


def mixed(hashed: int, key: int) -> int:
    """The 64-bit hash of a poller keyed by a node, from `poller_hash` and `node_key`."""
    product = hashed * key
    product = ((product ^ product >> 64) & _MASK) * _MIX
    return (product ^ product >> 64) & _MASK


def cost(mixed_hash: int, weight: float) -> float:
    """-ln(h) / w. The lowest wins."""
    return -log(((mixed_hash >> 11) + 0.5) * 2.0**-53) / weight


def hint_for(poller: PollerKey, weights: Mapping[NodeId, float]) -> NodeId | None:
    """The node with the highest score among those of positive weight, or None. `HintTable` must agree with it."""
    hashed = poller_hash(poller)
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
    """The nodes of one weight, their keys packed into one integer so that one product hashes all."""

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
    """The hints of many pollers over changing nodes, recomputed only where they may have changed.

    A poller that is added costs a hash per node, a node that joins one hash per poller, a node that leaves one hash per
    node for each of its own pollers. Iteration is in order of insertion, never of hashes.
    """

    def __init__(self) -> None:
        self._nodes: dict[NodeId, _Node] = {}
        self._groups: list[_Equals] = []
        self._hashes: dict[PollerKey, int] = {}
        self._best: dict[PollerKey, tuple[int, _Node]] = {}
        self._by_node: dict[NodeId, dict[PollerKey, None]] = {}

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, poller: object) -> bool:
        return poller in self._hashes

    def hint_of(self, poller: PollerKey) -> NodeId | None:
        """None for a poller that is not in the table, and while there is no node."""
        best = self._best.get(poller)
        return None if best is None else best[1].node_id

    def pollers_of(self, node_id: NodeId) -> Mapping[PollerKey, None]:
        """The pollers hinted to a node, as the keys of a live view."""
        return self._by_node.get(node_id, {})

    def add(self, pollers: Iterable[PollerKey]) -> None:
        """Add pollers; known ones keep their hints."""
        new = [poller for poller in pollers if poller not in self._hashes]
        for poller in new:
            self._hashes[poller] = poller_hash(poller)
        self._place(new)

    def remove(self, pollers: Iterable[PollerKey]) -> None:
        """Remove pollers; unknown ones are ignored."""
        for poller in pollers:
            self._hashes.pop(poller, None)
            self._displace(poller)

    def set_nodes(self, weights: Mapping[NodeId, float]) -> bool:
        """Replace the nodes; those without a positive weight are ignored. True when anything changed."""
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
        # Each joining node is compared with every poller; with many of them, placing all pollers again is cheaper.
        stranded = list(self._hashes) if len(joined) > kept else [x for n in gone for x in self.pollers_of(n.node_id)]
        for poller in stranded:
            self._displace(poller)
        for node in joined:
            self._challenge(node)
        self._place(stranded)
        return True

    def _regroup(self) -> None:
        by_weight: dict[float, list[_Node]] = {}
        for _, node in sorted(self._nodes.items()):
            by_weight.setdefault(node.weight, []).append(node)
        self._groups = [_Equals(nodes) for _, nodes in sorted(by_weight.items())]

    def _place(self, pollers: Iterable[PollerKey]) -> None:
        if not self._groups:
            return
        first, *others = self._groups
        for poller in pollers:
            hashed = self._hashes[poller]
            best = first.best(hashed)
            for group in others:
                if _beats(candidate := group.best(hashed), best):
                    best = candidate
            self._best[poller] = best
            self._by_node.setdefault(best[1].node_id, {})[poller] = None

    def _displace(self, poller: PollerKey) -> None:
        if (best := self._best.pop(poller, None)) is not None:
            del self._by_node[best[1].node_id][poller]

    def _challenge(self, node: _Node) -> None:
        """Give `node` the pollers for which it beats their present nodes."""
        hashes, key = self._hashes, node.key
        won = []
        for poller, best in self._best.items():
            # `mixed` inlined: this loop runs once per poller.
            product = hashes[poller] * key
            product = ((product ^ product >> 64) & _MASK) * _MIX
            candidate = (product ^ product >> 64) & _MASK, node
            if _beats(candidate, best):
                won.append((poller, candidate))
        for poller, candidate in won:
            self._displace(poller)
            self._best[poller] = candidate
            self._by_node.setdefault(node.node_id, {})[poller] = None
