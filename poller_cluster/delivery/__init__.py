"""From a claimed schedule to what came of one attempt: headers, signature, network policy, libcurl, outcome.

    CallbackRequest --start_attempt--> [resolve, connect, TLS] --> request on the wire --> answer --> AttemptResult
          |                                 |         |                  |
      may_start?                      policy.judge  may_start?       may_start?
                                       may_start?  (fresh connections and kept ones alike)

One attempt is one HTTP request. The engine makes no decision about retries, limits or order: whoever starts an attempt
has claimed its row, and decides by the result what follows.

What holds:
- `on_done` is called exactly once for every attempt that was accepted, never from within `start_attempt`, also when the
  engine is stopped.
- `may_start` is asked when an attempt is handed in, whenever a socket is opened for it, and in the last instant before
  its request is written, on fresh and on kept connections alike. Where it answers False nothing is sent.
- `nothing_sent` is said only when the request was never begun: no byte of it can have reached a receiver. TLS early
  data is not used.
- The address is judged when the socket is opened, after DNS, so a name that changes its address gains nothing. Kept
  connections were judged when they were opened; the policy of an engine never changes.
- A final status (200 and above) decides. What breaks after it, while the rest of the answer is read, changes nothing:
  the receiver has answered. At most 64 KB of an answer are read, and 1 KiB is kept.

What does not hold: that a receiver is called at most once per attempt. When a kept connection breaks, libcurl repeats a
request that was under way on it, if not a byte had been answered, on a fresh one. Requests marked `at_most_once` are
not repeated: the attempt ends as `reset`, and something may have been sent.

HTTP/2 is used where a receiver offers it by ALPN: attempts are then streams of one connection, and what befalls one of
them, a reset, a time-out, an answer that is too long, trust lost before it was sent, leaves the others alone. A stream
that the receiver says it did not look at (REFUSED_STREAM, or above GOAWAY's last) is repeated on a fresh connection, 5
times at most, under the same rules as any repeat. The first attempts to a receiver open a connection each, for none
waits for another's: libcurl's PIPEWAIT would make that one connection (100 attempts: 0.04 instead of 0.23 s of CPU,
both ends together), but with a receiver that speaks HTTP/1.1 it holds all of them back until the first has its answer.

Nor that slow name servers delay only their own: look-ups run on libcurl's threads, 20 at most, and one of them is held
for as long as the system's resolver waits (the libcurl that comes with pycurl has no asynchronous resolver). A name
that was looked up is remembered (`dns_cache_seconds`; libcurl forgets the oldest beyond 30,000 names). What keeps one
tenant from holding all threads for long is the dispatcher: a name that is not resolved within the connect time-out
counts as a failure of its host, and the host's breaker then lets few attempts look it up. Many slow names at once
still delay the look-ups of names that nobody has used lately; names in the cache and kept connections never wait.

An engine that observes (`observed.py`) makes the same attempts and tells what there was to see: the headers as written
and as received, the addresses, the times of the steps. Its attempts keep no connection. API processes send samples
with one, see `poller_cluster.sample_calls`.

Failure: an engine that can't open sockets (file descriptors) ends attempts as `internal` with nothing sent. Errors of
libcurl are mapped in one table, `outcome.py`.

Cost: the loop's own readiness calls are avoided (`readiness.py`), a libcurl handle is reused with only what changed set
anew (`transfer.py`), there is one timer for all attempts.
"""
