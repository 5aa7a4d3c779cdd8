"""A receiver whose work takes longer than a request: it takes a call by 202, and says later what became of it.

SIGNING_SECRET=whsec_... python examples/receivers/working_receiver.py 9000
"""

import asyncio
import json
import os
import sys

from aiohttp import web

from minutehand.webhooks import (
    StaleWordError,
    VerificationError,
    VerifiedCallback,
    ask_for_time,
    say_done,
    say_failed,
    verify,
)

SECRET = os.environ["SIGNING_SECRET"]
HEARTBEAT_SECONDS = 60.0
at_work: set[asyncio.Task[None]] = set()


async def render(frames: int) -> dict[str, int]:
    """In production: work that takes minutes."""
    if frames < 0:
        raise ValueError("there are no frames")
    await asyncio.sleep(frames / 1000)
    return {"frames": frames}


async def work(ack_url: str, frames: int) -> None:
    rendering = asyncio.create_task(render(frames))
    try:
        while not (await asyncio.wait([rendering], timeout=HEARTBEAT_SECONDS))[0]:
            await asyncio.to_thread(ask_for_time, ack_url)
        if (error := rendering.exception()) is not None:
            await asyncio.to_thread(say_failed, ack_url, str(error))
        else:
            await asyncio.to_thread(say_done, ack_url, rendering.result())
    except StaleWordError:
        # The call was made again, or its schedule was cancelled: what is done here counts no more.
        rendering.cancel()


async def start(request: web.Request) -> web.Response:
    body = await request.read()  # the bytes as received: a parsed body has another signature
    try:
        callback: VerifiedCallback = verify(body, request.headers, SECRET)
    except VerificationError as error:
        return web.Response(status=401, text=str(error))
    if callback.trial:
        return web.Response(status=204)
    frames = json.loads(body)["frames"]
    if callback.ack_url is None:  # the schedule has no `ack`: the answer is the end
        await render(frames)
        return web.Response(status=204)
    # In production: store the task and its address first, so that it is still known after a crash.
    task = asyncio.create_task(work(callback.ack_url, frames))
    at_work.add(task)
    task.add_done_callback(at_work.discard)
    return web.Response(status=202)


def main() -> None:
    app = web.Application()
    app.router.add_post("/hooks/render", start)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)


if __name__ == "__main__":
    main()
