"""From a claimed row to its outcome: when each attempt starts, and what its result means.

`dispatcher` starts attempts when they are due, fairly between clients; `ready_rows` holds them until then.
`receivers` limits the calls to each receiver's host, `flows` those of each flow key. `preparation` makes a row's HTTP
request (`request`, `cloudevents`), with a bearer token from `tokens` if its destination wants one;
`poller_cluster.delivery` sends it, and `outcome` derives the row's outcome from the answer. `due_clock` decides when a
row is due, `named_rows` what becomes of it while its destination can't be called.
"""
