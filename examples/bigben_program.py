"""A program written for BigBen, by the README of BigBen alone: it knows nothing of the server that answers it.

    python3 examples/bigben_program.py http://127.0.0.1:8080          # BigBen's own port
    python3 examples/bigben_program.py http://127.0.0.1:8080/bigben   # here

It registers tenants over a receiver of its own, uses every call once, and ends with 1 if something is not as it was.
"""

import contextlib
import json
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_SECONDS = 90.0
MANY = 300
RUN = uuid.uuid4().hex[:8]
FULL, ONLY = f"TenantA/Program-{RUN}/EnvC", f"TenantB/Program-{RUN}/EnvC"


class Receiver(BaseHTTPRequestHandler):
    """Keeps what it gets: path, headers, body and when."""

    protocol_version = "HTTP/1.1"
    got: list[tuple[str, dict[str, str], str, datetime]] = []  # noqa: RUF012
    came = threading.Condition()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with self.came:
            self.got.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body, datetime.now(UTC)))
            self.came.notify_all()
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        return

    @classmethod
    def full(cls, event_id: str, count: int = 1) -> list[dict[str, Any]]:
        """Whole events of this id, once so many have come."""
        return cls._await(
            lambda: [
                one for path, _, text, _ in cls.got if path == "/full" and (one := json.loads(text))["id"] == event_id
            ],
            count,
        )

    @classmethod
    def only(cls, payload: str, count: int = 1) -> list[str]:
        return cls._await(lambda: [text for path, _, text, _ in cls.got if path == "/only" and text == payload], count)

    @classmethod
    def _await(cls, look: Any, count: int) -> list[Any]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        with cls.came:
            while len(found := look()) < count:
                expect(time.monotonic() < deadline, f"{count} calls, of which {len(found)} came")
                cls.came.wait(0.5)
        return list(found)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


class NotAsItWas(Exception):
    pass


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise NotAsItWas(what)


class BigBen:
    def __init__(self, base: str) -> None:
        self._base = base.rstrip("/")

    def send(self, method: str, path: str, body: object = None, **query: str) -> tuple[int, Any]:
        url = self._base + path + ("?" + urllib.parse.urlencode(query) if query else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data=data, method=method, headers={"Accept": "application/json"})
        if data is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def schedule(self, *events: dict[str, Any]) -> tuple[int, list[str | None], list[dict[str, Any]]]:
        status, answers = self.send("POST", "/events/schedule", list(events))
        expect(isinstance(answers, list), f"an answer for each event: {status} {answers}")
        return status, [one["eventStatus"] for one in answers], answers


def in_seconds(seconds: float) -> str:
    """As Java's `ZonedDateTime.now(UTC).plusSeconds(...).toString()`."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def event(event_id: str, seconds: float, *, tenant: str = FULL, **fields: Any) -> dict[str, Any]:
    return {"id": f"{event_id}-{RUN}", "eventTime": in_seconds(seconds), "tenant": tenant, **fields}


def run(bigben: BigBen, receiver: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while bigben.send("GET", "/ping")[0] != 200:
        expect(time.monotonic() < deadline, "no answer to /ping")
        time.sleep(0.5)
    headers = {"header1": "value1", "header2": "value2"}
    for tenant, path in ((FULL, "full"), (ONLY, "only")):
        config = {"tenant": tenant, "type": "HTTP", "props": {"url": f"{receiver}/{path}", "headers": headers}}
        status, tenants = bigben.send("POST", "/events/tenant/register", config)
        expect(
            (status, tenants[tenant]["props"]["url"]) == (200, f"{receiver}/{path}"), f"register: {status} {tenants}"
        )
    expect({FULL, ONLY} <= set(bigben.send("GET", "/events/tenants")[1]), "both tenants are listed")
    expect("Master" in bigben.send("GET", "/events/cluster")[1].values(), "the cluster has a master")
    print("tenants are registered")

    soon, moved, gone, far = event("soon", 4, payload="P"), event("moved", 3600), event("gone", 5), event("far", 6e6)
    status, statuses, made = bigben.schedule(soon, moved, gone, far)
    expect((status, statuses) == (200, ["ACCEPTED"] * 4), f"schedule: {status} {made}")
    status, statuses, _ = bigben.schedule({**moved, "eventTime": in_seconds(5), "payload": "moved"})
    expect((status, statuses) == (200, ["UPDATED"]), "an event is moved")
    status, statuses, _ = bigben.schedule({**gone, "mode": "REMOVE"})
    expect((status, statuses) == (200, ["DELETED"]), "an event is removed")
    expect(bigben.send("GET", "/events/find", id=gone["id"], tenant=FULL)[0] == 404, "a removed event is not found")
    status, found = bigben.send("GET", "/events/find", id=far["id"], tenant=FULL)
    expect((status, found["eventStatus"], found["payload"]) == (200, "UN_PROCESSED", None), f"find: {found}")
    status, found = bigben.send("POST", "/events/dryrun", id=far["id"], tenant=FULL)
    expect((status, found["eventStatus"]) == (200, "UN_PROCESSED"), f"dry run: {found}")
    status, statuses, _ = bigben.schedule(event("past", -3600, payload="late"), event("unknown", 60, tenant="nobody"))
    expect((status, statuses) == (206, ["TRIGGERED", "REJECTED"]), f"past and unknown: {status} {statuses}")
    payload = f"payload {RUN}"
    status, statuses, _ = bigben.schedule(event("only", 2, tenant=ONLY, payload=payload, deliveryOption="PAYLOAD_ONLY"))
    expect((status, statuses) == (200, ["ACCEPTED"]), "an event with nothing but its payload is accepted")
    expect(bigben.schedule(event("x", 60, deliveryOption="PAYLOAD_ONLY"))[:2] == (400, ["REJECTED"]), "it needs one")
    many = [event(f"many-{number}", 8, payload=str(number)) for number in range(MANY)]
    status, statuses, _ = bigben.schedule(*many)
    expect((status, statuses) == (200, ["ACCEPTED"] * MANY), "many events at once are accepted")
    print("events are put, moved, removed, found and tried out")

    (past,) = Receiver.full(f"past-{RUN}")
    expect((past["eventStatus"], past["payload"], past["eventId"]) == ("TRIGGERED", "late", None), f"past: {past}")
    (tried,) = Receiver.full(f"far-{RUN}")
    expect(tried["eventId"] == made[3]["eventId"], "the dry run is that of the event")
    (got,) = Receiver.full(f"soon-{RUN}")
    shape = {"id", "eventTime", "tenant", "mode", "payload", "eventId", "triggeredAt", "eventStatus", "error"}
    expect(got.keys() == shape | {"deliveryOption"}, f"the shape of an event: {sorted(got)}")
    expect((got["tenant"], got["payload"], got["eventTime"]) == (FULL, "P", soon["eventTime"]), f"event: {got}")
    expect(Receiver.full(f"moved-{RUN}")[0]["payload"] == "moved", "the moved event has its last payload")
    Receiver.only(payload)
    for number in range(MANY):
        Receiver.full(f"many-{number}-{RUN}")
    for path, sent, body, at in Receiver.got:
        expect((sent["header1"], sent["header2"]) == ("value1", "value2"), f"the tenant's headers at {path}")
        expect(sent["content-type"].partition(";")[0] == "application/json", f"the content type at {path}")
        if path == "/full" and (one := json.loads(body))["id"] not in (past["id"], tried["id"]):
            expect(at >= datetime.fromisoformat(one["eventTime"]), f"nothing is early: {one}")
    expect(not [body for _, _, body, _ in Receiver.got if f"gone-{RUN}" in body], "the removed event was not sent")
    status, found = bigben.send("GET", "/events/find", id=soon["id"], tenant=FULL)
    while found["eventStatus"] != "PROCESSED":
        expect(time.monotonic() < deadline + PATIENCE_SECONDS, f"the event is processed: {found}")
        time.sleep(0.5)
        status, found = bigben.send("GET", "/events/find", id=soon["id"], tenant=FULL)
    expect(bigben.schedule({**far, "mode": "REMOVE"})[1] == ["DELETED"], "the last event is removed")
    print(f"{len(Receiver.got)} calls came: all as it was")


def main(base: str) -> int:
    server = Server(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with contextlib.closing(server.socket):
        try:
            run(BigBen(base), f"http://127.0.0.1:{server.server_address[1]}")
        except NotAsItWas as wrong:
            print(f"not as it was: {wrong}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
