"""No log line, refusal, series or document of the API contains a secret; every route is sent some, in valid and invalid
requests.
"""

import asyncio
import base64
import logging
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import structlog

from cql.memory.connection import InMemoryConnection
from membership.errors import StoreUnavailable
from scheduler_service.api.http.query import PATH_PARTS
from scheduler_service.api.http.route import operation_id
from scheduler_service.api.openapi.examples import EXAMPLES
from scheduler_service.api.resources import ROUTES
from tests.support.api import ADMIN_KEY, ApiHarness, Reply
from tests.support.api_story import Story

CANARY = "canary7f3a"
NAMES = [operation_id(route) for route in ROUTES]
SHOWS_ONCE = {"create_key", "create_secret", "create_admin_key"}
HEADERS = {"authorization": f"Bearer {CANARY}", "cookie": CANARY, "x-api-key": CANARY}
NO_PLACE_FOR_SECRETS = {"timezone", "name"}
"""The refusal of a time zone quotes its name, and an administrator's name is on every line about its actions."""
BEFORE = ("put_client", "create_schedule", "put_cron", "put_destination", "create_key", "create_secret")


class Broken(InMemoryConnection):
    """A store that fails with an unhandled exception once a test says so."""

    failure: Exception | None = None

    async def select(self, *arguments: Any, **named: Any) -> list[tuple[Any, ...]]:
        if self.failure is not None and not str(arguments[0]).startswith(("clients.", "api_keys.", "catalog.")):
            raise self.failure
        return await super().select(*arguments, **named)


class Said:
    """Everything that any logger writes, at any level, with tracebacks, before masking."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.structured: list[Any] = []

    @property
    def text(self) -> str:
        told = [f"{entry} {_trace(entry.get('exc_info'))}" for entry in self.structured]
        return "\n".join([*self.lines, *told])


def _trace(error: Any) -> str:
    return "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""


@pytest.fixture
def said() -> Iterator[Said]:
    said = Said()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.lines.append(self.format(record))

    root, handler = logging.getLogger(), Handler(logging.DEBUG)
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    before = [(one, one.level, one.disabled) for one in (root, *loggers)]
    root.addHandler(handler)
    for one, _, _ in before:
        one.setLevel(logging.DEBUG)
        one.disabled = False
    try:
        with structlog.testing.capture_logs() as structured, warnings.catch_warnings(record=True) as warned:
            said.structured = structured
            yield said
            said.lines += [str(one.message) for one in warned]
    finally:
        root.removeHandler(handler)
        for one, level, disabled in before:
            one.setLevel(level)
            one.disabled = disabled


def poisoned(value: Any) -> Any:
    """The same request with secrets wherever callbacks carry some."""
    if isinstance(value, list):
        return [poisoned(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: poisoned(one) for name, one in value.items()}
    if "url" in found:
        found |= {"url": f"https://a.example/hook?token={CANARY}", "headers": HEADERS}
        if found.get("method", "POST") == "POST" and "token" not in found:
            found["body"] = CANARY
    if "client_secret" in found:
        found["client_secret"] = CANARY
    return found


def wrong(value: Any) -> list[Any]:
    """Requests that are refused, with secrets in their faults."""
    bad = {"url": f"https://user:{CANARY}@a.example/", "method": CANARY, "headers": {"authorization": f"{CANARY}\n"}}
    names = value.keys() - NO_PLACE_FOR_SECRETS if isinstance(value, dict) else set()
    typed, texts = {name: {"a": CANARY} for name in names}, dict.fromkeys(names, CANARY)
    return [typed, texts, {**texts, "callback": bad, "due": CANARY, "body_base64": CANARY}, [CANARY], CANARY]


@pytest.mark.parametrize("id_", NAMES)
async def test_no_secret_is_written(said: Said, id_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    route = next(route for route in ROUTES if operation_id(route) == id_)
    connection = Broken()
    async with ApiHarness(connection=connection) as api:
        await api.add_built_in_clients()
        secrets = [CANARY, ADMIN_KEY]
        story = Story(api)
        for one in (*BEFORE, id_):
            example = EXAMPLES[one]
            monkeypatch.setitem(EXAMPLES, one, replace(example, request=poisoned(example.request)))
            reply = await story.try_(one)
            assert reply.status < 500
            made = reply.json if reply.status == 201 and one in SHOWS_ONCE else {}
            shown = [text for name in ("key", "secret") if isinstance(text := made.get(name), str)]
            secrets += [text for text in shown if not text.startswith("whpk_")]
            pairs = [row for row in connection.rows("signing_secrets") if row["public_key"] is not None]
            secrets += [base64.b64encode(row["secret"]).decode() for row in pairs if row["secret"]]
            if one == id_ and id_ not in SHOWS_ONCE:
                hidden = [secret for secret in secrets[1:] if secret in reply.body.decode()]
                assert hidden == []
                assert reply.status < 400 or CANARY not in reply.body.decode()
                assert f"Bearer {CANARY}" not in reply.body.decode(), "stored secrets are masked"
        path = route.path
        for name in PATH_PARTS:
            path = path.replace(f"{{{name}}}", story.names[name])
        refusals = await refused(api, route.method, path, EXAMPLES[id_].request)
        for failure in (RuntimeError("unhandled"), StoreUnavailable(f"a driver's text: {CANARY}-of-storage")):
            connection.failure = failure
            refusals.append(await story.try_(id_))
        connection.failure = None
        for reply in refusals:
            assert reply.status < 400 or not _leaks(reply, secrets), reply.body
        for open_path in ("/metrics", "/openapi.json", "/docs", "/readyz", "/livez"):
            assert not _leaks(await api.send("GET", open_path, key=None), secrets), open_path
    text = said.text.replace(f"{CANARY}-of-storage", "")
    assert [secret for secret in secrets if secret in text] == []


def _leaks(reply: Reply, secrets: list[str]) -> list[str]:
    return [secret for secret in secrets if secret in reply.body.decode() or secret in str(reply.headers)]


async def refused(api: ApiHarness, method: str, path: str, example: Any) -> list[Reply]:
    """Answers to requests with wrong keys, bodies and parameters."""
    replies = [await api.send(method, path, key=key) for key in (CANARY, f"mh_{'0' * 16}_{CANARY}", f"mh_{CANARY}")]
    replies.append(await api.send(method, path, headers={"Authorization": f"Basic {CANARY}"}, key=None))
    bodies = [msgspec.json.encode(body) for body in wrong(example if example is not msgspec.UNSET else {})]
    bodies += [f'{{"a": "{CANARY}'.encode(), f'{{"{CANARY}'.encode(), CANARY.encode() + b"\xff"]
    json = {"Content-Type": "application/json"}
    replies += [await api.send(method, path, data=body, headers=json) for body in bodies]
    names = ("from", "to", "limit", "cursor", "state")
    replies += [await api.send(method, path, params={name: CANARY}) for name in names]
    return replies


async def test_bytes_that_are_no_request_are_not_repeated(said: Said) -> None:
    async with ApiHarness() as api:
        assert api.server is not None
        for line in (f"GET /{CANARY} HTTP/9", f"GET / HTTP/1.1\r\nAuthorization : {CANARY}", CANARY, f"X\0{CANARY} /"):
            reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
            writer.write(line.encode() + b"\r\n\r\n")
            writer.write_eof()
            answer = await reader.read()
            writer.close()
            assert CANARY.encode() not in answer
    assert CANARY not in said.text


async def test_everything_written_is_captured(said: Said) -> None:
    logging.getLogger("aiohttp.server").debug("a library's %s", CANARY)
    structlog.get_logger("minutehand.test").debug("ours", key=CANARY + "2", exc_info=ValueError(CANARY + "3"))
    assert {one for one in (CANARY, CANARY + "2", CANARY + "3") if one in said.text} == {
        CANARY,
        CANARY + "2",
        CANARY + "3",
    }
