"""Each sample of the SDK sends what the sample of curl sends."""

import json
import shlex
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from minutehand import client as sdk
from minutehand.client import Minutehand
from scheduler_service.api.openapi.examples import EXAMPLES
from scheduler_service.api.openapi.samples import SDK, curl_line, python_line, typescript_line
from tests.support.sample_requests import BY_ID, GIVEN_BY_THE_SDK, asked

WITHOUT = {"acknowledge", "get_docs", "get_llms", "get_openapi", "get_problem", "livez", "metrics"}


def test_every_operation_has_one_or_a_reason_not_to() -> None:
    assert BY_ID.keys() - SDK.keys() == WITHOUT
    assert SDK.keys() <= BY_ID.keys()


@pytest.mark.parametrize("id_", sorted(SDK))
def test_both_send_the_same(id_: str) -> None:
    route = BY_ID[id_]
    parts, path, body = asked(route)
    line = python_line(id_, path=parts, query=EXAMPLES[id_].query, body=body)
    assert line is not None
    sent: list[httpx.Request] = []

    def record(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        problem = {
            "type": "/problems/conflict",
            "title": "recorded",
            "status": 409,
            "detail": "recorded",
            "request_id": "1",
        }
        return httpx.Response(409, json=problem, headers={"Content-Type": "application/problem+json"})

    api = Minutehand("http://api.example", "the-key", transport=httpx.MockTransport(record), retries=0)
    with api, pytest.raises(sdk.MinutehandApiError, match="recorded"):
        eval(line, {**vars(sdk), "api": api})
    curl = shlex.split(curl_line(route.method, path, body=body).replace("\\\n", ""))
    url = urlsplit(next(word for word in curl if word.startswith("$API")).removeprefix("$API"))
    [request] = sent
    assert (request.method, request.url.path) == (route.method, url.path)
    wanted = {name: value for name, value in parse_qsl(url.query) if name not in GIVEN_BY_THE_SDK}
    given = {name: value for name, value in request.url.params.items() if name not in GIVEN_BY_THE_SDK}
    assert {name: value for name, value in given.items() if name in wanted or value not in ("0", "false")} == {
        name: value for name, value in wanted.items() if value not in ("false",)
    }
    assert (json.loads(request.content) if request.content else None) == body


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("50", "50"),
        ("0", "0"),
        ("9" * 15, "9" * 15),
        ("9" * 16, f"'{'9' * 16}'"),
        ("007", "'007'"),
        ("²", "'²'"),
        ("٣", "'٣'"),
        ("9" * 5000, f"'{'9' * 5000}'"),
    ],
)
def test_digits_that_are_no_number_stay_a_text(text: str, value: str) -> None:
    line = python_line("list_schedules", path={"client_id": "shop"}, query={"label": text})
    assert line == f"list(api.client('shop').schedules.list(label={value}))"


def test_a_line_of_typescript_is_a_literal_of_what_is_sent() -> None:
    path = {"client_id": 'a "b"', "schedule_key": "cart/17"}
    body = {"callback": {"url": "https://a.example/", "json": {"x-y": [1, None, True], "ö": "\n"}}, "delay_seconds": 90}
    line = typescript_line("put_schedule", path=path, query={}, body=body)
    assert line == (
        r'await api.client("a \"b\"").schedules.put("cart/17", '
        r'{ url: "https://a.example/", json: { "x-y": [1, null, true], "ö": "\n" } }, '
        "{ delay_seconds: 90 })"
    )


def test_a_long_object_of_typescript_is_broken() -> None:
    query = {"from": "2026-11-21T09:00:00Z", "limit": "2", "host": "a-receiver-with-a-long-name.example", "once": "1"}
    line = typescript_line("list_dead_letters", path={"client_id": "shop"}, query=query)
    assert line == (
        'await api.client("shop").deadLetters.list({\n  from: "2026-11-21T09:00:00Z",\n  limit: 2,\n'
        '  host: "a-receiver-with-a-long-name.example",\n}).all()'
    )


def test_what_the_sdk_alone_knows_is_beside_the_query() -> None:
    line = typescript_line("list_events", path={"client_id": "shop"}, query={"wait_seconds": "30"})
    assert line == 'await api.client("shop").events({ follow: false }).all()'
    assert typescript_line("metrics", path={}, query={}) is None
