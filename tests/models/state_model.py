"""What the models share: all states that can be reached are visited, breadth first."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

W = TypeVar("W")

MOST_STATES = 3_000_000


class StateModel(ABC, Generic[W]):
    """A model whose states are hashable values. `first`: the state in which it begins."""

    first: W

    @abstractmethod
    def following(self, world: W) -> Iterable[tuple[str, W]]:
        """Every step that is possible in this state: its name, and the state after it."""

    def wrong(self, world: W) -> str | None:
        """The violation in this state, if there is one."""

    def wrong_at_rest(self, world: W) -> str | None:
        """The same of a state after which nothing follows."""

    def walk(self) -> tuple[int, list[str] | None]:
        """The number of states, and the shortest way to a violation, with the violation, or None."""
        came: dict[W, tuple[W, str] | None] = {self.first: None}
        left = deque([self.first])
        while left:
            world = left.popleft()
            following = list(self.following(world))
            if wrong := self.wrong(world) or (None if following else self.wrong_at_rest(world)):
                return len(came), [*_way(came, world), wrong]
            for name, after in following:
                if after not in came:
                    came[after] = (world, name)
                    left.append(after)
            assert len(came) < MOST_STATES, "too many states"
        return len(came), None


def _way(came: dict[W, tuple[W, str] | None], world: W) -> list[str]:
    names: list[str] = []
    while (step := came[world]) is not None:
        world, name = step
        names.append(name)
    return names[::-1]
