"""From a claimed schedule to what came of one attempt: headers, signature, network policy, the request, its outcome.

    CallbackRequest --start_attempt--> [resolve, connect, TLS] --> request on the wire --> answer --> AttemptResult
          |                                 |         |                  |
      may_start?                      policy.judge  may_start?       may_start?
                                       may_start?  (fresh connections and kept ones alike)

One attempt is one HTTP request. The engine makes no decision about retries, limits or order: whoever starts an attempt
has claimed its row, and decides by the result what follows.

The rooms: `target` reads the URL and `request` writes the request; `naming` finds addresses; `connection` is a socket
on the loop, with `tls` between bytes and bytes; `answer` reads what comes; `pool` says which connection to use again,
`deadlines` what is due; `engine` lets them work together; `result.Verdict` names what went wrong. Of HTTP/2,
`http2.header_block` writes header blocks, `http2.session` is the protocol and `http2.stream` one request of it,
`http2.connection` is the socket, and `http2.attempts` decides which attempt goes on which. All but `naming`,
`connection`, `http2.connection`, `http2.attempts` and `engine` are pure.

What holds:
- `on_done` is called exactly once for every attempt that was accepted, never from within `start_attempt`, also when the
  engine is stopped.
- `may_start` is asked when an attempt is handed in, whenever a socket is opened for it, and in the last instant before
  its request is written, on fresh and on kept connections alike. Where it answers False nothing is sent.
- `nothing_sent` is said only when the request was never begun: no byte of it can have reached a receiver. TLS early
  data is not used.
- The address is judged when the socket is opened, after DNS, and it is what the socket is connected to, so a name that
  changes its address gains nothing. Kept connections were judged when they were opened; the policy of an engine never
  changes. They are used only for an address that the name has now.
- A final status (200 and above) decides. What breaks after it, while the rest of the answer is read, changes nothing:
  the receiver has answered. At most 64 KB of an answer's body are read, and 1 KiB is kept.
- A status is believed where its line is one: HTTP/1.0 or HTTP/1.1 and three digits; over HTTP/2, where it is three
  digits and comes first. Another one, and 101, end the attempt as `bad-response` at once; of all else below 200 there
  may be any number before the final status, over HTTP/2 64.
- Where an answer ends, only one reading is accepted: Content-Length twice or beside Transfer-Encoding, folded headers,
  lines without CR and the like end the answer, and the connection with it. So do bytes that come after the answer (line
  ends in the same segment excepted: they are skipped), and any byte on an idle connection: they are never taken for the
  answer to another request. Nor is a connection used again after an HTTP/1.0 answer with Transfer-Encoding.
- An answer is bounded as a whole, whatever HTTP makes of its bytes: `response_bytes` and `framing_bytes` together from
  the request on, as they come off the socket, and `answer_seconds` from its status to its end. Beyond that the
  connection is closed; the status decides, as where the body is too long, and without one the attempt ends as
  `bad-response`.
- A request is written at once, or as the receiver reads it, within the request's time-out; no more than the request
  itself is buffered, and 1 KB of what TLS has to say: where that gets more, the connection ends. A receiver may answer
  before it has read everything; its connection is not used again then.
- A header's name or value never holds a line break on the wire, whatever was stored: `request` refuses it, and names
  that belong to the framing.
- Connections are kept for each client, scheme, host, port and address on their own, bounded in number, idle time and
  age. While they are idle nothing of what came on them is held; over HTTP/2, a table of headers and a begun frame.

What does not hold: that a receiver is called at most once per attempt. When a kept connection breaks before a byte was
answered, the request is repeated once, on a fresh one. Requests marked `at_most_once` are repeated only where nothing
of them has left, or where the receiver says over HTTP/2 that it did not look at them; otherwise the attempt ends as
`reset`, and something may have been sent. Before they are written to a kept connection, the system is asked whether
that has ended or has bytes that nobody asked for; other requests are spared that call, so a byte that comes unasked in
the very turn of the loop in which a request is written is read as the beginning of its answer.

Where a name has several addresses, the families take turns, eight addresses of each at most; the next one is tried
beside the first after a quarter of a second, or at once where one failed. Two at a time at most: none is given up for
another within the time for connecting, so where two don't answer at all the rest are not tried.

HTTP/2 is spoken with receivers that choose `h2` in the TLS handshake, on the connection just made: requests are streams
of it, 100 at a time at most, fewer where the receiver admits fewer. Where all are full, going away or too old, another
connection is made, one at a time for each client and receiver. Others wait for it, for their own time for connecting at
most, which includes the wait for the receiver's first SETTINGS. They stop waiting when the receiver turns out to speak
HTTP/1.1.

    may_start? --HEADERS written--> answered | reset | timeout | too-long     this stream's alone
                     |------------> refused: REFUSED_STREAM, or above the last of GOAWAY; begun again, 5 times at most
                     `------------> the connection is lost, or broken: all its streams

- All requests of a turn of the loop are written at once: `may_start` is asked for each, and the write follows in the
  same turn. Nothing is written to a connection that has something unsent, or whose receiver reads so little that the
  system has no room for it.
- A stream that the receiver says it did not look at is begun again on a fresh connection, under `may_start`, also for
  `at_most_once` requests: it is the receiver's word that nothing was done. A connection lost is as over HTTP/1.1 for
  each of its streams; "kept" is one that had brought an answer before.
- Bounds are those of HTTP/1.1 for each stream, a frame counting as 256 bytes at least, headers fourfold, and each of
  them as 64 bytes more. What belongs to no answer (SETTINGS, PING, WINDOW_UPDATE, unknown frames) is bounded for the
  connection, idle or not: 64 KB, of which a request gives 2 KB back, and a piece of its body as much as it has, 2 KB at
  most. A WINDOW_UPDATE is spared a byte of its cost for each byte of a body that it gives back; settings that nobody
  knows are not kept. Headers are 32 KB at most, and unpacked 64 KB; streams of the receiver's own are not taken.
  Beyond that, and at any violation of the protocol, the connection is closed; those of its streams that have no status
  end as `bad-response`.
- What comes in one read is taken in by turns of the loop, 64 KB each by that measure, and nothing more is read
  meanwhile: 4 ms of CPU in most, 11 ms in the worst, which unpacks 32 KB of headers.
- Bodies are written as the receiver's windows admit, in turns. What the protocol makes us say to a receiver that reads
  nothing is bounded by 8 KB.
- A connection on which nothing came since a request was written that timed out is used for no other.

Names are looked up by c-ares on the loop (`resolver` decides who asks when and what is remembered, `resolver_cares`
asks). A client has a share of the look-ups under way, so names that nobody answers delay those of no other client: with
100 such names a second, another client's calls to names that are not remembered took 21 ms at p99. The time for a
look-up is part of the time for connecting; what is not resolved within that is a `timeout`, and no answer or no address
a `resolve-failed`. The names of hosts files and of search domains are found as the system finds them.

An engine that observes (`sight`) makes the same attempts and tells what there was to see: the headers as written and as
received, the addresses, the times of the steps. Its attempts keep no connection. API processes send trial calls with
one, see `poller_cluster.trial_calls`.

Failure: an engine that can't open sockets (file descriptors) ends attempts as `internal` with nothing sent. An error of
ours costs the attempt that was looked at (`internal`) or the connection over HTTP/2 that it came up on, is told to the
loop's exception handler, and stops no others. A bundle of authorities that can't be read lets `start` fail. TLS
sessions are not resumed: OpenSSL takes 116 us to hand one out and saves 217 us with it, and most fresh connections
follow no other within its life.

Cost (CPU us an attempt in this process, best of 18 runs of 2,000 attempts with ten headers and 200 bytes; beside it
when libcurl made the attempts, measured in turns on the same two cores while others worked on them):

                                    plain            TLS        HTTP/2
    kept, 20 at a time           15  (26)         16  (30)     74 (41)
    kept, 100 at a time          18  (34)         25  (46)     65 (35)
    a fresh connection each      72  (95)        699 (727)

HTTP/2 costs 1.8 to 1.9 times what libcurl took, for `h2` is written in Python. What it buys is one engine with one set
of bounds, and no connection that clients share.

There is no task, no future and no timer per attempt, and one system call each way at most on a kept connection.
"""
