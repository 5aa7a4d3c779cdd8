"""Notices: a client's events are sent to a destination, as rows of the built-in client `$events`.

    event appended --> NoticeCollector: up to 100 events or 1 s for each subscription --> a row of `$events`, due now
                                                                                               |
    the row's owner claims it --> NoticeCalls: read the range, filter --> the dispatcher, as a call of the client's
                                                                                               |
    the row's minute records the outcome <-- delivered, failed, or retrying at an instant <----'

What becomes of an event is acknowledged (`minute.follow_up_runner`) only after the rows of all subscriptions that want
it are placed. An owner that dies before that leaves the event to its poller's next owner, who appends it again under a
higher epoch, and so in another row: each wanted event is sent at least once, under an id that derives from what it
tells. From then on the row is as durable as any other: claimed under an epoch, taken over, retried.

The call itself takes the client's own turn in the dispatcher, within its limits and those of its destination, and is
prepared, signed and judged as all its calls are, with two exceptions: it is repeated whatever the client's `in_doubt`
says, and no late policy skips it. The claimed rows count against the limits of `$events`, too, each client's against
those of a receiver of its own, so that a client whose destination hangs leaves room for the others' notices.

The rows of `$events` have no events, so notices never lead to notices.
"""
