# Made of ../_async/parts.py by `make sdk`: edit that.
"""What every part of the client is made of: something that sends operations, a client's id, pages."""

from collections.abc import Iterator
from typing import Protocol, TypeVar

from minutehand.client._calls import Operation, following
from minutehand.client._models import Page

T = TypeVar("T")


class Perform(Protocol):
    """Sends one operation."""

    def __call__(self, operation: Operation[T]) -> T: ...


class Part:
    """Something of one client."""

    def __init__(self, perform: Perform, client_id: str) -> None:
        self._perform = perform
        self._client_id = client_id


def every(perform: Perform, operation: Operation[Page[T]] | None) -> Iterator[T]:
    """The items of a page and of all that follow it, each page asked for when it is wanted."""
    while operation is not None:
        page = perform(operation)
        yield from page.items
        operation = following(operation, page)
