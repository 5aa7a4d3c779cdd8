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
  the receiver has answered. At most 64 KB of an answer's body are read, and 1 KiB is kept.
- A status is believed where its line is one: HTTP/1.0, HTTP/1.1 or HTTP/2 and three digits. Another line, and 101, end
  the attempt as `bad-response` at once; of all else below 200 there may be any number before the final status.
- An answer is bounded as a whole, whatever HTTP makes of its bytes (`inflow`): `response_bytes` and `framing_bytes`
  together from the request on, and `answer_seconds` from its status to its end. Beyond that the connection is closed;
  the status decides, as where the body is too long, and without one the attempt ends as `bad-response`. The bounds are
  loose: two reads of the socket go uncounted, of 352 KiB at most each, and time is looked at once a second.

What does not hold: that a receiver is called at most once per attempt. When a kept connection breaks, libcurl repeats a
request that was under way on it, if not a byte had been answered, on a fresh one. Requests marked `at_most_once` are
not repeated: the attempt ends as `reset`, and something may have been sent.

HTTP/2 is used where a receiver offers it by ALPN: attempts are then streams of one connection, and what befalls one of
them, a reset, a time-out, an answer that is too long, trust lost before it was sent, leaves the others alone. A stream
that the receiver says it did not look at (REFUSED_STREAM, or above GOAWAY's last) is repeated on a fresh connection, 5
times at most, under the same rules as any repeat. The first attempts to a receiver open a connection each, for none
waits for another's: libcurl's PIPEWAIT would make that one connection (100 attempts: 0.04 instead of 0.23 s of CPU,
both ends together), but with a receiver that speaks HTTP/1.1 it holds all of them back until the first has its answer.

Names are looked up before libcurl is given an attempt (`naming`: `resolver` decides who asks when and what is
remembered, `resolver_cares` asks by c-ares on the loop). libcurl is told the addresses by an entry of a DNS cache that
is the handle's own, so it connects, falls back between IPv4 and IPv6 and repeats as with addresses it found itself. It
would look up other names on 20 threads that all attempts share, each held as long as the system's resolver waits; so it
is refused (`Transfer._may_resolve`), and a URL whose host it reads differently from `target` ends as `resolve-failed`.
A client has a share of the look-ups under way, so names that nobody answers delay those of no other client: with 100
such names a second, another client's calls to names that are not remembered took 21 ms at p99. The time for a look-up
is part of the time for connecting; what is not resolved within that is a `timeout` as before, and no answer or no
address a `resolve-failed`. The names of hosts files and of search domains are found as the system finds them.

An engine that observes (`observed.py`) makes the same attempts and tells what there was to see: the headers as written
and as received, the addresses, the times of the steps. Its attempts keep no connection. API processes send samples
with one, see `poller_cluster.sample_calls`.

Failure: an engine that can't open sockets (file descriptors) ends attempts as `internal` with nothing sent. Errors of
libcurl are mapped in one table, `outcome.py`.

Cost: the loop's own readiness calls are avoided (`readiness.py`), a libcurl handle is reused with only what changed set
anew (`transfer.py`), there is one timer for all attempts.
"""
