"""Concurrent reads with a bounded width."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias, TypeVar

A = TypeVar("A")
T = TypeVar("T")
Turn: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""Held for one request, or for a short sequence of them; never nested, which could deadlock."""

WIDTH = 16


async def concurrently(read: Callable[[A], Awaitable[T]], arguments: Iterable[A], *, width: int = WIDTH) -> list[T]:
    """`read` of every argument, in order, in chunks of `width`. Raises the first error when its chunk has ended."""
    pending = list(arguments)
    answers: list[T] = []
    for start in range(0, len(pending), width):
        chunk = await asyncio.gather(*map(read, pending[start : start + width]), return_exceptions=True)
        for answer in chunk:
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
    return answers
