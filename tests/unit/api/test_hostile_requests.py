"""Attacks by a caller with a client's key, or with none: forged cursors, odd targets, framing, ambiguous JSON."""

import asyncio
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from cql.memory.connection import InMemoryConnection
from scheduler_service.api.http.paging import Cursor, seal
from scheduler_service.api.resources.audit_log import EntryCursor
from scheduler_service.api.resources.crons import RunCursor
from scheduler_service.api.resources.dead_letters import LetterCursor
from scheduler_service.api.resources.schedule_listings import CountCursor, ScheduleCursor
from scheduler_service.domain.audit_log import first_entry_id
from scheduler_service.domain.ids import MAX_DUE, ClientId, CronId, ScheduleId, UnixMillis
from scheduler_service.usecases.list_schedules import HOURS_PER_CALL
from tests.support.api import NOW, ApiHarness, cron

SHOP = ClientId("shop")
SCHEDULES = "/v1/clients/shop/schedules"
JSON = {"Content-Type": "application/json"}
GOOD = b'{"delay_seconds":1,"callback":{"url":"https://a.example/"}}'
SPANS = [(0, MAX_DUE), (-(1 << 60), MAX_DUE), (NOW, NOW + 32 * 86_400_000), (NOW, 1 << 62), (NOW, NOW), (NOW, NOW - 1)]


def forged(start: int, end: int) -> dict[str, tuple[ClientId, Cursor]]:
    """A reader of the source can make these: one of every listing with a window."""
    first, last, some = UnixMillis(start), UnixMillis(end), ScheduleId(uuid4())
    return {
        "/v1/clients/shop/dead-letters": (
            SHOP,
            LetterCursor(first, last, None, None, None, None, None, None, None, first, some),
        ),
        "/v1/clients/shop/crons/nightly/runs": (
            SHOP,
            RunCursor(first, last, CronId("nightly"), first),
        ),
        "/v1/audit-log": (
            ClientId("*"),
            EntryCursor(first, last, first_entry_id(max(start, 0))),
        ),
    }


@pytest.mark.parametrize("path", forged(0, 1))
async def test_a_forged_cursor_opens_no_wider_window(api: ApiHarness, path: str) -> None:
    """It would make the process read the index of thousands of years, and report storage as unavailable when that took
    long.
    """
    await api.add_built_in_clients()
    key = await api.register("shop")
    assert (await api.send("PUT", "/v1/clients/shop/crons/nightly", key=key, json=cron())).status == 201
    for start, end in SPANS:
        client_id, cursor = forged(start, end)[path]
        reply = await asyncio.wait_for(api.send("GET", path, params={"cursor": seal(client_id, cursor)}), 10)
        assert (reply.status, list(reply.faults)) == (422, ["/cursor"]), (start, end)
    client_id, cursor = forged(NOW - 3_600_000, NOW + 3_600_000)[path]
    assert (await api.send("GET", path, params={"cursor": seal(client_id, cursor)})).status == 200


async def test_a_forged_cursor_of_a_bulk_verb(api: ApiHarness, key: str) -> None:
    path = "/v1/clients/shop/dead-letters"
    client_id, cursor = forged(0, MAX_DUE)[path]
    for verb in (":redeliver", ":acknowledge"):
        reply = await api.send("POST", path + verb, key=key, json={"cursor": seal(client_id, cursor)})
        assert (reply.status, list(reply.faults)) == (422, ["/cursor"])


@pytest.mark.parametrize(("method", "verb"), [("GET", ""), ("GET", ":count"), ("POST", ":cancel")])
async def test_a_window_of_all_times_costs_a_bounded_number_of_reads(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch, method: str, verb: str
) -> None:
    asked, select = list[str](), InMemoryConnection.select

    async def watched(self: InMemoryConnection, name: str, *args: Any, **arguments: Any) -> Any:
        asked.append(name)
        return await select(self, name, *args, **arguments)

    monkeypatch.setattr(InMemoryConnection, "select", watched)
    first, last = UnixMillis(0), UnixMillis(MAX_DUE)
    fields = (first, last, None, None, None, None, None, None, first, None)
    cursor = seal(SHOP, CountCursor(*fields, 0) if verb == ":count" else ScheduleCursor(*fields))
    sent: Any = {"json": {"cursor": cursor}} if method == "POST" else {"params": {"cursor": cursor}}
    reply = await api.send(method, SCHEDULES + verb, key=key, **sent)
    assert reply.status == 200
    assert reply.json["next_cursor"] not in (None, cursor)
    assert asked.count("occupied_minutes.read") == HOURS_PER_CALL
    for start, end in SPANS[1:2] + SPANS[3:]:
        fields = (UnixMillis(start), UnixMillis(end), *fields[2:])
        cursor = seal(SHOP, CountCursor(*fields, 0) if verb == ":count" else ScheduleCursor(*fields))
        sent = {"json": {"cursor": cursor}} if method == "POST" else {"params": {"cursor": cursor}}
        reply = await api.send(method, SCHEDULES + verb, key=key, **sent)
        assert (reply.status, list(reply.faults)) == (422, ["/cursor"]), (start, end)


async def test_a_name_given_twice_can_not_hide_a_wrong_value(api: ApiHarness, key: str) -> None:
    body = b'{"delay_seconds":"x","delay_seconds":2,"callback":{"url":"https://a.example/"}}'
    reply = await api.send("POST", SCHEDULES, key=key, data=body, headers=JSON)
    assert reply.status == 422
    assert reply.faults == {"": "a field is given more than once, at least once with a wrong value"}
    inner = b'{"delay_seconds":1,"callback":{"url":"https://a.example/"},"callback":{"url":"http://127.0.0.1/"}}'
    reply = await api.send("POST", SCHEDULES, key=key, data=inner, headers=JSON)
    assert list(reply.faults) == ["/callback/url"], "the one that would be called is the one that is judged"


@pytest.mark.parametrize("number", ["1" * 6000, "-" + "1" * 6000, "1e999", "-1e999", "1e308", "NaN", "Infinity"])
@pytest.mark.parametrize(
    "template", ['{"delay_seconds":%s}', '{"zzz":%s}', '{"label":%s}', '{"retry":{"max_attempts":%s}}']
)
async def test_numbers_that_no_number_can_hold(api: ApiHarness, key: str, number: str, template: str) -> None:
    reply = await api.send("POST", SCHEDULES, key=key, data=(template % number).encode(), headers=JSON)
    assert reply.status in (400, 422)


async def test_final_statuses_are_bounded(api: ApiHarness) -> None:
    for count, status in ((500, 201), (501, 422)):
        settings = {"retry": {"final_statuses": [410] * count}}
        reply = await api.send("PUT", f"/v1/clients/c{count}", json={"poller_quota": 1, "settings": settings})
        assert reply.status == status


@pytest.mark.parametrize(
    "head",
    [
        b"OPTIONS * HTTP/1.1",
        b"CONNECT a.example:443 HTTP/1.1",
        b"CONNECT /v1/clients HTTP/1.1",
        b"GET http://a.example HTTP/1.1",
        b"GET //v1/clients HTTP/1.1",
        b"GET /v1/clients/shop/../other HTTP/1.1",
        b"GET /v1/clients/shop/%2e%2e/other HTTP/1.1",
        b"POST /v1/clients/shop:suspend:resume HTTP/1.1",
        b"POST /v1/clients/shop::suspend HTTP/1.1",
    ],
)
async def test_targets_that_are_no_paths_get_a_problem_too(api: ApiHarness, head: bytes) -> None:
    status, headers, body = await raw(api, head + b"\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert status == b"404"
    assert b"X-Request-Id: " in headers
    assert msgspec.json.decode(body)["type"] == "/problems/not-found"


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        (b"Content-Length: 4\r\nTransfer-Encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)),
        (b"Content-Length: %d\r\nContent-Length: 5" % len(GOOD), GOOD),
        (b"Content-Length: +%d" % len(GOOD), GOOD),
        (b"Content-Length: -1", GOOD),
        (b"Transfer-Encoding: xchunked", b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)),
        (b"Transfer-Encoding: chunked, identity", b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)),
        (b"Transfer-Encoding : chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)),
        (b"Transfer-Encoding: chunked", b"%x\n%s\n0\n\n" % (len(GOOD), GOOD)),
        (b"X-Folded: a\r\n b", b""),
        (b"X-Null: a\0b", b""),
        (b"Host: y", b""),
    ],
)
async def test_framing_that_two_may_read_differently(api: ApiHarness, key: str, lines: bytes, body: bytes) -> None:
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
    request = head % (SCHEDULES.encode(), key.encode()) + lines + b"\r\n\r\n" + body
    status, _, answer = await raw(api, request)
    assert status == b"400"
    assert msgspec.json.decode(answer)["type"] == "/problems/malformed"
    assert key.encode() not in answer
    assert api.connection.rows("schedules") == []


async def test_codings_of_a_body_are_refused(api: ApiHarness, key: str) -> None:
    for headers in (
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "identity, gzip"},
        {"Content-Type": 'application/json; charset="utf-16"'},
    ):
        reply = await api.send("POST", SCHEDULES, key=key, data=GOOD, headers={**JSON, **headers})
        assert reply.status == 415


async def test_the_first_of_two_keys_is_not_the_one_that_counts_alone(api: ApiHarness, key: str) -> None:
    """A proxy may have checked the other key: an invalid key must not pass with a valid one."""
    lines = b"Authorization: Bearer nonsense\r\nAuthorization: Bearer " + key.encode()
    status, _, _ = await raw(api, b"GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % (SCHEDULES.encode(), lines))
    assert status == b"401"


@pytest.mark.parametrize("text", ["%ff%fe", "%ed%a0%80", "%00", "%F0%9F%92%A9", "\u0663"])
async def test_unicode_of_every_kind_in_queries_and_ids(api: ApiHarness, key: str, text: str) -> None:
    for path in (f"{SCHEDULES}?label={text}", f"{SCHEDULES}?cron_id={text}"):
        assert (await api.send("GET", path, key=key)).status == 200
    for path in (f"{SCHEDULES}/{text}", f"/v1/clients/shop/crons/{text}", f"/v1/clients/{text}/schedules"):
        for who in (key, api.settings.admin_key):
            assert (await api.send("GET", path, key=who)).status == 404
    for path in (f"{SCHEDULES}?limit={text}", f"{SCHEDULES}?from={text}", f"{SCHEDULES}?cursor={text}"):
        assert (await api.send("GET", path, key=key)).status == 422


async def raw(api: ApiHarness, request: bytes) -> tuple[bytes, bytes, bytes]:
    """Send raw bytes; returns status, head and body of the first answer."""
    assert api.server is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    try:
        writer.write(request)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        body = await asyncio.wait_for(reader.readexactly(int(length.split(b":")[1])), 10)
        return head.split(b" ")[1], head, body
    finally:
        writer.close()
