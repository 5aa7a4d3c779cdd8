"""The nodes that fire: how a poller's minute is read, claimed, called, recorded and settled.

Overview
--------
    prefetch --> open --> commit (claim + record) --> fire at due --> ... --> sweep --> settled
      -5 s        CAS     CAS, at most 5 s ahead      never early             +10 s     balance

Follow one callback: `node` holds leases, `node_pollers` begins each poller that is granted, `client_pollers` enters and
sweeps its minutes; `minute.machine` decides (pure), `minute.runner` carries out; `dispatch.dispatcher` starts attempts
when they are due, fairly; `delivery` makes the HTTP request; `dispatch.outcome` derives the row's outcome from the
result; the next commit records it. (`trial_calls` is no part of a node: it sends trial calls for API processes, through
the same `dispatch.request` and `delivery`.)

States
------
The phases of a minute and the states of its rows are in `minute.machine`.

Rules
-----
A row is called by one owner at a time, and never forgotten:

 1. A row is sent only after the commit that names it in `in_flight` was applied, under the lease's epoch, and only
    while this incarnation is trusted (see `membership`).
 2. A commit tests claim_epoch, version and edits; an external update (cancel, requeue, update in place) tests the row's
    state and version. So of a commit and a concurrent external update exactly one wins, and the loser learns of the
    other. When only `edits` changed, the commit is repeated without that test; the rows it claims are then read again
    serially before they are sent, and the outcomes it carries are conditional on their rows having none. Rows that it
    ends unclaimed, such as deferred ones, are read again too, before their follow-ups are made of them: until then they
    may have been revised. A row that is held is replaced by a later revision whenever a scan reads it.
 3. The known value of `edits` is taken only from the first page of a read of the whole partition.
 4. A commit with an unknown result is repeated word for word until it is answered. A rejection that shows our own
    version counts as applied: a minute has one machine at a time under one epoch, so nobody else can have written it.
 5. An id found in `in_flight` that this machine did not claim is in doubt; it stays in `in_flight` until its outcome is
    recorded, also when it was claimed again and given back unsent.
 6. When a machine opens a partition that an older epoch had opened, it discards what it read before and reads again.
 7. The sweep of a minute that its owner has read completely fetches only the columns that settling needs. Rows of which
    more must be known (they were not known before, or have a follow-up that was not handed out) are read by key,
    serially; until then the scan counts as incomplete, so ids in doubt stay in doubt.
 8. A minute is settled when a complete scan begun after the grace saw every row, each row has ended or is retrying with
    its retry row acknowledged, every retry row's end has reached its original, the replacement of every rescheduled row
    is created (`scheduler_service.usecases.complete_reschedule`), and every end that a feed tells is told (rule 40).
    Then the watermark may pass.

Retries are rows, and their pointers are written first:

 9. The commit that records a failed attempt points the row to an instant, then the retry row is placed there
    (`scheduler_service.usecases.schedule_writer`).
10. A retry row's outcome is written to the retry row, then carried to its original by an external update that tests
    that the original still names this retry row. The outcome is decided once, under the fence; carrying it is
    idempotent and may be done by any process, so it needs neither an epoch nor an open of the original's partition,
    which may be long settled.
11. Follow-ups to one partition share writes (`cql.partition_turns`): a process has one conditional write or serial read
    of a partition under way, a write carries hundreds of ends, and a partition that does not answer is left alone for
    growing pauses. An end whose condition fails is identified by the values returned for its row; the others of its
    write are sent again without it. So a client's retries cost as many writes as its first attempts, and partitions
    that time out get no more load from them.

The books of a minute are written when it is settled, from the sweep's own count, with the stamp of its partition:
`version` and `edits`, one of which changes with every outcome. So one small read tells any process whether a stored
balance still holds (`domain.books` has the argument), and no process has to keep it current:

12. Settled minutes go on changing: a retry row's end reaches its original, a late create is requeued, a retrying
    schedule is cancelled, a missed fire is placed as skipped, a schedule is delivered again. Each is an external
    update, or is found in a partition that its owner has committed to since. The stamp changes in that same write,
    before the request is answered, so a process that dies afterwards leaves a balance that is known to be out of date.
13. An owner that carries a retry row's end, or finds a retry row whose original has ended, counts the original's minute
    again, after a delay and from its rows (`bookkeeping.Recounts`). So does a reader of the books that finds a balance
    out of date. Both only save others the count. Of two concurrent counts both write the same balance, or one writes a
    stamp that is recognised as old.
14. A count is stored only if it began after the grace, by a clock that is not in doubt: until then rows may be created
    without a change of the stamp.
15. Writers of one balance are ordered by epoch: a settling owner and its recounts write under the lease's epoch, a
    reader of the books under that of the balance that it found, or 0. So a late write of a former owner does not
    replace the present owner's; if it did, that would only cost a count.
16. Retry rows are never counted, their originals are. A row of a create that was never answered counts as open once its
    minute is counted after the row appeared.

Late rows:

17. Rows created after their minute was read reach its owner as hints that name them, and are read by key. When there
    are too many to name, the hint names only the minute: its owner reads the whole minute again, one read at a time
    with pauses between (`minute.partition.RescanThrottle`), so such rows are called within seconds. The sweep finds
    rows whose hint was lost.

Fairness and limits (`dispatch.dispatcher`, `dispatch.receivers`, `minute.admission`):

18. Clients take turns by quota, rows within the guaranteed thousand a minute before all rows beyond it. No client has
    more attempts under way than a multiple of the engine's free capacity, or more than half of the node's places for
    minutes in recovery.
19. All storage requests that a node makes for the past share one budget (`background_budget`). It shrinks, down to one
    request at a time with pauses, while storage is slow or does not answer. First attempts, outcomes, leases and
    heartbeats are outside it.
20. A client's limits hold over all nodes: each node takes the share that corresponds to its pollers. Each host of a
    client has its own limits; rows for a host without room stay unclaimed, and claimed ones let rows for other hosts
    pass. Rows that are not due leave a part of each limit to those that are (`dispatch.receivers.part_for`).
21. Lateness is judged by the clock that starts calls (`dispatch.due_clock`), from the due on; for a row found after its
    minute had been read completely (its hint was lost, or its poller was empty), from when it was found. So a late
    policy never skips a row that was created in time because of the node's own delay; rows that an outage or a takeover
    made late are skipped.
    What a late, deferred or retried row has waited for is recorded with its outcome (`dispatch.lateness`).
22. A host that fails repeatedly gets no calls for a while. Its rows are deferred: requeued like a retry, with no
    attempt counted, by the same commit that would have claimed them. So their minute settles, and a cancel finds them
    unclaimed. A row whose retry deadline would pass meanwhile fails; but no row fails without one attempt.
45. Overdue rows are claimed at the overdue rate of their client and of all clients (`dispatch.overdue_calls`,
    `minute.overdue_admission`): each node has the part of it that it has of their pollers. A row without a token is
    held unclaimed and without a write, in memory that is not that of rows on time: recovery begins no further minute of
    a client while two hold such rows, and they give up their places among the node's minutes in recovery. A row uses
    its token up when its claim is followed by a call. Retried and deferred rows count by their new due.

Ordering keys (`minute.ordering`): rows of one key share a poller and start one at a time, by due.

23. The next row of a key is claimed only after the end of the one before was recorded; a retried row keeps all rows
    behind it waiting, in this minute and in later ones. A waiting row is held unclaimed while its turn is near, else
    deferred until after the next attempt of the key's head. So a stuck key costs a bounded number of rows in memory,
    and some writes. The bound is per key: the first row of a key is never deferred because of other keys, nor because
    their rows fill the minute's window (the rest of the minute is then read for its order alone).
24. A new owner does not know its predecessor's wait queues. It starts no row with a key before it has read what may
    stand before it: every unsettled minute up to the row's own, and the retry rows that the predecessor placed in later
    minutes (`minute.order_ahead`). That is complete, since an unfinished schedule always has its newest row or pointer
    in an unsettled minute. So the head of a key may be in a minute that recovery has yet to reach, and a minute in
    which all that is left waits for such heads must not hold up recovery: it is at rest, and gives its place back.
    Rows held for room keep the place, since room comes by itself. The minutes at rest of a node are bounded
    (`background_budget.MINUTES_AT_REST`); beyond the bound, rows behind their heads are deferred, so their minutes
    settle.
25. The order is by due among the rows that exist when the minute of the later one is read, 5 s before it begins. A row
    created later than that for an earlier instant starts when it is found. The order is that of starts and recorded
    ends; a receiver may still get the redelivery of a call whose owner died before recording its end, but never after
    a later row of the key was called.

Runs of a cron that must not overlap have an ordering key of the cron's (`domain.options.run_key`), and beyond it:

37. A run that was admitted, tried or found in doubt holds the key until its end is recorded: no other run of the cron
    is claimed meanwhile, whichever is due first, redelivered ones included. Only the owner of the poller decides what
    becomes of the others: `minute.admission` holds them until they are due, then `crons.fire_guard` reads the runs
    before them, which may have ended or been cancelled since. What it decides is recorded by commits under its epoch.

Flow keys (`dispatch.flows`, `minute.flow_admission`): rows of one key share a poller, a rate and a parallelism.

33. The owner of a key's poller knows all calls of it, so its limits are exact over all nodes without shares. A row is
    claimed only while fewer rows of its key are claimed than may be called at a time, and started only when the rate
    lets it. Before a poller is handed over its calls have ended, except those of an owner that died.
34. A new owner does not know when a call of a key started last: it starts the first one no sooner than one interval of
    the rate after the grant. So restarts and take-overs make calls later, never faster.
35. A row without room is held unclaimed while its turn is near, else deferred until about then, at most ten minutes. So
    a stuck key costs a bounded number of rows in memory, and some writes, and passes its turn to nobody else.
36. A node keeps a bounded number of keys of a client (`flows_per_client`), only those with claimed rows, rate debt or
    deferred rows. Rows of further keys are deferred for a second or two until others have none.

Crons (`crons.expander`, `crons.fire_guard`, `crons.overdue_scan`): a cron is woken by a row of the client `$cron`, so
an expansion is claimed, retried, taken over and recovered like any call.

26. An expansion places the fires of the next minutes and the next wake-up under ids derived from the cron, and then
    advances the cron, unless another expansion has done so. So it may be interrupted anywhere and repeated by any node:
    each fire has one child, and two concurrent expanders have the effect of one.
27. A change of a cron writes its next revision. The wake-up of that revision withdraws the children of older ones by
    external updates, which compete with claims like every cancel; a child that it cannot withdraw has its run, and is
    not placed again.
28. An expander that was paused during a change may still place a child of an older revision. Children are compared with
    their cron before they are claimed, by a read begun after they were found: so such a child is detected, or it was
    placed before the change's wake-up looked.
29. A cron whose wake-up was lost for any reason is found by the overdue scan within two minutes.
38. A cron with `pause_after_failures` is judged after each failed run of it was recorded, before the minute settles,
    and before a fire of it is claimed (`usecases.pause_failing_crons`). So an owner that dies between a failure and the
    pause leaves the pause to the next owner of that minute or of the next fire, whichever comes first; afterwards only
    fires are called that were claimed before. Nodes of an older version don't judge: the next newer node that records a
    failure, or is about to claim a fire, does.

Events (`events`, `usecases.read_events`): the ends of a client with a feed are told there, each in the track of its
poller. `tests/models/feed.py` is an exhaustive model of these rules. `notices` says how events are sent.

39. The owner of a poller is the only writer of its track, under the lease's epoch. It has one batch under way, which it
    repeats word for word until it is answered, and begins a block by a write that is acknowledged before the block's
    first event is sent. So events become visible in the order of their seqs.
40. The event of an end is a follow-up: it is appended after the end was recorded, and no minute settles before it is
    acknowledged. The end of a retry row is told with the retry row, not with its original; a retry row that its
    original does not name any more tells of a cancel of the original. So an owner that dies leaves the events to the
    next one, which appends them under its own epoch, perhaps again under the same ids.
41. A reader leaves an epoch only after it has seen a block of a higher one, looked at the blocks again, and then read
    the epoch to its end. What a stale owner appends after that is passed unread, and appended again by the next owner,
    because the stale one settles nothing under a lease that it has lost.
42. A cancel in a minute that does not run is told after a hint, and its row is marked by a plain write of a column of
    its own, which keeps the sweep silent. It is marked only after the event was acknowledged and the lease was then
    seen under the epoch of the track. Otherwise the event may be behind the readers, and would never be told again.

Acknowledged work (`domain.acknowledgements`, `dispatch.words`): a call that its receiver took by 202.

43. It is a retrying row that points to its deadline. A receiver's word is an external update that moves this pointer,
    on condition that the original still names the deadline that was read. The retry row there is no call: the owner
    decides its end when it is due, without a claim, and that is carried to the original by rule 10. So of two words, or
    of a word and a deadline, one counts, and a word that was taken is not lost: no cancel ends a schedule that was said
    to be done. Only after its end has reached the original, a dead letter is written and an event told.
44. An owner that finds that the original names another instant than a deadline's row places the row that it names, as
    a follow-up of the deadline's row: the process that moved the pointer may have died.

Reconciliations (`reconciliation`): one action on everything due in a window, slice by slice, by the owner of one poller
of the client.

30. A slice may be interrupted anywhere, and be done by two nodes, and handles each row once (`usecases.reconcile` says
    why).
31. Redeliveries are placed as retry rows at instants of their own, so they are claimed, paced and recovered like all
    other calls, within a share of each poller's guaranteed rate.
32. A stopped reconciliation ends with the slice under way; the poller's owner at that time counts its results.

What is not guaranteed
----------------------
- Exactly once. A process that stops between its trust check and the socket, or a receiver that answers after its
  time-out, causes a repeated call. `Minutehand-Fence` and the schedule's id let a receiver recognise it.
- Order under a key for: redeliveries; rows created before and after a change of the quota that moved their key to
  another poller, until those of the old poller have ended; fires of a cron, and rows far ahead, that a node of an
  older version placed; rows behind more than `minute.ordering.QUEUED_IDS` ids of one poller.
- The limits of a flow key for: calls of an owner that died, which its receivers may still be answering; rows created
  before and after a change of the quota that moved their key to another poller, until those of the old poller have
  ended (crons place theirs in the old one until they are put again); rows that a node of an older version calls.
- A reconciliation skips rows inserted behind its scan.
- Punctuality under an overdue rate for rows with an ordering key: by rule 24 they wait until recovery has begun every
  older minute of their poller, which takes as long as the rate makes it.

On failure
----------
Storage that does not answer is asked again with growing pauses; sent rows stay in flight, and the poller's next owner
finds them in doubt. A lost lease abandons its minutes at once.

Cost
----
`make bench`; two cores shared by Cassandra, one node, receiver and load; CPU per call:

- A node 57 us flat out, 19 of them in the kernel's sends and reads; 90 to 100 before the steps of a call were decided
  for many rows at once (`dispatch.dispatcher`). Without the driver and Cassandra it is 46 (`tests.bench.call_cost`; 76
  then).
- Cassandra 31 us flat out with about 200 rows a commit and packed cells, 125 us at 1,000 calls a second over 64
  pollers with commits of 50 rows: a commit of 30 rows costs it 2.7 ms, one of 250 costs 6 ms
  (`minute.limits.RecordPace`).
"""
