"""Notices with real processes: whatever is killed, each end of a schedule is told, signed, under an id of its own."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from minutehand.client import Callback, NewDestination, NewSubscription
from minutehand.webhooks import verify
from tests.support.cassandra import SuiteCassandra
from tests.support.processes import deployment

CLIENT = "shop"
SCHEDULES = 150
SECONDS = 30


class Book:
    """The receiver of calls (`/calls/200`, `/calls/410`), which are answered with that status, and of notices."""

    def __init__(self) -> None:
        self.notices: list[tuple[bytes, dict[str, str]]] = []
        self.refuse = 0
        """How many of the next notices are answered with 503."""

    @property
    def told(self) -> dict[str, set[str]]:
        """The types of events by schedule."""
        found: dict[str, set[str]] = {}
        for body, _ in self.notices:
            for event in json.loads(body)["events"]:
                found.setdefault(event["schedule_id"], set()).add(event["type"])
        return found


@contextmanager
def book() -> Iterator[tuple[str, Book]]:
    kept = Book()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status = 200
            if self.path.startswith("/calls/"):
                status = int(self.path.rpartition("/")[2])
            elif kept.refuse:
                kept.refuse -= 1
                status = 503
            else:
                kept.notices.append((body, {name.lower(): value for name, value in self.headers.items()}))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_every_end_is_told_through_kills_of_the_nodes(cassandra: SuiteCassandra, tmp_path: Path) -> None:
    with deployment(cassandra, tmp_path) as cluster, book() as (url, kept):
        cluster.start_api()
        for name in ("a", "b"):
            cluster.start_node(name)
        key = cluster.register(CLIENT, poller_quota=4)
        with cluster.admin() as admin, cluster.client(CLIENT, key) as client:
            managing = admin.client(CLIENT)
            secret = managing.signing_secrets.create().secret
            managing.destinations.put("book", NewDestination(url=f"{url}/notices"))
            managing.subscriptions.put("all", NewSubscription(destination="book"))
            time.sleep(5)  # until nodes know of it
            kept.refuse = 2
            asked = {
                client.schedules.create(
                    Callback(url=f"{url}/calls/{410 if number % 5 == 0 else 200}"),
                    delay_seconds=3 + SECONDS * number / SCHEDULES,
                ).schedule_id: "schedule.failed" if number % 5 == 0 else "schedule.delivered"
                for number in range(SCHEDULES)
            }
            cancelled = client.schedules.create(Callback(url=f"{url}/calls/200"), delay_seconds=86_400).schedule_id
            client.schedules.cancel(cancelled)
            time.sleep(10)
            cluster.programs["a"].kill()
            time.sleep(8)
            cluster.start_node("c")
            cluster.programs["b"].kill()
            deadline = time.monotonic() + 180
            wanted = asked | {cancelled: "schedule.cancelled"}
            while missing := {one for one, kind in wanted.items() if kind not in kept.told.get(one, set())}:
                assert time.monotonic() < deadline, f"{len(missing)} of {len(wanted)} ends were not told: {missing}"
                time.sleep(0.5)
    for body, headers in kept.notices:
        verify(body, headers, secret, tolerance_seconds=600)
        events = json.loads(body)["events"]
        assert 0 < len(events) <= 100
    told = Counter(event["id"] for body, _ in kept.notices for event in json.loads(body)["events"])
    assert len(told) == len(wanted), "a repeat has the same id"
