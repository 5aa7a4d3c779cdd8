"""From a claimed row to its outcome: when each attempt starts, and what came of it.

`dispatcher` starts attempts at their due, fairly between clients; `ready_rows` holds them until then. `destinations`
bounds what one receiver's host gets, `request` prepares the HTTP request that `poller_cluster.delivery` makes, and
`outcome` says what the answer means for the row. `due_clock` is the clock by which all of that is due.
"""
