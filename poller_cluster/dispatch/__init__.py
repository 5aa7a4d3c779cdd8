"""From a claimed row to its outcome: when each attempt starts, and what its result means.

`dispatcher` starts attempts when they are due, fairly between clients; `ready_rows` holds them until then.
`receivers` limits the calls to each receiver's host, `flows` those of each flow key. `request` prepares the HTTP
request that `poller_cluster.delivery` makes, and `outcome` derives the row's outcome from the answer. `due_clock`
decides when a row is due.
"""
