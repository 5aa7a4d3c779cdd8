"""The REST contract over the use cases.

    server -> app (built from routes.ROUTES) -> endpoint -> auth -> routes/* -> use cases
      \\-> plain_creates                                 \\-> problems

`endpoint` surrounds every handler with what all have in common: request id, key, the client in the path, time limit,
refusals as RFC 9457 problem documents, counting. Handlers decode (`decoding`: every fault at once), call one use case
and encode (`views`). `routes.ROUTES` is the contract as data, which `openapi` describes.

What holds for every route:
- Only health, metrics and the description of the API are open. A client's key reaches its own client; whatever is
  another's is 404.
- Nothing is stored by a request that is answered 4xx. After a 503 it is unknown whether something was, except for
  `overloaded` and `clock-in-doubt`: then nothing was.
- What an administrator changes, also on a client's routes, is in the audit log first, or is not done (`audited`,
  `usecases.audit_actions`).
- Every answer carries X-Request-Id. None carries a stack trace, a secret or what storage said.
- A request ends within `request_timeout_seconds`; storage that doesn't answer makes it 503 with Retry-After.

Not guaranteed: that a change of clients or keys made through another process is seen here at once; it takes at most
five seconds (`usecases.catalog`).

What a create costs here (CPU microseconds, the best of several runs of each part alone):

    aiohttp, its socket and its tasks    37    an application with one route and an empty handler
    a raw asyncio protocol                8    the same without HTTP's rules: the floor of any server on this loop
    decoding the body                   1.2    msgspec, straight into one struct
    key, client, clock                    2    cached; SHA-256 of the key 0.6
    rules, lane and id                    7    `draft` 4, of that the due 1.2
    group commit                         10    see `cql.group_commit`; its share of a request comes on top
    the answer's view and JSON            6    of that the view 3

That is some 65 where nothing disturbs it. With the generator, Cassandra and strangers on the same 2 cores it is 160 to
200: every answer is a system call that wakes somebody, and every request to Cassandra hands the interpreter to the
driver's thread and back. Of `web.Response` 6 could be saved by writing its bytes ourselves; that would be at the price
of knowing aiohttp's inside.

In a batch an item costs 30, for there are no requests, tasks and futures an item. What is seen again and again is kept:
judged URLs, minutes as text and back, keys, clients, routes of paths, label children of the metrics.
"""
