"""`python -m tests.bench`: measures the whole system on this machine.

An embedded Cassandra, an API, a node, a lean receiver and a lean load generator run as one process each; the load goes
through the public API, the calls to the receiver. The bench reports figures and judges nothing.

    warm-up             30 s of creates, calls and conditional writes, so that no phase measures the JVM's compiler
    creates, alone      one connection: what a create takes when it shares no request, beside a plain insert
    creates, single     closed loop over 64 keep-alive connections
    creates, batched    batches of 1,000 over 8 connections; these and the ones before consecutive over an hour, where
                        the 170 or so rows of a minute share a partition, and scattered over a week, where hardly
                        two do
    creates, keyed      as single, each with an Idempotency-Key, which is a conditional write
    creates, once       as single, each with a once token (`domain.once`), which is not stored
    creates, SDK        through `minutehand.client`, by 8 threads; and by 64 tasks through the asynchronous one
    calls, flat out     rows due within a few seconds, more than the node can send: how fast it works them off
    calls, steady       a modest rate for a while: how late they are
    calls at seconds    the same rate, all of a second's calls at its beginning, as people schedule
    million             1,000,000 rows due within one minute: what goes out in two minutes, and the node's memory
    calls at 80 percent four fifths of the rate that the million sustained: how late they are; while their rows wait for
                        their minute, the neighbour's bad receivers are measured
    crons               `--crons N` of them, a quarter at one minute: how fast they are expanded, and how late; takes
                        minutes, so only on request
    neighbour ...       a quiet client's lateness beside 60,000 calls of another one, and beside bad receivers
    scale               CPU against numbers of pollers, clients, hosts and bytes, and TLS; long, so only on request
    node ...            one of three nodes killed, one stopped: when its pollers fire again, and how late
    idle pollers        100,352 of them on three nodes: what they cost, and how fast a dead node's move

CPU is that of each process over the phase, by the system's accounting: of a load generator without its start, and of
Cassandra without its compiler and collector threads, which are shown separately (Linux).
"""
