"""Traces with real processes: from the `traceparent` of a create to the receiver's, and the spans at a collector."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from tests.support.cassandra import SuiteCassandra
from tests.support.otlp import collector
from tests.support.processes import Deployment, deployment

CLIENT = "shop"
TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=opaque"}


class Calls:
    """The headers of the calls that a receiver got, by lower-case name."""

    def __init__(self) -> None:
        self.url = ""
        self.headers: list[dict[str, str]] = []

    def of(self, schedule_id: str, *, seconds: float = 60.0) -> dict[str, str]:
        """Those of the one call of this schedule."""
        deadline = time.monotonic() + seconds
        while not (found := [one for one in self.headers if one["minutehand-schedule-id"] == schedule_id]):
            assert time.monotonic() < deadline, f"{schedule_id} did not come: {self.headers}"
            time.sleep(0.05)
        (headers,) = found
        return headers


@contextmanager
def receiver() -> Iterator[Calls]:
    """A receiver that answers 204."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            calls.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    calls = Calls()
    calls.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield calls
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def create(cluster: Deployment, key: str, url: str, *, trace: dict[str, str], **asked: object) -> str:
    callback = {"url": url, "json": {"order": 17}, **asked}
    answer = httpx.post(
        f"{cluster.api_url}/v1/clients/{CLIENT}/schedules",
        headers={"Authorization": f"Bearer {key}", **trace},
        json={"delay_seconds": 2, "callback": callback},
        timeout=60,
        trust_env=False,
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["schedule_id"])


def test_a_trace_goes_from_the_create_to_the_receiver(cassandra: SuiteCassandra, tmp_path: Path) -> None:
    with collector() as spans, receiver() as calls:
        trace: dict[str, Any] = {"endpoint": spans.url, "authorization": "Bearer of-the-collector"}
        with deployment(cassandra, tmp_path, tables={"trace": trace}) as cluster:
            cluster.start_api()
            cluster.start_node("one")
            key = cluster.register(CLIENT, poller_quota=1)
            traced = create(cluster, key, calls.url, trace=SAMPLED)
            unsampled = create(cluster, key, calls.url, trace={"traceparent": f"00-{TRACE}-{CALLER}-00"})
            malformed = create(cluster, key, calls.url, trace={"traceparent": f"00-{TRACE.upper()}-{CALLER}-01"})
            own = create(cluster, key, calls.url, trace=SAMPLED, headers={"Traceparent": "the-client's-own"})
            headers = calls.of(traced)

            made, wait, attempt = spans.await_spans(traced, "create", "wait", "attempt")
            assert {made.trace, wait.trace, attempt.trace} == {TRACE}
            assert [made.parent, wait.parent, attempt.parent] == [CALLER, made.span, made.span]
            assert wait.links == attempt.links == ((TRACE, made.span),)
            assert (made.service, wait.service, attempt.service) == ("minutehand-api",) + ("minutehand-node",) * 2
            assert (made.kind, wait.kind, attempt.kind) == ("server", "internal", "client")
            assert (made.state, attempt.state) == ("vendor=opaque",) * 2
            assert made.ended <= wait.began <= wait.ended == attempt.began <= attempt.ended
            assert (attempt.attributes["http.response.status_code"], attempt.failed) == (204, False)
            assert spans.headers[0]["authorization"] == "Bearer of-the-collector"

            assert headers["traceparent"] == f"00-{TRACE}-{attempt.span}-01"
            assert headers["tracestate"] == "vendor=opaque"
            assert calls.of(own)["traceparent"] == "the-client's-own"
            # Made last, so spans of the others would have come before.
            spans.await_spans(own, "create", "wait", "attempt")
            for one in (unsampled, malformed):
                assert "traceparent" not in calls.of(one)
                assert spans.await_spans(one) == []
