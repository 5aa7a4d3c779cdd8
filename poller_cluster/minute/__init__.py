"""One poller's minute on its node: read, claimed, called, recorded, swept and settled.

`machine` decides (pure, with `rows`, `partition`, `follow_ups` and `steps`) and `runner` carries its steps out.
`admission` says which rows may be claimed, `ordering` whose turn it is among rows of one key (`order_ahead` reads what
a new owner has to know of that), and `payments` places and carries what outcomes owe other partitions. The docstring of
`poller_cluster` says why each row is called by one owner at a time."""
