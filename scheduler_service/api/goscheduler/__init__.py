"""GoScheduler's wire under `/goscheduler`: programs that were written for GoScheduler go on unchanged.

    a request there -> who calls, which apps it reaches (`callers`) -> ours (`requests`, `queries`)
        -> the same use cases as every other route's -> GoScheduler's form (`views`, `envelope`)

It is off unless the operator lists apps (`settings`). What it creates are ordinary schedules and crons, so limits,
books, retries and signatures are the same, and whatever is made here can be looked at and changed by our own API. Calls
carry `Schedule-Id`, and those of crons `Parent-Schedule-Id`, beside our headers (`domain.wires`).

Kept: paths, those of GoScheduler's README included; methods; keys of JSON in any case; the envelope with its codes; 200
as the HTTP status of every success; Unix seconds; what a query means. Other on purpose: a schedule is called at its
second instead of up to a minute early; what is overdue is called and not missed; GET and HEAD are called without a
body; what would drop the connection there is answered 400. `docs/how-to/move-from-goscheduler.md` lists all of it.
"""
