"""Calls as records of a topic of Kafka: the kind `kafka` of destinations.

    call --produce--> queue of the client library --batch--> leader of the partition --all in-sync replicas--> report

A record's value is the body, and its headers are all headers of the call, ours, the signature and the fence too, in
UTF-8; a CloudEvent's are as its Kafka binding says. Its key is the target's, else that in a header which the target
names, else the schedule's ordering key, else the schedule's id. The partition follows from the key by murmur2, as for
Java's producers. Rows of one ordering key start one at a time, so their records are in order.

Clusters are the operator's, by name: a client that named brokers could reach anything that a node can, and brokers
tell clients further addresses. Settings say which clients may use a cluster, and which topics (`settings`). A target
names a cluster and a topic, and holds no secret (`kind`).

Promises
--------
1. A call is delivered when all in-sync replicas have its record (`acks=all`). The producer is idempotent, so its own
   retries write a record once, in order. There is one for each cluster and process (`producer`).
2. A record waits in the library's queue while it is batched (`linger_ms`), or while its partition has no leader. Ten
   times a second `may_start` is asked for every record without a report. If one may not be sent any more, the queue is
   purged: records that were not sent are withdrawn, or queued again if they still may be sent. Those that were queued
   before the cluster failed are in doubt: the library takes back what it had sent, and says no more of it.
3. A record that was sent is not taken back: the library may send it again, until `message_timeout_seconds` after it was
   queued at most. So a record can be written that long after the lease of its row was lost. Its header
   `Minutehand-Fence` is lower than that of the next owner's.
4. Memory is bounded by `buffer_mb` for each cluster. A call that finds no room ends as `unavailable`, nothing sent.
5. A call with a shorter time-out than `message_timeout_seconds` ends as `timeout` before its record is given up.
6. At `stop` the queue is purged; what was sent without a report is in doubt.

At least once: after a `timeout` the retry writes another record, with the same `webhook-id` and the next attempt.

Ends
----
`outcomes` has the table. A cluster that is away ends calls as `timeout`, or `unavailable` where it says so; both count
for the destination's breaker. An unknown topic or a missing right is `unavailable` too, since an operator can mend it.
Only a record that no broker would take is refused for good. A batch that is larger than its topic admits is not: alone
the record may fit.

Reports
-------
The library has threads of its own; reports wait until they are polled for. They are polled for on the loop, every
`POLL_SECONDS` while records are under way, without waiting, so there is no thread of ours and no lock. At 8,000 records
a second, CPU time of the process for a record, with the library's threads, by turns on two cores that others kept busy:

    polled on the loop                                  12.6 to 14.5 us     half acknowledged in 8.1 ms
    polled by a thread, handed to the loop in batches   17.2 to 25.8 us     half acknowledged in 6.0 ms

Cost
----
Flat out over `Deliveries`, records of 200 bytes with ten headers to six partitions of a broker on the same two busy
cores (`tests/bench/kafka_cost.py`): 6,000 to 10,000 records a second were durable, for 0.031 to 0.039 s of CPU for
1,000 in this process, of which the library took 0.010. aiokafka under the same conditions, without `Deliveries`: 6,100
to 9,000 a second for 0.022 to 0.032 s. The library takes the work off the loop's thread, and its retries are those of
the reference client, so it is the one that is used.
"""
