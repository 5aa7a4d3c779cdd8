"""Many reads at once, but not too many."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias, TypeVar

A = TypeVar("A")
T = TypeVar("T")
Turn: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""Held for one request, or for a short run of requests that follow each other; never one within another."""

WIDTH = 16


async def concurrently(read: Callable[[A], Awaitable[T]], arguments: Iterable[A], *, width: int = WIDTH) -> list[T]:
    """`read` of every argument, in their order, `width` at a time. Raises the first error once its companions ended."""
    pending = list(arguments)
    answers: list[T] = []
    for start in range(0, len(pending), width):
        chunk = await asyncio.gather(*map(read, pending[start : start + width]), return_exceptions=True)
        for answer in chunk:
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
    return answers
