"""Targets: calls that go elsewhere than to a URL. The port that another way of delivery implements.

Overview
--------
                                   +--no target--> DeliveryEngine (HTTP)
    dispatcher --CallbackRequest--> Deliveries
                                   `--target-----> Target of that kind --TargetEnd--> AttemptResult

A destination of another kind than http has a target (`scheduler_service.domain.targets`). Its calls are prepared like
all others: with the client's headers, ours (id, due, attempt, fence) and the signature, the body as it is. Retries,
late policy, limits, breaker, dead letters, figures and metrics are those of every call, because the dispatcher gets an
`AttemptResult` from `Deliveries` as from the HTTP engine; both are an `Engine`, the port that the dispatcher sees.

`port` has the interfaces, `ends` the classes of ends, `kinds` finds the kinds by the operator's settings and the entry
points of the group minutehand.targets, and `deliveries` routes calls and holds targets to their promises.

What `Deliveries` does for every target
---------------------------------------
1. `may_start` is asked before a call is handed to a target; False ends it as `not-trusted` with nothing sent. A target
   that keeps calls back, in batches for instance, asks again before it sends them.
2. `on_done` is called exactly once, never from within `start_attempt`: a second end of the same call is dropped, and
   one that comes from within `send` is reported in the next turn of the loop.
3. Time is bounded: a call that has no end within its time-out ends as `timeout`. It may have been sent, and may still
   be; an end that comes later is dropped.
4. All kinds share the bound on attempts under way (`Engine.capacity`). A call that timed out counts against its
   target's own bound until the target has ended it; beyond that, calls end as `unavailable` with nothing sent.
5. An exception in `send` ends the call as `unavailable`, perhaps sent, and is reported to the loop's exception handler.
6. `stop` lets calls end for the grace, then stops the targets, for a bounded time, and ends the rest as `stopped`, in
   doubt.

What a target promises
----------------------
See `port.Target`. In short: it ends every call in one of the classes of `ends.End`, says `nothing_sent` only where no
byte of the call can have taken effect, holds bounded memory, and never blocks the loop.

Classes of ends
---------------
    End          error          retried  breaker  meaning
    DONE         none           -        closes   the target has the call durably: the schedule is delivered
    REFUSED      rejected       no       -        refused for good: the same call would be refused again
    UNAVAILABLE  unavailable    yes      counts   the target is away, or does not take calls now
    TIMED_OUT    timeout        yes      counts   no end in time; it may have been sent
    NOT_SENT     internal       yes      -        a failure of this process; nothing was sent
    WITHDRAWN    not-trusted    at once  -        this node lost its right to act before anything was sent
    STOPPED      stopped        in doubt -        the target was stopped meanwhile

The error and the sentence of the end are recorded with a failed attempt, and its client reads both.

What is not guaranteed
----------------------
A call may take effect after its lease was lost, within its time-out at most plus what its target says of itself. Its
headers carry the fence, by which a consumer tells a stale caller, as a receiver does.
"""
