"""A receiver of callbacks with Flask: verifies signatures, and handles each callback once.

SIGNING_SECRET=whsec_... python examples/receivers/flask_receiver.py 9000
"""

import os
import sys
from threading import Lock

from flask import Flask, Response, request

from minutehand.webhooks import VerificationError, verify

SECRET = os.environ["SIGNING_SECRET"]
# In production: a table of your database, written in the transaction that does the work.
handled: set[str] = set()
one_at_a_time = Lock()
app = Flask(__name__)


@app.post("/hooks/expire")
def expire() -> Response:
    body = request.get_data()  # the bytes as received: a parsed body has another signature
    try:
        callback = verify(body, request.headers, SECRET)
    except VerificationError as error:
        return Response(status=401, response=str(error))
    with one_at_a_time:
        if not callback.trial and callback.webhook_id not in handled:
            print("handled", callback.webhook_id, body.decode(), flush=True)
            handled.add(callback.webhook_id)
    return Response(status=204)  # for repeats too: without a 2xx the call comes again


if __name__ == "__main__":
    app.run(host="127.0.0.1", port=int(sys.argv[1]))
