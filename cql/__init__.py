"""The only room that speaks to Cassandra.

    stores (schedules, clients, crons, members, leases, books)  the ports of `domain` and `membership`
        |            \\
        |         group_commit                                concurrent creates share requests
        |            /
    connection                                               named statements in, rows and answers out
        |
    session (driver, threads)        or the tests' in-memory tables, or either behind a decorator of faults

Stores never see the driver, and never write CQL: they name statements of `statements/*.cql` and give parameters. So the
same store code runs over a real cluster, in memory, and under injected faults, and one contract suite holds for all.

What a write may be. *Plain*: acknowledged by a quorum of the home data centre, or StoreUnavailable, and then perhaps
done all the same; every plain write here can be repeated. *Conditional*: Applied, Rejected with what was met, Unknown:

    prepare -> propose -> commit      answered applied     Applied
          \\         \\        \\       answered not applied Rejected: a condition did not hold
           `---------`--------`----- anything else         Unknown: applied already, later, or never

Unknown is never made into one of the others here, and nothing is ever sent twice on its own account. Conditions that
always hold (`in_flight != 0xff`) are there for the answer: a rejection shows only columns that were tested, and with
them it shows the whole header, as of the same instant.

Definition and outcome never mix. Definition columns are inserted plainly, any number of times; outcome and static
columns are updated conditionally (never inserted). Paxos and plain writes share no cell, so no clock decides between
them. A row exists once it has either: an outcome alone is a pointer whose definition is still to come.

A partition's `in_flight` would come back with every row of a page, so it is read by itself and joined to the page when
claim epoch and version are equal in both reads.

What is not guaranteed: plain reads at a quorum may miss a conditional write that nobody got an answer for (serial reads
don't); a batch over several partitions may be applied in part; two data centres at once (`WrongHome`).

A process has two sessions: one for heartbeats, members and the leases it keeps, one for all else. So what queues for
the data's connection, or is given up there, delays no heartbeat on this side of the wire. On the servers' side all
requests queue together; hence the data's session asks less at once while hardly anything is answered in time (`room`),
and heartbeats wait longer for their answers than data does.

Opening a keyspace checks its version and home (`migrate`); settings are in `settings`; errors that somebody must act
upon are in `errors`, and `errors` is the one table that maps the driver's.
"""
