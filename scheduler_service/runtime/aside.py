"""Blocking work that must not hold up the event loop, nor the end of the process."""

import asyncio
import threading
from collections.abc import Callable


async def run_aside(work: Callable[[], None], *, name: str, wait_seconds: float) -> bool:
    """Run `work` on a thread of its own; answers whether it ended within `wait_seconds`, and raises what it raised.

    Work that lasts longer goes on unwatched; it is a daemon thread's, so it does not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except Exception as caught:
            error = caught
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        async with asyncio.timeout(wait_seconds):
            await ended
    except TimeoutError:
        return False
    return True
