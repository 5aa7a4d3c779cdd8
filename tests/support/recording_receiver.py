"""A receiver in the test's own process: a threading HTTP server that keeps each request and answers as it is told."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar


@dataclass(frozen=True, slots=True)
class Request:
    """One as it came; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    after_seconds: float = 0.0


class RecordingReceiver:
    """`url` is set once it listens. Subclasses say what it answers."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[Request] = []

    def answer(self, request: Request) -> Answer:
        """Called by several threads, after the request was kept."""
        raise NotImplementedError

    def of(self, schedule_id: str) -> list[Request]:
        """The calls of this schedule."""
        return [one for one in self.received if one.headers["webhook-id"] == schedule_id]

    def awaited(self, schedule_id: str, count: int, *, seconds: float) -> Request:
        """The last of `count` calls of this schedule."""
        deadline = time.monotonic() + seconds
        while len(found := self.of(schedule_id)) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} calls of {schedule_id} came"
            time.sleep(0.05)
        return found[count - 1]


class Book(RecordingReceiver):
    """The receiver of calls (`/calls/503`), which are answered with that status, and of notices, by any other path."""

    def __init__(self) -> None:
        super().__init__()
        self.notices: list[Request] = []

    def answer(self, request: Request) -> Answer:
        if request.path.startswith("/calls/"):
            return Answer(int(request.path.rpartition("/")[2]))
        self.notices.append(request)
        return Answer(200)


Kind = TypeVar("Kind", bound=RecordingReceiver)


@contextmanager
def listening(receiver: Kind, path: str = "") -> Iterator[Kind]:
    """The receiver listens at a free port of 127.0.0.1; its URL ends in this path."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            receiver.received.append(request)
            answer = receiver.answer(request)
            over.wait(answer.after_seconds)
            with suppress(OSError):  # Its caller may be dead.
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                if answer.status != 204:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}{path}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()
