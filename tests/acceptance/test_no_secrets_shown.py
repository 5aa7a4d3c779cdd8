"""Whole processes at their most verbose log no secret while callbacks fail in every way."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from minutehand.client import Callback, MinutehandApiError, Retry
from minutehand.local.machine import free_ports
from minutehand.processes.programs import Program
from tests.support.cassandra import SuiteCassandra
from tests.support.certificates import Authority
from tests.support.processes import Deployment, deployment

CANARY = "canary7f3a"
ERRORS = {"reset", "timeout", "tls-failed", "connect-refused", "resolve-failed", None}
"""The errors of the calls; None: an answer, which is 500."""
HEADERS = {"Authorization": f"Bearer {CANARY}-auth", "Cookie": f"s={CANARY}-cookie", "X-Api-Key": f"{CANARY}-key"}


class Echo(BaseHTTPRequestHandler):
    """Answers 500 with everything that it received."""

    def do_POST(self) -> None:
        said = str(self.headers).encode() + self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(500)
        self.send_header("Content-Length", str(len(said)))
        self.send_header("X-Echo", f"{CANARY}-of-the-receiver")
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the caller's refusal of the certificate."""


@contextmanager
def echo(directory: Path, *, tls: bool) -> Iterator[str]:
    """A receiver in this process; with `tls` one whose certificate is not trusted."""
    server = _Server(("127.0.0.1", 0), Echo)
    if tls:
        server.socket = Authority(directory).server_context("127.0.0.1").wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def talkative(cassandra: SuiteCassandra, tmp_path: Path) -> Iterator[Deployment]:
    with deployment(cassandra, tmp_path, tables={"logging": {"level": "debug"}}) as built:
        yield built


@pytest.fixture
def bad(tmp_path: Path) -> Iterator[str]:
    (port,) = free_ports(1)
    program = Program(
        "bad", ["--port", str(port)], log_file=tmp_path / "bad-receiver.txt", module="tests.support.bad_receiver"
    )
    program.await_ready(f"http://127.0.0.1:{port}/livez")
    yield f"http://127.0.0.1:{port}"
    program.stop(2.0)


def test_no_secret_is_in_what_processes_write(talkative: Deployment, bad: str, tmp_path: Path) -> None:
    talkative.start_api()
    talkative.start_node("one")
    with talkative.admin() as api:
        first = api.clients.register("shop", poller_quota=1).signing_secret
        assert first is not None
        signing = [first.secret, api.client("shop").signing_secrets.create().secret]
        key = api.client("shop").keys.create().key
    with echo(tmp_path, tls=False) as plain, echo(tmp_path, tls=True) as untrusted:
        (closed,) = free_ports(1)
        urls = [
            f"{bad}/reset", f"{bad}/hang", f"{bad.replace('http', 'https')}/?{CANARY}", f"{plain}/?{CANARY}",
            f"{untrusted}/?{CANARY}", f"http://127.0.0.1:{closed}/?{CANARY}", f"http://{CANARY}.invalid/?{CANARY}",
        ]  # fmt: skip
        assert failed_as(talkative, key, urls) == ERRORS
    garbage(talkative.api_port)
    garbage(talkative.ops_port("one"))
    shown = [metrics(talkative.api_port), metrics(talkative.ops_port("one"))]
    talkative.stop()
    files = {path.name: path.read_text() for path in tmp_path.glob("*.log")}
    assert any('"level": "info"' in text or '"level":"info"' in text for text in files.values()), "they do write"
    secrets = [CANARY, *signing, *(secret.removeprefix("whsec_") for secret in signing), key, key.split("_")[2]]
    secrets += [talkative.admin_key, talkative.token]
    for name, text in [*files.items(), *zip(("api", "node"), shown, strict=True)]:
        assert [secret for secret in secrets if secret in text] == [], name


def failed_as(cluster: Deployment, key: str, urls: list[str]) -> set[str | None]:
    """Call all of the URLs; returns the errors of their last attempts."""
    with cluster.client("shop", key) as client:
        ids = [
            client.schedules.create(
                Callback(url=url, headers=HEADERS, body=f"{CANARY}-body"),
                delay_seconds=0.5,
                retry=Retry(max_attempts=2, base_seconds=0.1),
                timeout_seconds=1.0,
                label=f"{CANARY}-label",
            ).schedule_id
            for url in urls
        ]
        with pytest.raises(MinutehandApiError) as caught:
            client.schedules.create(Callback(url=f"https://user:{CANARY}@a.example/", headers=HEADERS), delay_seconds=1)
        assert CANARY not in str(caught.value)
        deadline = time.monotonic() + 60
        while any((found := client.schedules.get(id_)).state != "failed" for id_ in ids):
            assert time.monotonic() < deadline, found
            time.sleep(0.5)
        return {client.schedules.get(id_).last_error for id_ in ids}


def garbage(port: int) -> None:
    """Send malformed requests, wrong keys and wrong tokens."""
    url = f"http://127.0.0.1:{port}"
    for path in ("/hints", "/drain", "/v1/clients"):
        httpx.post(f"{url}{path}?a={CANARY}", headers=HEADERS, content=CANARY, trust_env=False, timeout=30)
    for data in (
        f"GET /{CANARY} HTTP/9.9\r\n\r\n",
        f"{CANARY}\r\n\r\n",
        f"GET / HTTP/1.1\r\nAuthorization: {CANARY}\0\r\n\r\n",
        f"GET / HTTP/1.1\r\nAuthorization : {CANARY}\r\n\r\n",
        f"POST /hints HTTP/1.1\r\nHost: x\r\nContent-Length: {CANARY}\r\n\r\n",
        f"POST /hints HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{CANARY}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: {CANARY * 4000}\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(data.encode())
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass


def metrics(port: int) -> str:
    return httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=30).raise_for_status().text
