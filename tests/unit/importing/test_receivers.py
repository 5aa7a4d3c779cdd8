"""Where the calls of an import go, and when one that waits is the same."""

from typing import Any

import pytest

from minutehand.importing.entries import Entry
from minutehand.importing.receivers import NoReceiver, Receiver, call_shown, is_same_call


def entry(**fields: Any) -> Entry:
    values: dict[str, Any] = {
        "place": "line 1",
        "name": "a b/c",
        "written": "x",
        "timezone": "UTC",
        "payload": {"a": 1},
    }
    return Entry(**{**values, **fields})


@pytest.mark.parametrize(
    ("receiver", "fields", "expected"),
    [
        (Receiver(url="https://x.example/{name}?{id}"), {},
         {"url": "https://x.example/a%20b%2Fc?own", "json": {"a": 1}}),
        (Receiver(), {"url": "https://y.example/"}, {"url": "https://y.example/", "json": {"a": 1}}),
        (Receiver(url="https://x.example/"), {"url": "https://y.example/", "body": ""},
         {"url": "https://x.example/", "body": ""}),
        (Receiver(destination="jobs", path="/{id}"), {"method": "PUT", "headers": {"X": "1"}, "payload": {}},
         {"destination": "jobs", "path": "/own", "method": "PUT", "headers": {"X": "1"}}),
    ],
)  # fmt: skip
def test_what_is_called(receiver: Receiver, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    receiver.check()
    assert receiver.callback(entry(**fields), "own") == expected


def test_without_a_receiver_there_is_no_call() -> None:
    with pytest.raises(NoReceiver, match="nothing says"):
        Receiver().callback(entry(), "own")
    for template in (
        "https://x.example/{job}",
        "https://x.example/{",
        "https://x.example/{}",
        "https://x.example/{name:d}",
    ):
        with pytest.raises(NoReceiver):
            Receiver(url=template).check()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://x.example/run/a", "https://x.example/run/a"),
        ("https://u:p@x.example:8443/run/a/?n=1", "https://***@x.example:8443/run/a/***?n=1"),
        ("https://hooks.example/services/T0/B0/hidden", "https://hooks.example/services/T0/***"),
        ("https://x.example/run;token=hidden;v=1/a", "https://x.example/run;token=***;v=1/a"),
        (
            "https://x.example/?a=1;token=hidden;b=2&api%5Fkey=hidden",
            "https://x.example/?a=1;token=***;b=2&api%5Fkey=***",
        ),
        ("https://x.example/a#access_token=hidden", "https://x.example/a#***"),
        ("https://u:hidden@[::1/a", "***"),
        ("u:hidden@x.example/a", "***"),
    ],
)
def test_a_person_is_shown_where_calls_go_without_secrets(url: str, shown: str) -> None:
    assert call_shown({"url": url})["url"] == shown
    path = "/" + url.partition("example/")[2]
    if "example/" in url and "@" not in url:
        assert call_shown({"destination": "jobs", "path": path})["path"] == "/" + shown.partition("example/")[2]


SHOWN = {"url": "https://x.example/", "destination": None, "path": None, "method": "POST",
         "headers": {"content-type": "application/json", "authorization": "***"}, "body": '{"a":1}'}  # fmt: skip
ASKED = {"url": "https://x.example/", "headers": {"Authorization": "Bearer x"}, "json": {"a": 1}}


def test_a_call_that_is_shown_as_it_is_asked_for_is_the_same() -> None:
    assert is_same_call(ASKED, SHOWN)
    named = {"destination": "jobs", "path": "/x", "body": "b"}
    assert is_same_call(
        named, {"destination": "jobs", "path": "/x", "url": "", "method": "", "headers": None, "body": "b"}
    )


@pytest.mark.parametrize(
    "change",
    [
        {"url": "https://y.example/"},
        {"method": "PUT"},
        {"headers": {"content-type": "application/json"}},
        {"headers": {**SHOWN["headers"], "x": "1"}},  # type: ignore[dict-item]
        {"body": '{"a":2}'},
        {"body": None},
        {"destination": "jobs"},
    ],
)
def test_a_call_that_differs_is_another(change: dict[str, Any]) -> None:
    assert not is_same_call(ASKED, {**SHOWN, **change})
