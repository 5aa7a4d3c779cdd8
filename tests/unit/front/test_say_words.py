"""Receivers' words by `minutehand.webhooks`: what is sent, what is repeated, and what ends the work."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from minutehand.webhooks import AcknowledgementError, StaleWordError, ask_for_time, say_done, say_failed
from tests.support.recording_receiver import Answer, RecordingReceiver, Request, listening

TAKEN: dict[str, Any] = {"schedule_id": "x", "state": "awaiting", "deadline": None}


class Api(RecordingReceiver):
    """Answers words by a list, and keeps what came."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self.came: list[dict[str, Any]] = []

    def answer(self, request: Request) -> Answer:
        assert request.headers["content-type"] == "application/json"
        self.came.append(json.loads(request.body))
        status, body = self.answers.pop(0)
        return Answer(status, json.dumps(body).encode(), (("Location", "/elsewhere"),))


@pytest.fixture
def api() -> Iterator[Api]:
    with listening(Api(), "/v1/acknowledgements/abc") as one:
        yield one


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
