"""What the parts of a client share: a port that sends operations, a client's id, paging."""

from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

from minutehand.client._calls import Operation, following
from minutehand.client._models import Page

T = TypeVar("T")


class AsyncPerform(Protocol):
    """Sends one operation."""

    async def __call__(self, operation: Operation[T]) -> T: ...


class AsyncPart:
    """A part of one client's scope."""

    def __init__(self, perform: AsyncPerform, client_id: str) -> None:
        self._perform = perform
        self._client_id = client_id


async def every(perform: AsyncPerform, operation: Operation[Page[T]] | None) -> AsyncIterator[T]:
    """The items of this page and of those after it; each page is requested when iteration reaches it."""
    while operation is not None:
        page = await perform(operation)
        for item in page.items:
            yield item
        operation = following(operation, page)


async def all_items(
    perform: AsyncPerform, operation: Operation[Page[T]], further: Callable[[str], Operation[Page[T]]]
) -> tuple[T, ...]:
    """The items of this page and of those that `further` asks for by their cursors, which are all requested."""
    page = await perform(operation)
    items = page.items
    while page.next_cursor is not None:
        page = await perform(further(page.next_cursor))
        items += page.items
    return items
