"""A receiver of callbacks with FastAPI: verifies signatures, and handles each callback once.

SIGNING_SECRET=whsec_... python examples/receivers/fastapi_receiver.py 9000
"""

import os
import sys

import uvicorn
from fastapi import FastAPI, Request, Response

from minutehand.webhooks import VerificationError, verify

SECRET = os.environ["SIGNING_SECRET"]
# In production: a table of your database, written in the transaction that does the work.
handled: set[str] = set()
app = FastAPI()


@app.post("/hooks/expire")
async def expire(request: Request) -> Response:
    body = await request.body()  # the bytes as received: a parsed body has another signature
    try:
        callback = verify(body, request.headers, SECRET)
    except VerificationError as error:
        return Response(status_code=401, content=str(error))
    if not callback.trial and callback.webhook_id not in handled:
        print("handled", callback.webhook_id, body.decode(), flush=True)
        handled.add(callback.webhook_id)
    return Response(status_code=204)  # for repeats too: without a 2xx the call comes again


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
