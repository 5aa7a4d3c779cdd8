"""Notices with real processes: whatever is killed, each end of a schedule is told, signed, under an id of its own."""

import json
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from minutehand.client import Callback, NewDestination, NewSubscription
from minutehand.client._sync.client_scope import ClientScope
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
    def own(self) -> dict[str, list[tuple[dict[str, Any], dict[str, str]]]]:
        """The notices of schedules' own, by schedule."""
        found: dict[str, list[tuple[dict[str, Any], dict[str, str]]]] = {}
        for body, headers in self.notices:
            if "on" in (read := json.loads(body)):
                found.setdefault(read["events"][0]["schedule_id"], []).append((read, headers))
        return found

    @property
    def told(self) -> dict[str, set[str]]:
        """The types of events by schedule."""
        found: dict[str, set[str]] = {}
        for body, _ in self.notices:
            if "subscription" in (read := json.loads(body)):
                for event in read["events"]:
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
            answer = b"as you like"
            self.send_response(status)
            self.send_header("X-Said", "so")
            self.send_header("Set-Cookie", "session=secret")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

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


def await_notices(client: ClientScope, url: str, kept: Book) -> None:
    """Return once the owners of all pollers know the subscription, as what they tell shows."""
    deadline = time.monotonic() + 60
    while True:
        probes = [client.schedules.create(Callback(url=f"{url}/calls/200"), delay_seconds=0) for _ in range(16)]
        asked = {one.schedule_id for one in probes}
        until = time.monotonic() + 6
        while not asked <= kept.told.keys() and time.monotonic() < until:
            time.sleep(0.1)
        if asked <= kept.told.keys():
            return
        assert time.monotonic() < deadline, "the nodes do not know the subscription"


def await_told(kept: Book, asked: Collection[str], *, part: float) -> None:
    """Return once this part of the schedules is told of."""
    deadline = time.monotonic() + 120
    while len(kept.told.keys() & set(asked)) < part * len(asked):
        assert time.monotonic() < deadline, "the ends are not told"
        time.sleep(0.1)


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
            await_notices(client, url, kept)
            kept.refuse = 2
            asked = {
                client.schedules.create(
                    Callback(url=f"{url}/calls/{410 if number % 5 == 0 else 200}"),
                    delay_seconds=3 + SECONDS * number / SCHEDULES,
                    on_success="book",
                    on_failure=f"{url}/notices",
                ).schedule_id: "schedule.failed" if number % 5 == 0 else "schedule.delivered"
                for number in range(SCHEDULES)
            }
            cancelled = client.schedules.create(Callback(url=f"{url}/calls/200"), delay_seconds=86_400).schedule_id
            client.schedules.cancel(cancelled)
            await_told(kept, asked, part=0.2)
            cluster.programs["a"].kill()
            await_told(kept, asked, part=0.4)
            cluster.start_node("c")
            cluster.programs["b"].kill()
            deadline = time.monotonic() + 180
            wanted = asked | {cancelled: "schedule.cancelled"}
            while missing := {one for one, kind in wanted.items() if kind not in kept.told.get(one, set())}:
                assert time.monotonic() < deadline, f"{len(missing)} of {len(wanted)} ends were not told: {missing}"
                time.sleep(0.5)
            while silent := asked.keys() - kept.own.keys():
                assert time.monotonic() < deadline, f"{len(silent)} receivers of their own were not told: {silent}"
                time.sleep(0.5)
    for body, headers in kept.notices:
        verify(body, headers, secret, tolerance_seconds=600)
        assert 0 < len(json.loads(body)["events"]) <= 100
    events = [event for body, _ in kept.notices for event in json.loads(body)["events"]]
    told = {event["id"] for event in events if event["schedule_id"] in wanted}
    assert len(told) == len(wanted), "a repeat has the same id"
    known = 0
    for schedule_id, told_by in kept.own.items():
        assert len({headers["webhook-id"] for _, headers in told_by}) == 1, "a repeat has the same id"
        for body, _ in told_by:
            failed = asked[schedule_id] == "schedule.failed"
            assert body["on"] == ("failure" if failed else "success")
            assert body["answer_known"] is (body["answer"] is not None)
            if body["answer_known"]:
                known += 1
                said = dict(body["answer"]["headers"])
                assert (body["answer"]["status"], said["X-Said"]) == (410 if failed else 200, "so")
                assert (body["answer"]["body"], "Set-Cookie" in said) == ("as you like", False)
    assert known >= len(asked) / 2
