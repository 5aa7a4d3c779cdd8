"""A server for tests, in one process and in memory, whose time can be moved: `minutehand dev`.

# Overview

    your test ──▶ server ──▶ world: API and console ─▶ in-memory tables ◀─ node ─▶ engine ─▶ your receivers,
                    │                 (real waits)                      (virtual clock)      or those in place
                    └── /dev/clock:advance ─▶ travel ─▶ virtual clock

API, node, stores and delivery are those of production over `cql.memory`, wired as for processes of their own; only the
clock, the loop and what surrounds the engine are of this package. So a retry, a cron over a change of clocks or a late
policy behaves here as it does there.

There are two kinds of time, kept apart by the clock that a part is given:

    virtual   all that schedules: dues, retries, crons, deadlines, the wall time that the API shows
    real      all that has input and output: time-outs of calls and requests, rate limits, waits of event readers

# States

    frozen ──:follow──▶ following        frozen: the clock stands; requests and calls under way still end
       ◀──:freeze────── (real time)      advance, advance-to, run-until-idle move it on from either, and return to it

# Rules

1. The clock is moved from stop to stop: to the next timer of work under way, or to when a minute that has rows is
   entered or swept. `occupied_minutes` has an entry before a row is acknowledged, so no row is leapt over.
2. It moves only when nothing can run any more and no call is under way. A receiver's answer is awaited in real time, at
   most for the call's time-out; so calls are made in the order of their dues, and a result is stored before anything
   later begins.
3. Minutes without rows are passed without a read. Tasks that only look run when an act begins, and at stops: so a
   change of a client or of a destination is known to the node before the next call.
4. A call to `/dev/receiver/{name}` is answered in the engine, without a socket: by what was planned, else 204. It takes
   no virtual time.
5. A reset or a load ends the node and begins another world with other tables; callers' connections stay.

# What is not guaranteed

- Anything after the process ends: nothing is kept. It is no server for production.
- Fairness, lateness and limits in real seconds: all calls of one instant start at that instant, as far as the quotas
  let them.
- That a call due now is made while the clock stands: advance by a second.
- More than one node: leases, take-overs and faults of storage are simulated by this project's own tests, not here.
- Work by period, such as retention, as often as in production: it runs at stops only.
"""
