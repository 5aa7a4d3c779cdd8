"""Measures the turns of an event loop, and waits for as many as something takes.

A turn is measured as the CPU time of its thread between two polls for ready events.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Turns:
    """`longest`: CPU seconds of the longest turn so far."""

    def __init__(self) -> None:
        self.longest = 0.0


@contextmanager
def measured_turns() -> Iterator[Turns]:
    """Measures the running loop within the block, with the garbage collector off."""
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
    """Let the loop turn until the condition is true."""
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
