"""Success deadlines with real processes: all nodes are killed over them, and one that is back tells."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from minutehand.client import Callback, NewDestination, NewSchedule, NewSubscription
from minutehand.webhooks import verify
from tests.support.cassandra import SuiteCassandra
from tests.support.processes import deployment

CLIENT = "shop"


class Book:
    """The receiver of calls (`/calls/200`, `/calls/503`), answered with that status, and of notices."""

    def __init__(self) -> None:
        self.notices: list[tuple[bytes, dict[str, str]]] = []

    @property
    def told(self) -> dict[str, dict[str, Any]]:
        """The data of the events by schedule."""
        return {event["schedule_id"]: event["data"] for body, _ in self.notices for event in json.loads(body)["events"]}


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


def test_what_is_overdue_is_told_although_all_nodes_were_killed(cassandra: SuiteCassandra, tmp_path: Path) -> None:
    with deployment(cassandra, tmp_path) as cluster, book() as (url, kept):
        cluster.start_api()
        cluster.start_node("a")
        key = cluster.register(CLIENT, poller_quota=2)
        with cluster.admin() as admin, cluster.client(CLIENT, key) as client:
            managing = admin.client(CLIENT)
            secret = managing.signing_secrets.create().secret
            managing.destinations.put("book", NewDestination(url=f"{url}/notices"))
            managing.subscriptions.put("late", NewSubscription(destination="book", events=["schedule.overdue"]))
            time.sleep(5)  # until the node knows of it
            down, well = Callback(url=f"{url}/calls/503"), Callback(url=f"{url}/calls/200")
            in_time = client.schedules.create(well, delay_seconds=2, succeed_within_seconds=3)
            cancelled = client.schedules.create(well, delay_seconds=30, succeed_within_seconds=5)
            client.schedules.cancel(cancelled.schedule_id)
            items = [
                NewSchedule(callback=down, delay_seconds=2 + number / 10, succeed_within_seconds=6)
                for number in range(10)
            ]
            asked = [item.schedule for item in client.schedules.create_batch(items) if item.schedule is not None]
            missed = {one.schedule_id for one in asked}
            missed.add(client.schedules.create(well, delay_seconds=14, succeed_within_seconds=1).schedule_id)
            time.sleep(6)
            cluster.programs["a"].kill()
            time.sleep(25)
            assert not kept.told
            cluster.start_node("b")
            until = time.monotonic() + 120
            while missed - kept.told.keys():
                assert time.monotonic() < until, f"not told: {missed - kept.told.keys()}"
                time.sleep(0.5)
            time.sleep(10)
            story = client.schedules.explain(asked[0].schedule_id)
        assert kept.told.keys() == missed
        assert in_time.succeed_by is not None
        assert "succeed-by" in {step.step for step in story.steps}
        for data in kept.told.values():
            assert data["told_late_seconds"] > 10
        assert {kept.told[one.schedule_id]["last_status"] for one in asked} == {503}
    for body, headers in kept.notices:
        verify(body, headers, secret, tolerance_seconds=600)
