"""The delivery engine: makes one HTTP attempt of a claimed schedule and reports its result.

Overview
--------
    CallbackRequest --start_attempt--> resolve --> connect --> TLS --> write the request --> answer --> AttemptResult
                          |                           |                      |
                      may_start?                policy.judge,            may_start?
                                                 may_start?      (fresh and kept connections)

One attempt is one HTTP request. The engine makes no decision about retries, limits or order: its caller has claimed the
row and decides what follows from the result.

Modules: `channel` says how connections are made beyond the URL, `client_contexts` has the TLS contexts of those with a
client certificate; `target` reads the URL and `request` writes the request; `naming` finds addresses; `connection` is a
socket on the loop, `tls` the TLS layer on bytes; `answer` parses responses; `pool` chooses which connection to reuse,
`deadlines` which attempts are due; `engine` coordinates them; `result.Verdict` names what went wrong. For HTTP/2,
`http2.header_block` encodes headers, `http2.session` is the protocol, `http2.stream` one request of it,
`http2.connection` the socket, and `http2.attempts` decides which attempt uses which connection. `token_fetcher` gets
bearer tokens of destinations with an engine of its own; `token_request` has its requests and reads their answers. All
but `client_contexts`, `naming`, `connection`, `http2.connection`, `http2.attempts`, `engine` and `token_fetcher` are
pure. `DeliveryEngine` draws the engine's states.

Rules
-----
1. `on_done` is called exactly once for every accepted attempt, never from within `start_attempt`, also when the engine
   is stopped.
2. `may_start` is asked when an attempt is handed in, whenever a socket is opened for it, and immediately before its
   request is written, on fresh and on kept connections alike. If it answers False nothing is sent.
3. `nothing_sent` is set only if the request was never begun: no byte of it can have reached a receiver. TLS early data
   is not used.
4. The address is judged when the socket is opened, after DNS, and the socket is connected to that same address, so DNS
   rebinding gains nothing. Kept connections were judged when they were opened, and the policy of an engine never
   changes. They are used only for an address that the name has now.
5. A final status (200 and above) decides. A fault after it, in the rest of the answer, changes nothing: the receiver
   has answered. At most 64 KB of an answer's body are read, and 1 KiB is kept.
6. A status is accepted only from a valid status line: HTTP/1.0 or HTTP/1.1 and three digits; over HTTP/2, from a
   `:status` that comes first and has three digits. Any other, and 101, ends the attempt as `bad-response` at once. Any
   number of other statuses below 200 may precede the final one, 64 over HTTP/2.
7. The end of an answer must be unambiguous: Content-Length twice or beside Transfer-Encoding, folded headers, lines
   without CR and the like end the answer and close the connection. So do bytes after the answer (except line ends in
   the same segment, which are skipped), and any byte on an idle connection: they are never taken for the answer to
   another request. A connection is not reused after an HTTP/1.0 answer with Transfer-Encoding.
8. An answer is bounded as a whole, whatever its bytes mean in HTTP: `response_bytes` and `framing_bytes` together from
   the request on, as read from the socket, and `answer_seconds` from its status to its end. Beyond that the connection
   is closed; the status decides, as for a body that is too long, and without one the attempt ends as `bad-response`.
9. A request is written at once, or as fast as the receiver reads it, within the request's time-out. Only the request
   itself is buffered, and 1 KB of TLS's own messages: beyond that the connection ends. A receiver may answer before it
   has read everything; its connection is not reused then.
10. A header's name or value never holds a line break on the wire, whatever was stored: `request` refuses it, and also
    names that belong to the framing.
11. Connections are kept separately for each client, scheme, host, port, address and channel, bounded in number, idle
    time and age. An idle connection holds nothing of past answers; over HTTP/2, a header table and an incomplete frame.

What is not guaranteed
----------------------
A receiver may be called twice by one attempt. When a kept connection breaks before any byte of an answer, the request
is repeated once, on a fresh one. Requests marked `at_most_once` are repeated only if nothing of them has left, or the
receiver says over HTTP/2 that it did not process them; otherwise the attempt ends as `reset`, and something may have
been sent. Before they are written to a kept connection, the system is asked whether it has ended or has unsolicited
bytes. Other requests are spared that call, so a byte that comes unsolicited in the very turn of the loop in which a
request is written is read as the beginning of its answer.

Names and addresses
-------------------
Names are looked up by c-ares on the loop (`resolver` schedules look-ups and caches, `resolver_cares` asks). A client
has a share of the look-ups under way, so names that no server answers delay no other client's: with 100 such names a
second, another client's calls to uncached names took 21 ms at p99. The time for a look-up is part of the time for
connecting; a name not resolved within that is a `timeout`, and no answer or no address a `resolve-failed`. Hosts files
and search domains apply as the system has them.

Of a name with several addresses, the families take turns, eight addresses of each at most. The next one is tried
beside the first after a quarter of a second, or at once if one failed. At most two are tried at a time, and neither is
given up for another within the time for connecting: if two don't answer at all the rest are not tried.

Channels
--------
A request may name a channel: a client certificate to present to the receiver, a forward proxy to go through, or both.
No connection, idle or shared over HTTP/2, serves a request of another channel, so no receiver takes one client
certificate for another and no proxy one set of credentials for another. Channels are compared by content. Contexts of
client certificates are bounded in number (`client_contexts`).

Only proxies that the network policy lists are used, at whatever address. A proxy resolves the receiver's name itself:
so the policy judges the text of the URL only (scheme, port, an address written out), and rule 4 holds for the proxy's
part of the way if the proxy itself refuses the addresses that callbacks may not reach. Through a proxy https is a
tunnel, so the proxy sees the receiver's name and no more; http it reads. A request that finds no tunnel ends as
`proxy-failed`, with nothing sent. What a proxy answers to a request over http can't be told from the receiver's answer.

HTTP/2
------
HTTP/2 is spoken with receivers that choose `h2` in the TLS handshake, on the connection just made: requests are its
streams, 100 at a time at most, fewer if the receiver admits fewer. If all connections are full, going away or too old,
another is made, one at a time for each client and receiver. Other attempts wait for it, for their own time for
connecting at most, which includes the wait for the receiver's first SETTINGS. They stop waiting when the receiver turns
out to speak HTTP/1.1.

    may_start? --HEADERS written--> answered | reset | timeout | too-long     concerns this stream only
                     |------------> refused: REFUSED_STREAM, or above the last id of GOAWAY; repeated, 5 times at most
                     `------------> the connection is lost, or broken: concerns all its streams

1. All requests of a turn of the loop are written at once: `may_start` is asked for each, and the write follows in the
   same turn. Nothing is written to a connection that has unsent bytes, or whose socket buffer is full because the
   receiver reads too little.
2. A stream that the receiver says it did not process is repeated on a fresh connection, under `may_start`, also for
   `at_most_once` requests: the receiver vouches that nothing was done. A lost connection is treated as over HTTP/1.1
   for each of its streams; it counts as kept if it had brought an answer before.
3. Each stream has the bounds of HTTP/1.1; a frame counts as 256 bytes at least, fourfold unless it is DATA, and each
   header as 64 bytes more. Frames that belong to no answer (SETTINGS, PING, WINDOW_UPDATE, unknown ones) are bounded
   for the connection, idle or not: 64 KB, of which a request gives 2 KB back, and a piece of its body its own size, 2
   KB at most. A WINDOW_UPDATE costs one byte less for each byte of a body that it gives back; unknown settings are not
   kept. Header blocks are 32 KB at most, and unpacked 64 KB; server push is refused. Beyond that, and at any violation
   of the protocol, the connection is closed; those of its streams that have no status end as `bad-response`.
4. Input of one read is processed over several turns of the loop, 64 KB each by that measure, and nothing more is read
   meanwhile: 4 ms of CPU in most, 11 ms in the worst, which unpacks 32 KB of headers.
5. Bodies are written as the receiver's windows admit, in turns. Frames that the protocol makes us send to a receiver
   that reads nothing are bounded by 8 KB.
6. If a request timed out and nothing was read since it was written, its connection is not used for another.

Observing
---------
An engine that observes (`sight`) makes the same attempts and also reports the headers as written and as received, the
addresses, and the times of the steps. Its attempts keep no connection. API processes send trial calls with one, see
`poller_cluster.trial_calls`.

On failure
----------
- An engine that can't open sockets (file descriptors) ends attempts as `internal` with nothing sent.
- A bug costs the attempt in hand (`internal`) or the HTTP/2 connection that it occurred on, is reported to the loop's
  exception handler, and stops no others.
- `start` fails if the bundle of authorities can't be read.

Cost
----
CPU us an attempt in this process, best of 18 runs of 2,000 attempts with ten headers and 200 bytes; in parentheses
with libcurl, measured in turns on the same two cores while others worked on them:

                                    plain            TLS        HTTP/2
    kept, 20 at a time           15  (26)      16   (30)       74 (41)
    kept, 100 at a time          18  (34)      25   (46)       65 (35)
    a fresh connection each      72  (95)     699  (727)

HTTP/2 costs 1.8 to 1.9 times what libcurl took, because `h2` is written in Python. In return there is one engine with
one set of bounds, and clients share no connection. There is no task, no future and no timer per attempt, and at most
one system call each way on a kept connection. TLS sessions are not resumed: OpenSSL takes 116 us to export one and
saves 217 us with it, and few fresh connections follow another within its lifetime.
"""
