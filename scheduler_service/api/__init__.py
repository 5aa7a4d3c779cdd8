"""The REST contract over the use cases.

    http.server -> app (built from resources.ROUTES) -> http.endpoint -> http.auth -> resources/* -> use cases
      \\-> plain_creates                                      \\-> problems

`http.endpoint` surrounds every handler with what all have in common: request id, key, the client in the path, time
limit, refusals as RFC 9457 problem documents, counting. Handlers decode (`http.decoding`: every fault at once), call
one use case and encode (`resources.schedule_views`). `resources.ROUTES` is the contract as data, which `openapi`
describes.

What holds for every route:
- Only health, metrics and the description of the API are open. A client's key reaches its own client; whatever is
  another's is 404.
- Nothing is stored by a request that is answered 4xx. After a 503 it is unknown whether something was, except for
  `overloaded` and `clock-in-doubt`: then nothing was.
- What an administrator changes, also on a client's routes, is in the audit log first, or is not done
  (`http.endpoint.audited`, `usecases.audit_log`).
- Every answer carries X-Request-Id. None carries a stack trace, a secret or what storage said.
- A request ends within `request_timeout_seconds`; storage that doesn't answer makes it 503 with Retry-After.

Not guaranteed: that a change of clients or keys made through another process is seen here at once; it takes at most
five seconds (`usecases.authenticate.Catalog`).

What a create costs an API process by itself (CPU microseconds, `tests.bench.create_cost`: all but the sockets and the
driver; the best of many rounds):

    a plain one, as a whole              45    the long way takes 92 (see `plain_creates`)
    aiohttp's parser                      5    its tasks, request, application and response take 40 on the long way
    clock, rate, decoding the body        3    msgspec, straight into one struct
    rules, poller and id                    5    `draft` 3, of that the due 1
    group commit                          8    see `cql.group_commit`; of that the row's bytes 3
    the answer's view, JSON and head      4    of that the view 2

The parts were measured each in a loop of its own, where nothing else is in the processor's caches, so they are less
than the whole. On top come the system calls, one of which wakes somebody for every answer, and for every request to
Cassandra handing the interpreter to the driver's thread and back.

In a batch an item costs 30, for there are no requests, tasks and futures an item. What is seen again and again is kept:
judged URLs, minutes as text and back, keys, clients, routes of paths, label children of the metrics.
"""
