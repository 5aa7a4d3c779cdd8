"""A receiver that says in its answers what is to become of a call, beside done and failed.

SIGNING_SECRET=whsec_... python examples/receivers/answering_receiver.py 9000
"""

import json
import os
import sys
from datetime import UTC, datetime, timedelta

from aiohttp import web

from minutehand.webhooks import NOT_AGAIN, STOP_CRON, VerificationError, call_at, verify

SECRET = os.environ["SIGNING_SECRET"]
# In production: a table of your database, written in the transaction that does the work.
handled: set[str] = set()


async def expire(request: web.Request) -> web.Response:
    body = await request.read()  # the bytes as received: a parsed body has another signature
    try:
        callback = verify(body, request.headers, SECRET)
    except VerificationError as error:
        return web.Response(status=401, text=str(error))
    order = json.loads(body)
    if order.get("cancelled"):
        # A retry would find the same.
        return web.Response(status=489, headers=NOT_AGAIN)
    if "wait_seconds" in order and callback.attempt == 1:
        # Too early. It is called again under the same id, so that is not among those handled yet.
        later = datetime.now(UTC) + timedelta(seconds=order["wait_seconds"])
        return web.Response(status=202, headers=call_at(later))
    if not callback.trial and callback.webhook_id not in handled:
        print("handled", callback.webhook_id, body.decode(), flush=True)
        handled.add(callback.webhook_id)
    # The cron has nothing more to do: it is paused, until its owner resumes it.
    return web.Response(status=204, headers=STOP_CRON if order.get("last") else None)


def main() -> None:
    app = web.Application()
    app.router.add_post("/hooks/expire", expire)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)


if __name__ == "__main__":
    main()
