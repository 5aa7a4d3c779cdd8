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

What a create costs here (CPU microseconds on an undisturbed core; on a busy machine with cold caches twice as much):

    aiohttp, its socket and its tasks    37    an application with one route and an empty handler, measured alone
    of that a raw asyncio protocol        9    the floor of any server in Python on this loop
    decoding the body                   1.2    msgspec, straight into one struct
    key, client, clock                    2    cached; SHA-256 of the key 0.6
    rules, lane and id                    7    `draft` 4, of that the due 1.2
    group commit and its share of a request 10    see `cql.group_commit`
    the answer's view and JSON            6    of that the view 3

In a batch an item costs 30, for there are no requests, tasks and futures an item. What is seen again and again is kept:
judged URLs, minutes as text and back, keys, clients, label children of the metrics.
"""
