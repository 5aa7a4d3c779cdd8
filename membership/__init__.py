"""Who is alive, and who owns what: the protocol of the cluster. Standard library only.

Purpose. Nodes are equal; there is no leader. A *poller* (one poller of one client) must be acted for by one process at
a time, and by some process always. Who it should be follows from who is alive (`rendezvous`); who it may be is written
in a store with conditional writes (`ports`), and nowhere else.

Words. An *incarnation* is one run of one node's process. It *beats*: once a second it rewrites its heartbeat row,
counter + 1. Its *trust* is its own permission to act. A *lease* is the row that names a poller's owner incarnation and
*epoch*; the epoch grows with every take and fences what the owner writes. A *mark* is a minute; all marks before a
poller's *watermark* are settled.

    itself:  waiting ─▶ lapsed ⇄ trusted ─▶ over                                    (`trust`, `membership_agent`)
    others:  seen ─▶ watched ─▶ silent for 6 s ─▶ declared ─▶ dead, leases are free (`detector`, `observer`)
    poller:  TAKING ─▶ HELD ⇄ MARKING ─▶ DRAINING ─▶ RELEASING, or DOUBTFUL between (`lease`, `lease_table`)
    cluster: hints over live nodes ─▶ what is missing, what is released ─▶ leases   (`rendezvous`, `lease_balancer`)

The rules
 1. An incarnation may start an attempt only while trusted: until 4 s after the *start* of its last confirmed beat
    write. A lapse is computed from the clock. It ends only when a renewal (`renewals + 1` if alive and `renewals` as
    known) is answered *applied*, and then gives trust until that renewal's own start + 4 s. Beats confirmed while
    lapsed count for nothing; after an unknown answer the record is read, and a renewal made again.
 2. An incarnation is born lapsed: record first, then a confirmed beat, then its first renewal. So whoever acts can be
    seen.
 3. Death is a decision: a conditional write on `renewals` as known, for an incarnation that a read *begun* after 6 s of
    silence still shows silent. The silence starts when the read that showed an advance had *returned*, or when
    `renewals` was read, whichever is later; a rejected declaration, or a gap of 2 s in the observer's own reads,
    starts it again.
 4. A lease is taken only from an owner that has released it, is dead, or has left; on condition that the row is
    exactly as read. After an unknown answer about a lease its owner stops acting for the poller, and acts again only
    under a new epoch that it has taken from itself. A release once begun is never taken back under its epoch.
 5. The low watermark in a heartbeat spares idle pollers every write: it is the oldest mark not settled over the pollers
    that count. A poller counts unless `lagging` is confirmed and no clear was started since, and until its release is
    confirmed. It is cleared only at or above every low watermark ever sent. Low watermarks never fall. Take, set and
    release write watermark and `lagging = true` in one. A taker starts from the watermark, or from the later of it and
    the low watermark of *that incarnation* when the poller does not lag. A missing row is an error, never "now". Marks
    are passed by a wall clock: the host says what of them is credible (`PollerHost.credible`), and every take, release
    and beat stays at or before that. So a poller whose owner's clock was ahead is taken again, earlier, under a new
    epoch; it lags until it has come to the highest low watermark sent.
 6. Who sees a newer incarnation of its node stops, waits until nothing it started can reach the wire, then writes
    `left`. Who starts waits until the older incarnations of its node are dead or left.

Why two nodes never act for one poller at the same time. Let A hold the poller and X take it. X found A's incarnation
dead or left, or the lease released. *Released or left*: A wrote that after it had stopped acting, and a release under
way is never taken back. *Dead*: X, or whoever declared it, saw A's beat advance last in a read that returned at s, and
knew A's renewals r by then; a read begun at b ≥ s + 6 s showed no advance, and the record still had r when it became
"dead". Any beat of A that was applied before b was seen, hence applied before s, hence begun before s: trust from it
ended before s + 4 s. Any beat applied after b was confirmed after b, when that trust had ended: it found A lapsed and
gave nothing. A renewal would have changed r; one whose answer reached A had been applied, so it is among the r that
were known by s, was begun before s, and its trust ended before s + 4 s. So when the lease became free, A had been
without trust for 2 s, and it can never be trusted again, since renewals are conditional on being alive. What A checked
before and sends after is bounded by those 2 s. The epochs settle the rest: whatever A still has on its way to the store
is conditional on rows that have moved on.

What time it is. A member's wall clock is compared with those of the other members and of the store's servers (`clocks`,
`server_clocks`). What is known of them before the first beat decides already whether pollers are asked for. A step of
its machine's clock is doubted until somebody whose machine was not stepped speaks for one of the two times; servers do
where no member can (`scheduler_service.runtime.timekeeper`). No mark is recorded that is ahead of most servers. Assumed
of all these clocks: most are right, or half of them while none is early; of those that did not step with one's own, at
least one is right. Where every machine, the servers' too, is set to a wrong time, that is the time.

What this assumes. Clocks (`Clock.monotonic`) that count suspends and differ in rate by less than what the 2 s leave
over 6 s. From a trust check to bytes on the wire less than the rest of those 2 s. Conditional writes that are
linearizable, and beats of which the later wins in whatever order they arrive. No two processes with one incarnation (a
machine cloned with its memory).

What is not guaranteed. A process that is stopped exactly between check and socket, or a virtual machine whose clock
does not count its pause, sends late: the fence (the epoch in the request) and the claims in the store are what protects
there. Nobody acts while the store is away for longer than the trust. A hint is no right, and hints of two nodes may
differ for a second. Clocks of the wall are compared (`clocks`) and never trusted for liveness.

On failure. *A node dies*: silent for 6 s, declared within about 8, its pollers taken at once by those they are hinted
to. *It pauses*: it finds itself lapsed; renewed it goes on under its leases, or it is dead and ends (`on_over`). *The
store goes away*: everybody lapses, nobody is declared dead by who could not read, and all renew when it is back. *An
answer is lost*: the poller stands still until it is settled by a read and a new epoch. *A planned stop*: draining in
the heartbeat, pollers drained and released, `left`; nothing waits for a death. *A wall clock off by a second*: that
node gives up its pollers until it agrees again. *One of which only servers know*: the same from 5 s on.

What it costs. Per node and second one write and one read of the members, every other second the clock of one server (30
requests a minute, which that server answers by itself), and a read of each other incarnation's record every 10 s. Per
poller nothing while it stays, a take and later a clear of its flag when it moves. Rounds look only at what is missing,
in doubt or lagging."""
