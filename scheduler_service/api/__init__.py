"""The REST contract over the use cases.

    server -> app (built from routes.ROUTES) -> endpoint -> auth -> routes/* -> use cases
                                                        \\-> problems

`endpoint` surrounds every handler with what all have in common: request id, key, the client in the path, time limit,
refusals as RFC 9457 problem documents, counting. Handlers decode (`decoding`: every fault at once), call one use case
and encode (`views`). `routes.ROUTES` is the contract as data.

What holds for every route:
- Only health and metrics are open. A client's key reaches its own client; whatever is another's is 404.
- Nothing is stored by a request that is answered 4xx. After a 503 it is unknown whether something was, except for
  `overloaded` and `clock-in-doubt`: then nothing was.
- Every answer carries X-Request-Id. None carries a stack trace, a secret or what storage said.
- A request ends within `request_timeout_seconds`; storage that doesn't answer makes it 503 with Retry-After.

Not guaranteed: that a change of clients or keys made through another process is seen here at once; it takes at most
five seconds (`usecases.catalog`).
"""
