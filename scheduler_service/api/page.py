"""The shape of every list: `{"items": [...], "next_cursor": null}`."""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Items(msgspec.Struct, Generic[T], frozen=True):
    """One page. `next_cursor` null: there is no more."""

    items: list[T]
    next_cursor: str | None = None
