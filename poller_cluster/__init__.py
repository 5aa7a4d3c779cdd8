"""The nodes that fire: how a poller's minute is read, claimed, called, recorded and settled.

    prefetch --> open --> advance (claim + record) --> fire at due --> ... --> sweep --> settled
      -5 s        CAS      CAS, at most 5 s ahead       never early      +10 s    balance

Follow one callback: `node` holds leases and gives each poller to `pollers`, which enters and sweeps minutes;
`minute.machine` decides (pure), `minute.runner` does; `dispatch.dispatcher` starts attempts when they are due, fairly;
`delivery` makes the HTTP request; `dispatch.outcome` says what it came to; the next commit records it. (`trial_calls`
is no part of a node: it sends trial calls for API processes, through the same `dispatch.request` and `delivery`.)

Why a row is called by one owner at a time, and never forgotten:

- A row is sent only after the commit that names it in `in_flight` was applied, under the lease's epoch, and only while
  this incarnation is trusted (see `membership`).
- A commit tests claim_epoch, version and edits; an external update (cancel, requeue) tests the row's state and version.
  So between a commit and an external update exactly one wins, and each learns of the other. When only `edits` moved,
  the commit goes without that test; the rows it claims are then read again serially before they are sent, and the
  outcomes it carries test that their rows have none yet.
- `edits` as known comes from the first page of a read of the whole partition, from nothing else.
- An unknown commit is repeated word for word until it is answered. A rejection that shows our own version counts as
  applied: under one epoch nobody else writes it, because a minute has one machine at a time under one epoch.
- An id found in `in_flight` that this machine did not claim is in doubt; it stays there until its outcome is recorded,
  also when it was claimed again and given back unsent.
- What was read before an open of a partition that somebody had opened before is thrown away and read again.
- A scan that sweeps a minute which its owner has read whole takes of each row what settling needs. Those of which it
  must know more (nobody told of them, or they owe something that was not handed out) are read by key, serially; before
  that the scan has not seen them, so what is in doubt stays so.
- A minute is settled when a whole scan begun after the grace saw every row, each has an end or is retrying with its
  retry row acknowledged, every retry row's end has reached its original, and what a rescheduled row names is created
  (`scheduler_service.usecases.complete_reschedule`). Then the watermark may pass.

Retries are rows of their own, pointer first: the commit that records a failed attempt points the row to an instant,
then the retry row is placed there (`scheduler_service.usecases.schedule_writer`). A retry row's outcome is written to
the retry row, then carried to its original: by an external update that tests that the original still names this retry
row. The retry row's outcome is the decision, made once under the fence; carrying it is repeatable by anybody, so it
needs neither an epoch nor an open of the original's partition, which may be long settled.

What is owed to one partition shares writes (`cql.partition_turns`): of this process one conditional write or serial
read of a partition is under way, hundreds of ends go in one, and without answers the partition is left alone for a
growing pause. An end that loses is told by the values that its row had; the others of its write go again without it. So
a client's retries cost as many writes as its first attempts, and partitions that time out get no more work by it.

The books of a minute are written when it is settled, from the sweep's own count, with the stamp of its partition:
`version` and `edits`, one of which changes with every outcome. So whether a stored balance still holds is a matter of
one small read, for anybody (`domain.books` has the argument), and nobody has to see to it that it does:

- Settled minutes go on changing: a retry row's end reaches its original, a late create is requeued, a retrying schedule
  is cancelled, a missed fire is placed as skipped, a schedule is delivered again. Each is an external update, or found
  in a partition that an owner has advanced since. So the stamp is another from that very write on, before anybody is
  answered, and whoever dies then leaves a balance that is known to be out of date.
- An owner who carries a retry row's end, or finds a retry row whose original has ended, counts the original's minute
  again, after a while and from its rows (`bookkeeping.Recounts`). So does whoever shows the books and finds one out of
  date. Both only spare others the count. Two who do so at once write the same, or one of them a stamp that nobody takes
  for the present one.
- A count is stored only if it began after the grace, by a clock that is not in doubt: until then rows are created
  without a trace in the stamp.
- Writers of one balance are ordered by epoch: a settling owner and its recounts write under the lease's, whoever shows
  the books under that of the balance he found, or 0. So what a zombie writes late does not undo what its successor
  wrote; it would only cost a count.
- Copies are never counted, their originals are. A row of a create that was never answered counts as open where its
  minute is counted after it appeared.

Rows created after their minute was read reach its owner as hints that name them, and are read by key. Where more come
than can be named, the hint names the minute alone: its owner reads it again, whole, one read at a time with pauses
between (`minute.partition.RescanThrottle`), so that such rows are called within seconds; the sweep is there for what no
hint tells.

Who waits for whom (`dispatch.dispatcher`, `dispatch.destinations`, `minute.admission`):

- Clients take turns by quota, rows within the guaranteed thousand a minute before all rows beyond it. No client has
  more attempts under way than a part of what the engine has free, or more minutes in recovery than half of the node's
  places for them.
- What a node asks of storage for the past has one budget (`background_budget`). It shrinks, down to a trickle with
  pauses, while storage is slow or does not answer. First attempts, outcomes, leases and heartbeats are outside it.
- A client's limits hold over all nodes: each takes the part that its pollers are. Hosts of one client have limits of
  their own; rows for a host without room stay unclaimed, and those that are claimed let rows for other hosts pass. Rows
  that are not due leave a part of each limit to those that are (`dispatch.destinations.part_for`).
- Lateness is judged by the clock that starts calls (`dispatch.due_clock`), from the due on; for a row found after its
  minute had been read whole (its hint was lost, or its poller was empty) from when it was found. So nothing that was
  created in time is skipped by a late policy for our own delay; what an outage or a takeover made late is.
- A host that fails again and again is left alone for a while. Its rows are deferred: requeued like a retry, with no
  attempt counted, by the very advance that would have claimed them. So their minute settles, and a cancel finds them
  unclaimed. A row whose retries' deadline would pass meanwhile fails; but no row fails without one attempt.

Ordering keys (`minute.ordering`): rows of one key share a poller and start one at a time, by due.

- The next row of a key is claimed only after the end of the one before was recorded; retries keep everybody behind them
  waiting, in this minute and in later ones. A row that waits is held unclaimed while its turn is near, else deferred
  behind the next attempt of the key's head. So a stuck key costs a bounded number of rows in memory, and some writes.
  That number is each key's own: the first row of a key is never deferred because of other keys, nor because their
  rows fill the minute's window (the rest of the minute is then read for its order alone).
- A new owner knows nothing of the old one's lines. It starts no row with a key before it has read what may stand before
  it: every unsettled minute up to the row's own, and in minutes to come the retry rows that the old owner left there.
  That is everything, since an unfinished schedule always has its newest row or pointer in a minute that is not settled.
- In order means: by due among the rows that exist when the minute of the later one is read, 5 s before it begins. A row
  created later than that for an earlier instant goes when it is found. It means starts and recorded ends; a receiver
  may still see the redelivery of a call whose owner died before it could record the end, but never after a later row
  of the key was called. Not in order: redeliveries; rows created before and after a change of the quota that moved
  their key to another poller, until those of the old poller have ended; retries whose own `cap_seconds` is above their
  client's, after a takeover; and what stands behind more than `minute.ordering.QUEUED_IDS` ids of one poller.

Crons (`crons.expander`, `crons.fire_checks`, `crons.overdue_scan`): what wakes a cron is a row of the client `$cron`,
so that an expansion is claimed, retried, taken over and recovered like any call.

- An expansion places the fires of the next minutes and the next wake-up under ids that derive from the cron, and only
  then advances the cron, if nobody has meanwhile. So it may be cut short anywhere and repeated by anybody: there is one
  child a fire, whoever places it, and two expanders do what one does.
- A change of a cron is the write of its next revision. Its wake-up withdraws the children of older ones by edits, which
  compete with claims like every cancel; what it can't withdraw has its run, and is not placed again.
- An expander that slept through a change may still place a child of before. Children are compared with their cron when
  they are about to be claimed, by a read begun after they were found: so that one is found out, or was placed before
  the change's wake-up looked.
- A cron that is due to be looked at and was not, whatever the reason, is found by the search within two minutes.

Reconciliations (`reconciliation`): one action on everything due in a window, slice by slice, by the owner of one poller
of the client. `usecases.reconcile` says why a slice may be cut short anywhere, and be done by two nodes, and handles
each row once. What it redelivers arrives as retry rows at instants of their own, so it is claimed, paced and recovered
like all other calls, within a share of what each poller is guaranteed.

- A row that comes into the window behind the place where it is looked at is not met.
- What is stopped ends with the slice under way, whose doings are counted by whoever owns the poller then.

Not guaranteed: a process that stops between its trust check and the socket, and a receiver that answers after its
time-out, see at-least-once. `Minutehand-Fence` and the schedule's id let a receiver tell.

On failure: storage that does not answer is asked again with growing pauses, sent rows stay in flight, and whoever owns
the poller next finds them in doubt. A lost lease abandons its minutes at once.

What it costs (`make bench`; two cores shared by Cassandra, one node, receiver and load; CPU per call):

- A node 57 us flat out, 19 of them in the kernel's sends and reads; 90 to 100 before the steps of a call were decided
  for many rows at once (`dispatch.dispatcher`). Without the driver and Cassandra it is 46 (`tests.bench.call_cost`; 76
  then).
- Cassandra 31 us flat out with about 200 rows a commit and packed cells, 125 us at 1,000 calls a second over 64
  pollers with advances of 50: an advance of 30 rows costs it 2.7 ms, one of 250 costs 6 ms
  (`minute.runner.RecordPace`).
"""
