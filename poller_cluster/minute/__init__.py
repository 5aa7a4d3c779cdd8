"""One poller's minute on its node: read, claimed, called, recorded, swept and settled.

Overview
--------
`machine` decides (pure, with `rows`, `partition`, `follow_ups` and `steps`) and `runner` carries out its steps.
`admission` says which rows may be claimed (`flow_admission`: of those with a flow key; `overdue_admission`: of overdue
ones), `ordering` which row of an ordering key is next (`order_ahead` reads what a new owner must know for that), and
`follow_up_runner` carries out the follow-ups of outcomes in other partitions. `context` is what a node's minutes
share, `limits` what bounds them together.

States
------
`machine` draws the phases of a minute and the states of a row, and lists the transitions.

Rules
-----
The docstring of `poller_cluster` has them, and says why each row is called by one owner at a time.

On failure
----------
Storage that gives no answer is asked again after a growing pause, with the same write where one is unanswered. A newer
epoch ends the run as LOST; an unhandled exception ends the run of that minute alone, and it is started again after
`pollers.FAULT_PAUSE_SECONDS`."""
