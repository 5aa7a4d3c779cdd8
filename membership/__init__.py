"""Who is alive, and who owns what: the protocol of the cluster. Standard library only.

This is the lowest room, which every other may import. So the root of all errors (`errors`) and the answers of
conditional writes (`conditional`) are here too, although more than membership uses them.

# Overview

Nodes are equal; there is no leader. At any time at most one process may act for a *poller* (one slot of one client),
and some process should. Who should follows from who is alive (`rendezvous`); who may is written in a store with
conditional writes (`ports`), and nowhere else.

An *incarnation* is one run of one node's process. It *beats*: once a second it rewrites its heartbeat row, counter + 1.
Its *trust* is its permission to act. A *lease* is the row that names a poller's owner incarnation and *epoch*; the
epoch grows with every take and fences what the owner writes. A *mark* is a minute; all marks before a poller's
*watermark* are settled.

# States

    itself:  waiting ─▶ lapsed ⇄ trusted ─▶ over                                    (`trust`, `membership_agent`)
    others:  seen ─▶ watched ─▶ silent for 6 s ─▶ declared ─▶ dead, leases are free (`detector`, `observer`)
    poller:  TAKING ─▶ HELD ⇄ MARKING ─▶ DRAINING ─▶ RELEASING, or DOUBTFUL between (`lease`, `lease_table`)
    cluster: hints over live nodes ─▶ what is missing, what is released ─▶ leases   (`rendezvous`, `lease_balancer`)

# Rules

 1. An incarnation may start an attempt only while trusted: until 4 s after the *start* of its last confirmed beat
    write. A lapse is computed from the clock. It ends only when a renewal (`renewals + 1` if alive and `renewals` as
    known) is answered *applied*, which gives trust until that renewal's start + 4 s. Beats confirmed while lapsed give
    no trust; after an unknown answer the record is read and the renewal repeated.
 2. An incarnation starts lapsed: record first, then a confirmed beat, then its first renewal. So every incarnation that
    acts is visible to the others.
 3. Death is a decision: a conditional write on `renewals` as known, for an incarnation that a read *begun* after 6 s of
    silence still shows silent. The silence starts when the read that showed an advance had *returned*, or when
    `renewals` was read, whichever is later; a rejected declaration, or a gap of 2 s in the observer's own reads,
    restarts it.
 4. A lease is taken only from an owner that has released it, is dead, or has left, and only if the row is exactly as
    read. After an unknown answer about a lease its owner stops acting for the poller, and acts again only under a new
    epoch that it has taken from itself. A release is never withdrawn under its epoch once it has begun.
 5. The low watermark in a heartbeat saves a write per idle poller: it is the oldest unsettled mark over the pollers
    that count. A poller counts unless `lagging` is confirmed and no clear has started since, and until its release is
    confirmed. The flag is cleared only at or above every low watermark ever sent. Low watermarks never fall. Take, set
    and release write watermark and `lagging = true` together. A taker starts from the watermark or, when the poller
    does not lag, from the later of it and the low watermark of *that incarnation*. A missing row is an error, never
    "now". Marks are passed by a wall clock: `ports.Credibility` says which of them are believed, and every
    take, release and beat stays at or before that. So a poller whose owner's clock was ahead is taken again, earlier,
    under a new epoch; it lags until it has reached the highest low watermark sent.
 6. An incarnation that sees a newer one of its node stops, waits until nothing it started can reach the wire, then
    writes `left`. A starting incarnation waits until the older ones of its node are dead or left.

# Why two nodes never act for one poller at the same time

Let A hold the poller and X take it. X found A's incarnation dead or left, or the lease released. *Released or left*: A
wrote that after it had stopped acting, and a release that has begun is never withdrawn. *Dead*: X, or another declarer,
saw A's beat advance last in a read that returned at s, and knew A's renewals r by then; a read begun at b ≥ s + 6 s
showed no advance, and the record still had r when it became "dead". Any beat of A that was applied before b was seen,
hence applied before s, hence begun before s: trust from it ended before s + 4 s. Any beat applied after b was confirmed
after b, when that trust had ended: it found A lapsed and gave nothing. A renewal would have changed r; one whose answer
reached A had been applied, so it is among the r that were known by s, was begun before s, and its trust ended before
s + 4 s. So when the lease became free, A had been without trust for 2 s, and it can never be trusted again, since
renewals are conditional on being alive. What A checked before and sends after is bounded by those 2 s. The epochs cover
the rest: whatever A still has on its way to the store is conditional on rows that have changed since.

# Wall clocks

A member's wall clock is compared with those of the other members and of the store's servers (`clocks`,
`server_clocks`), from before the first beat on; a node whose clock is off asks for no pollers. A step of its machine's
clock is in doubt until a clock of a machine that was not stepped supports one of the two times; servers do where no
member can (`scheduler_service.runtime.timekeeper`). No mark is recorded that is ahead of most servers. Assumed of all
these clocks: most are right, or half of them while none is early; of those that did not step with the local one, at
least one is right. If every machine, the servers' too, is set to a wrong time, that time is used.

# Assumptions

Monotonic clocks (`WallClock.monotonic`) count suspends, and their rates differ by less than the 2 s margin over 6 s.
From a trust check to bytes on the wire passes less than the rest of those 2 s. Conditional writes are linearizable, and
of two beats the later wins in whatever order they arrive. No two processes have one incarnation (a machine cloned with
its memory).

# What is not guaranteed

A process that is stopped exactly between check and socket, or a virtual machine whose clock does not count its pause,
sends late: the fence (the epoch in the request) and the claims in the store protect against that. No process acts while
the store is away for longer than the trust. A hint gives no right, and hints of two nodes may differ for a second. Wall
clocks are compared and never trusted for liveness.

# On failure

- A node dies: silent for 6 s, declared dead within about 8, its pollers taken at once by the nodes they are hinted to.
- It pauses: it finds itself lapsed; if its renewal is applied it goes on under its leases, else it is dead and ends
  (`on_over`).
- The store goes away: every incarnation lapses, none is declared dead by a node that could not read, and all renew when
  it is back.
- An answer is lost: the poller is not served until a read and a new epoch have settled whose it is.
- A planned stop: draining in the heartbeat, pollers drained and released, `left`; no node has to wait for a death.
- A wall clock is off by a second: that node gives up its pollers until it agrees again; from 5 s on also when only the
  servers contradict it.

# Cost

Per node and second one write and one read of the members, every other second the clock of one server (30 requests a
minute, which that server answers by itself), and a read of each other incarnation's record every 10 s. Per poller
nothing while it stays, a take and later a clear of its flag when it moves. Rounds look only at what is missing, in
doubt or lagging.
"""
