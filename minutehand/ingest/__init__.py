"""Schedules from the records of Kafka's topics: `minutehand ingest kafka`.

# Overview

    topic ─▶ a member of a consumer group ─▶ a worker for each partition ─▶ the API, as one client ─▶ Cassandra
                                                       │
                                                       └─▶ dead-letter topic

The process speaks to the API, with a key of one client. So it needs nothing of Cassandra, every rule of the API holds,
and back-pressure is the API's: what is answered 429 or 503 is asked again after growing pauses, without limit, while
Kafka keeps the records.

# Rules

 1. An offset is committed once all records before it are durable: as rows, or in the dead-letter topic (acknowledged by
    all replicas).
 2. Before a batch is sent, its plan is stored with the group's offset (`plans`): which records, under which token
    `once`. The next owner of the partition sends the same bytes under the same token, which makes the same rows.
 3. The API takes a token for 15 minutes. After them, what it made is found by the ids that it gave (`partition`); how
    they are derived is frozen as part of the token's meaning (`scheduler_service.domain.once`). So no outage is too
    long, up to the client's retention; beyond it the records of the one batch that was under way are refused, in doubt.
 4. A partition's records are handled in order, one batch at a time. Puts and cancels of one key keep their order if
    its records are in one partition, as Kafka's own partitioning by key does. A cancel is never repeated behind a put
    that follows it, because that put's plan commits the cancel's offset first.
 5. No due depends on when a record is read: a delay counts from the record's timestamp.
 6. A record that can never succeed goes to the dead-letter topic. Whatever is not certainly such a one waits.

An Idempotency-Key in place of plans would expire after 24 hours, whatever the outage. A key of the client's own for
each record (a put) would be found as long, but costs ten times a plain create (`usecases.schedule_keys`), and a put
under the key of a schedule that was called already makes another one.

# What is not guaranteed

A dead letter may be written twice; its headers say of which offset it is. A cancel that hangs on the network for longer
than a rebalance may take effect behind a later put of the same key that another process has made. Delivery order is the
node's, by due: Kafka's order is kept for what records make, not for when calls are made.

# On failure

    the process dies     the group notices after `session_seconds`; another repeats at most one batch of each partition
    a rebalance          what is under way ends within `stop_seconds`, or is repeated by the next owner
    API away             partitions are paused at `hold_records`; heartbeats go on; not ready after 10 s (`api-away`)
    key revoked          the same, at once (`api-denies`), until somebody acts
    no such topic        it waits, says so once a minute, and is not ready (`topic-missing`)
    Kafka away           commits are repeated; nothing goes on without them
"""
