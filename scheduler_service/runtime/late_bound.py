"""A part that others are given before it is built."""

from typing import Generic, TypeVar

T = TypeVar("T")


class LateBound(Generic[T]):
    """Where two parts need each other, the first one built is given this in place of the second, and calls it when it
    works; `bind` follows when the second is built.

        members = LateBound[WatchMembers]("the members")
        storage = await open_storage(settings, packs=lambda: members().knows >= PACKED_SINCE)
        members.bind(WatchMembers(store=storage.members, ...))

    To call it earlier is a wrong order of construction, and raises RuntimeError."""

    __slots__ = ("_bound", "_name", "_part")

    def __init__(self, name: str) -> None:
        self._name = name
        self._bound = False
        self._part: T

    def bind(self, part: T) -> T:
        """Returns the part."""
        self._part = part
        self._bound = True
        return part

    def __call__(self) -> T:
        if not self._bound:
            raise RuntimeError(f"{self._name} is needed before it is built")
        return self._part
