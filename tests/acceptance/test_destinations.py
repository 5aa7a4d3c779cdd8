"""Callbacks that name a destination, with real processes: what the receiver sees, and that changes hold for what
waits."""

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from minutehand.client import Callback
from tests.support.cassandra import SuiteCassandra
from tests.support.certificates import Authority
from tests.support.processes import Deployment, deployment

CLIENT = "shop"


class Seen:
    """The requests that a receiver got: method, path, headers by lower-case name, and the name in the client's
    certificate."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str], str]] = []

    def await_count(self, count: int, *, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while len(self.requests) < count:
            assert time.monotonic() < deadline, f"{len(self.requests)} of {count} came: {self.requests}"
            time.sleep(0.05)


@contextmanager
def receiver(tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, Seen]]:
    """Its URL, and what it sees."""
    seen = Seen()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            subject = (
                self.connection.getpeercert().get("subject", ()) if isinstance(self.connection, ssl.SSLSocket) else ()
            )  # type: ignore[union-attr]
            name = next((value for part in subject for key, value in part if key == "commonName"), "")
            headers = {key.lower(): value for key, value in self.headers.items()}
            seen.requests.append((self.command, self.path, headers, str(name)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_PUT = do_POST

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def put(cluster: Deployment, name: str, verb: str = "", **document: Any) -> None:
    url = f"{cluster.api_url}/v1/clients/{CLIENT}/destinations/{name}{verb}"
    headers = {"Authorization": f"Bearer {cluster.admin_key}"}
    method = "POST" if verb else "PUT"
    asked = httpx.request(method, url, headers=headers, json=document or None, trust_env=False, timeout=30)
    assert asked.is_success, asked.text


def test_calls_are_made_as_their_destination_says_by_then(cassandra: SuiteCassandra, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    chain, key = authority.issue(tmp_path / "clients", name="shop-client", stem="client")
    asking = authority.server_context("127.0.0.1")
    asking.load_verify_locations(str(authority.bundle))
    asking.verify_mode = ssl.CERT_REQUIRED
    tables = {"delivery": {"ca_file": str(authority.bundle)}}
    with (
        deployment(cassandra, tmp_path, tables=tables) as cluster,
        receiver() as (plain, at_plain),
        receiver(asking) as (secured, at_secured),
    ):
        cluster.start_api()
        cluster.start_node("one")
        own = cluster.register(CLIENT, poller_quota=1)
        with cluster.client(CLIENT, own) as client:
            put(cluster, "crm", url=f"{plain}/hooks?v=1", method="PUT", headers={"X-Shared": "1", "X-Both": "theirs"})
            callback = Callback(destination="crm", path="/orders?id=17", headers={"x-both": "mine"})
            made = client.schedules.create(callback, delay_seconds=0.5)
            assert (made.callback.destination, made.callback.path) == ("crm", "/orders?id=17")
            at_plain.await_count(1)
            (method, path, headers, _) = at_plain.requests[0]
            assert (method, path) == ("PUT", "/hooks/orders?v=1&id=17")
            assert (headers["x-shared"], headers["x-both"]) == ("1", "mine")
            # What waits is called where the destination is by then, with the certificate that it has by then.
            client.schedules.create(callback, delay_seconds=8)
            certificate = {"chain": chain.read_text(), "key": key.read_text()}
            put(cluster, "crm", url=f"{secured}/moved", certificate=certificate)
            at_secured.await_count(1)
            (method, path, headers, name) = at_secured.requests[0]
            assert (method, path, name) == ("POST", "/moved/orders?id=17", "shop-client")
            assert "x-shared" not in headers
            # While it is paused, nothing is called; afterwards all of it is, at the next look.
            put(cluster, "crm", ":pause")
            time.sleep(3)
            waiting = [client.schedules.create(callback, delay_seconds=1) for _ in range(3)]
            time.sleep(5)
            found = [client.schedules.get(one.schedule_id) for one in waiting]
            assert [(one.state, one.reason, one.attempts) for one in found] == [
                ("retrying", "destination-paused", 0)
            ] * 3
            put(cluster, "crm", ":resume")
            at_secured.await_count(4, seconds=60)
            assert (len(at_plain.requests), len(at_secured.requests)) == (1, 4)
