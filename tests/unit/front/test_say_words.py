"""Receivers' words by `minutehand.webhooks`: what is sent, what is repeated, and what ends the work."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from minutehand.webhooks import AcknowledgementError, StaleWordError, ask_for_time, say_done, say_failed

TAKEN: dict[str, Any] = {"schedule_id": "x", "state": "awaiting", "deadline": None}


class Api:
    """Answers words by a list, and keeps what came."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self.came: list[dict[str, Any]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.headers["Content-Type"] == "application/json"
                api.came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                status, body = api.answers.pop(0)
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST

            def log_message(self, *_: object) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1/acknowledgements/abc"


@pytest.fixture
def api() -> Iterator[Api]:
    one = Api()
    thread = threading.Thread(target=one.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield one
    finally:
        one.server.shutdown()
        thread.join()
        one.server.server_close()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    paused: list[float] = []
    monkeypatch.setattr("minutehand.webhooks.time.sleep", paused.append)
    return paused


def test_each_word_is_said_as_the_api_takes_it(api: Api) -> None:
    api.answers = [(200, TAKEN), (200, TAKEN), (200, {**TAKEN, "deadline": "2027-03-01T10:00:00.907Z"}), (200, TAKEN)]
    say_done(api.url, {"rows": 3})
    say_failed(api.url, "no disk")
    assert ask_for_time(api.url, 900) == datetime(2027, 3, 1, 10, 0, 0, 907_000, tzinfo=UTC)
    assert ask_for_time(api.url) is None
    assert api.came == [
        {"result": "done", "data": {"rows": 3}},
        {"result": "failed", "reason": "no disk"},
        {"result": "extend", "within_seconds": 900},
        {"result": "extend"},
    ]


def test_a_word_is_repeated_until_it_is_taken(api: Api, pauses: list[float]) -> None:
    api.answers = [(425, {}), (503, {}), (200, TAKEN)]
    say_done(api.url)
    assert (len(api.came), pauses) == (3, [0.5, 1.0])


@pytest.mark.parametrize("status", [404, 409])
def test_a_stale_word_ends_the_work(api: Api, status: int) -> None:
    api.answers = [(status, {"type": "/problems/stale-attempt"})]
    with pytest.raises(StaleWordError, match="stale-attempt"):
        say_done(api.url)


@pytest.mark.parametrize("status", [302, 307, 422])
def test_what_the_api_refuses_is_not_repeated_or_sent_elsewhere(api: Api, status: int) -> None:
    api.answers = [(status, {})]
    with pytest.raises(AcknowledgementError, match=str(status)):
        say_done(api.url)
    assert len(api.came) == 1


def test_patience_ends(api: Api) -> None:
    api.answers = [(503, {})]
    with pytest.raises(AcknowledgementError, match="503"):
        say_done(api.url, patience_seconds=0.1)


def test_only_addresses_of_http_are_opened() -> None:
    with pytest.raises(ValueError, match="http"):
        say_done("file:///etc/passwd")
