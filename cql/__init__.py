"""The only room that speaks to Cassandra.

# Overview

    stores (schedules, clients, crons, members, leases, books)   the ports of `domain` and `membership`
      │          │
      │     group_commit                                         concurrent creates share requests
      ▼          ▼
    connection                                                   named statements in, rows and answers out
      │
      ▼
    session (driver, threads)                                    or tables in memory (`memory`), or either behind a
                                                                 decorator that injects faults

Stores never see the driver, and never write CQL: they name statements of `statements/*.cql` and give parameters. So the
same store code runs over a real cluster, in memory, and under injected faults, and one contract suite covers all three.

Opening a keyspace checks its version and home (`migrate`). Settings are in `settings`; `errors` has the errors that an
operator must act upon, and the one table that maps the driver's.

# States

A *plain* write is acknowledged by a quorum of the home data centre, or raises StoreUnavailable and may still have taken
effect. A *conditional* write is answered Applied, Rejected with the current values, or Unknown:

    prepare ─▶ propose ─▶ commit ─▶ answered applied        Applied
       │          │          │      answered not applied    Rejected: a condition did not hold
       └──────────┴──────────┴────▶ anything else           Unknown: applied already, later, or never

# Rules

 1. Unknown is never turned into another answer in this room, and the driver retries nothing. Every plain write can be
    repeated.
 2. Conditions that always hold (`in_flight != 0xff`) are tested because a rejection shows only tested columns: with
    them it shows the whole header, as of one instant.
 3. Definition and outcome never mix. Definition columns are inserted plainly, any number of times; outcome and static
    columns are updated conditionally, never inserted. Paxos and plain writes share no cell, so no clock decides between
    them. A row exists once it has either: an outcome alone is a pointer whose definition is still to come.
 4. A page would repeat the partition's `in_flight` in every row, so it is read separately and joined to the page if
    claim epoch and version are equal in both reads.
 5. A process has two sessions: one for heartbeats, members and the leases it keeps, one for all else. So requests that
    queue or time out on the data's connection delay no heartbeat in this process.

# What is not guaranteed

Plain reads at a quorum may miss a conditional write whose answer was lost (serial reads don't). A batch over several
partitions may be applied in part. Writes through two data centres at once are not supported (`WrongHome`).

# On failure

On the servers all requests share a queue. So the data's session sends fewer at once while most of them time out
(`concurrency_limiter`), and heartbeats have a longer time-out than data.
"""
