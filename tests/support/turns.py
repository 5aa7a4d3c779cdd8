"""Turns of an event loop: how long they hold it, and waiting for as many as something takes.

How long: the CPU time of its thread between two looks for what has become ready.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Turns:
    """`longest`: seconds of CPU that the longest turn of the loop took so far."""

    def __init__(self) -> None:
        self.longest = 0.0


@contextmanager
def measured_turns() -> Iterator[Turns]:
    """Of the running loop, within the block. The collector is still, as programs spare it."""
    selector: Any = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    select, turns, began = selector.select, Turns(), 0.0

    def looking(timeout: float | None = None) -> Any:
        nonlocal began
        turns.longest = max(turns.longest, time.thread_time() - began)
        found = select(timeout)
        began = time.thread_time()
        return found

    gc.disable()
    began = time.thread_time()
    selector.select = looking
    try:
        yield turns
    finally:
        selector.select = select
        gc.enable()


async def until(reached: Callable[[], bool]) -> None:
    """Let the loop turn until something is so."""
    loop = asyncio.get_running_loop()
    seen = asyncio.Event()

    def look() -> None:
        if reached():
            seen.set()
        else:
            loop.call_soon(look)

    look()
    async with asyncio.timeout(10):
        await seen.wait()
