"""BigBen's API over our use cases, under `/bigben`: a program that was written for it needs another base URL only.

    routes ─▶ events, processors (what is asked, as ours) ─▶ use cases ─▶ answers (what came of it, as BigBen's)

    BigBen                          here
    tenant                          a name within the one client that the operator serves there (`api.http.wire`)
    processor of a tenant           a destination, its name derived from the tenant's (`processors`)
    event, named (tenant, id)       a schedule under the client's own key, derived from both (`events.key_of`)
    UPSERT                          put under that key
    REMOVE                          cancel by that key
    find                            what the key names; a cancelled one is not found
    dryrun                          another schedule, due now, without a key; the event stays as it is

Tenants are names within one client, because BigBen's programs register them while they run, under any name and
without a credential: if each were a client, anybody could make clients. BigBen's tenants never were kept from each
other either. Those that must be get clients of their own, and an API process each that serves this wire for one.

A receiver gets the same POST with the same body and headers, ours beside them. The body is made when the event is
accepted, so its `triggeredAt` is the instant at which the event is due, not the later one at which it was sent.

An event costs what a schedule that is put under a key costs (`usecases.schedule_keys`), and a removal what a cancel by
key does: 1,000 events in one request took 0.25 to 0.38 s of CPU, API and caller, over the in-memory store, 1,000
schedules with keys in a batch 0.22 to 0.31. A quarter of the request's time is kept for the answer: events that were
not begun by then are answered as errors, one by one.

A node needs to know nothing of this wire: events are calls that name a destination. A node that knows no destinations
lets no tenant be registered (`usecases.destinations`), one that knows no targets lets events for Kafka wait.

What is not the same: docs/how-to/move-from-bigben.md.
"""
