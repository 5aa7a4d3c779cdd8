# Made of ../_async/parts.py by `make sdk`: edit that.
"""What the parts of a client share: a port that sends operations, a client's id, paging."""

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from minutehand.client._calls import Operation, following
from minutehand.client._models import Page

T = TypeVar("T")


class Perform(Protocol):
    """Sends one operation."""

    def __call__(self, operation: Operation[T]) -> T: ...


class Part:
    """A part of one client's scope."""

    def __init__(self, perform: Perform, client_id: str) -> None:
        self._perform = perform
        self._client_id = client_id


def every(perform: Perform, operation: Operation[Page[T]] | None) -> Iterator[T]:
    """The items of this page and of those after it; each page is requested when iteration reaches it."""
    while operation is not None:
        page = perform(operation)
        yield from page.items
        operation = following(operation, page)


def all_items(
    perform: Perform, operation: Operation[Page[T]], further: Callable[[str], Operation[Page[T]]]
) -> tuple[T, ...]:
    """The items of this page and of those that `further` asks for by their cursors, which are all requested."""
    page = perform(operation)
    items = page.items
    while page.next_cursor is not None:
        page = perform(further(page.next_cursor))
        items += page.items
    return items
