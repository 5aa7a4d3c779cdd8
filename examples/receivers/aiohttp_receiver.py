"""A receiver of callbacks with aiohttp: verifies signatures, and handles each callback once.

SIGNING_SECRET=whsec_... python examples/receivers/aiohttp_receiver.py 9000
"""

import os
import sys

from aiohttp import web

from minutehand.webhooks import VerificationError, verify

SECRET = os.environ["SIGNING_SECRET"]
# In production: a table of your database, written in the transaction that does the work.
handled: set[str] = set()


async def expire(request: web.Request) -> web.Response:
    body = await request.read()  # the bytes as received: a parsed body has another signature
    try:
        callback = verify(body, request.headers, SECRET)
    except VerificationError as error:
        return web.Response(status=401, text=str(error))
    if not callback.trial and callback.webhook_id not in handled:
        print("handled", callback.webhook_id, body.decode(), flush=True)
        handled.add(callback.webhook_id)
    return web.Response(status=204)  # for repeats too: without a 2xx the call comes again


def main() -> None:
    app = web.Application()
    app.router.add_post("/hooks/expire", expire)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)


if __name__ == "__main__":
    main()
