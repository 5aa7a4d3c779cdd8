"""A systematic explorer of the protocol of a minute: every order of storage operations within bounds, on the real code.

    scene      what may happen, and how often: creates, cancels, redeliveries, crashes, lost answers, ticks of the clock
    world      the moves of a state; each runs the product's own code up to its next storage operation
    search     depth first over all states within a bound of context switches, or random walks from a seed
    rules      what must hold at every call, and when no more moves are possible
    plants     one broken rule each, which must be found

It explores `PollerMinute` with the shell's own way to do its steps, `ScheduleWriter`, `CancelSchedules`, the shell's
follow-ups, `prepare` and `conclude`, over the real stores and the in-memory connection. Incarnation 1 owns the poller
first; it may crash, lose trust and write on, or hand the poller over, and incarnation 2 takes it under the next epoch.

Time stands still between ticks: the first instant is the due of all rows, and each tick goes past the grace of the next
minute. So a create acknowledged before the first tick is in time; later ones come under the late rule.

It does not explore the dispatcher, clocks, the lease's own protocol, stale reads, or several rows in one insert. The
random runs cover those.
"""
