"""The REST API over the use cases.

    http.server -> app (built from resources.ROUTES) -> http.endpoint -> http.auth -> resources/* -> use cases
      \\-> plain_creates                                   \\-> problems

`http.endpoint` wraps every handler: request id, key, the client in the path, time limit, refusals as RFC 9457 problem
documents, metrics. A handler decodes (`http.decoding` reports every fault at once), calls one use case and encodes
(`resources.schedule_views`). `resources.ROUTES` is the contract as data; `openapi` describes it.

Rules for every route:
1. Only health, metrics and the description of the API need no key. A client's key reaches its own client; anything
   that belongs to another is 404.
2. A request that is answered 4xx has stored nothing. After a 503 it is unknown whether something was stored, except
   for `overloaded` and `clock-in-doubt`: then nothing was.
3. An administrator's change, also on a client's routes, is written to the audit log before it is made, or is not made
   (`http.endpoint.audited`, `usecases.audit_log`).
4. Every answer carries X-Request-Id. None carries a stack trace, a secret or a message of the storage layer.
5. A request ends within `request_timeout_seconds`, a trial call within its own limit. Storage that doesn't answer in
   time makes it 503 with Retry-After.

What is not guaranteed: a change of clients or keys made through another process is seen here after up to five seconds,
not at once (`usecases.authenticate.Catalog`).

Cost of a create in an API process (CPU microseconds without the sockets and the driver, the best of many rounds of
`tests.bench.create_cost`):

    a plain create as a whole            45    the general path takes 92 (see `plain_creates`)
    aiohttp's parser                      5    its tasks, request, application and response: 40 on the general path
    clock, rate, decoding the body        3    msgspec, straight into one struct
    rules, poller and id                  5    `draft` 3, of that the due 1
    group commit                          8    see `cql.group_commit`; of that the row's bytes 3
    the answer's view, JSON and head      4    of that the view 2

Each part was measured in its own loop with warm caches, so the parts add up to less than the whole. System calls come
on top (the send of an answer wakes its reader), and for each request to Cassandra the interpreter lock passes to the
driver's thread and back.

In a batch an item costs 30, because requests, tasks and futures are not made for each item. What recurs is cached:
judged URLs, minutes as text and back, keys, clients, routes by path, each route's metrics.
"""
