"""A node sends hints to the members that its own incarnation sees."""

from types import SimpleNamespace
from typing import Any

from poller_cluster.hint_targets import NodeTargets


def view(*members: tuple[str, str, float | None]) -> Any:
    """Name, address and weight; None: it gets no hints."""
    return SimpleNamespace(
        hint_weights=lambda: {name: weight for name, _, weight in members if weight is not None},
        members=[
            SimpleNamespace(incarnation=SimpleNamespace(node_id=name), address=address) for name, address, _ in members
        ],
    )


def test_members_with_a_weight_and_the_same_object_until_they_change() -> None:
    seen = view(("a", "127.0.0.1:1", 1.0), ("b", "127.0.0.1:2", 2.0), ("draining", "127.0.0.1:3", None))
    targets = NodeTargets(lambda: seen)
    first = targets.targets
    assert dict(first.addresses) == {"a": "127.0.0.1:1", "b": "127.0.0.1:2"}
    assert dict(first.weights) == {"a": 1.0, "b": 2.0}
    seen = view(("a", "127.0.0.1:1", 1.0), ("b", "127.0.0.1:2", 2.0))
    assert targets.targets is first
    seen = view(("a", "127.0.0.1:9", 1.0))
    assert dict(targets.targets.addresses) == {"a": "127.0.0.1:9"}
