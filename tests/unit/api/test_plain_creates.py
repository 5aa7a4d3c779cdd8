"""The short path of plain creates: no caller can distinguish it from the long one, and it keeps the same promises."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from cql.connection import Consistency, Item
from cql.settings import StorageSettings
from membership.errors import StoreUnavailable
from scheduler_service.api.plain_creates import _PlainCreate
from scheduler_service.domain.errors import ContentTooLarge
from scheduler_service.usecases.authenticate import CHECK_AFTER_SECONDS
from scheduler_service.usecases.schedule_writer import LATE_AFTER_MS
from tests.support.api import ADMIN_KEY, NOW, ApiHarness, callback, schedule
from tests.support.turns import until
from tests.unit.api.plain import SCHEDULES, Held, connection_of, create, plain_creates_of, read_answer, warm
from tests.unit.cql.gate import DATA, Gate

MINUTE_MS = 60_000


class Numbers:
    """Randomness that does not depend on what was drawn in between."""

    def __init__(self) -> None:
        self._drawn = 0

    def bits(self, count: int) -> int:
        """A request's own id is always the same; other draws count up."""
        if count == 96:
            return 7
        self._drawn += 1
        return self._drawn

    def fraction(self) -> float:
        return 0.5


class Faulty(Gate):
    """Storage in which writes of rows may fail."""

    fault: Exception | None = None

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        if self.fault is not None and items[0][0] == DATA:
            raise self.fault
        await super().write_batch(items, consistency=consistency)


@dataclass(slots=True)
class Way:
    """An API that handles plain creates by one path or the other."""

    api: ApiHarness
    connection: Faulty
    keys: dict[str, str]
    taken: int = 0
    alike: int = 0
    """The number of those that were not parsed."""
    asked: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def open(cls, *, short: bool) -> "AsyncIterator[Way]":
        connection = Faulty()
        randomness = Numbers()
        async with ApiHarness(
            connection=connection, storage=StorageSettings(max_write_bytes=60_000), max_body_bytes=50_000
        ) as api:
            keys = {name: await api.register(name) for name in ("shop", "other")}
            keys |= {"admin": ADMIN_KEY, "none": "mh_nobody_x"}
            way = cls(api, connection, keys)
            plain = plain_creates_of(api)
            begin, begin_alike = plain.begin, plain.begin_alike

            def counted(*arguments: Any) -> bool:
                taken = short and begin(*arguments)
                way.taken += taken
                return taken

            def counted_alike(*arguments: Any) -> bool | None:
                taken = begin_alike(*arguments)
                way.taken += taken is True
                way.alike += taken is True
                return taken

            plain.begin = counted  # type: ignore[method-assign, assignment]
            plain.begin_alike = counted_alike  # type: ignore[method-assign, assignment]
            for owner in (api.services, api.services.schedules.create, api.services.schedules.create._pollers):
                name = "randomness" if owner is api.services else "_randomness"
                object.__setattr__(owner, name, randomness)
            await warm(api, keys["shop"])
            yield way

    async def ask(self, data: bytes, answers: int) -> list[tuple[bytes, dict[str, str], bytes]]:
        """Send a request and return the answer; the connection is kept while the API keeps it."""
        assert self.api.server is not None
        if not self.asked:
            self.asked.append(await asyncio.open_connection("127.0.0.1", self.api.server.port))
        reader, writer = self.asked[-1]
        writer.write(data)
        answered = []
        for _ in range(answers):
            answered.append(await read_answer(reader))
            status, headers, _ = answered[-1]
            if headers.get("Connection") == "close" or status.startswith(b"HTTP/1.0"):
                assert await reader.read() == b""
                self.asked.clear()
                writer.close()
                break
        return answered

    def hang_up(self) -> None:
        """Use another connection from now on."""
        for _, writer in self.asked:
            writer.close()
        self.asked.clear()

    def state(self) -> dict[str, object]:
        """State that requests leave behind in the process."""
        services = self.api.services
        series = plain_creates_of(self.api).series
        return {
            "hints": self.api.hints.hints[-3:],
            "counted": series.by_status,
            "observed": series.seconds and (series.seconds.count, round(series.seconds.sum, 6)),
            "creates": {whose: round(full, 6) for whose, full in services.rate_limit._rates._full_at.items()},
            "budget": {whose: round(full, 6) for whose, full in services.request_budget._rates._full_at.items()},
            "bodies": dict(services.body_capacity._held),
            "queue": (self.api.storage.group_commit.rows, self.api.storage.group_commit._bytes),
            "stored": self.api.storage.metrics.commits.stored,
            "refused": self.api.storage.metrics.commits.refused,
            "doubted": (services.health.storage.doubted, services.health.storage.available),
        }

    def stored(self) -> dict[str, list[str]]:
        """State that requests leave behind in storage."""
        tables = ("schedules", "occupied_minutes", "idempotency_keys", "audit_log")
        return {table: sorted(map(repr, self.connection.rows(table))) for table in tables}


CALLBACKS = st.fixed_dictionaries(
    {"url": st.sampled_from(["https://receiver.example/hook", "http://127.0.0.1/", "nonsense", "https://ä.example/"])},
    optional={
        "method": st.sampled_from(["POST", "GET", "FETCH"]),
        "headers": st.sampled_from([{}, {"X-A": "b"}, {"Authorization": "secret"}, {"bad name": "x"}, {"X": "\n"}]),
        "body": st.sampled_from(["", "text", "ä", "x" * 30_000, "\x00", 7]),
        "json": st.sampled_from([None, {"a": [1, 2.50]}, "text"]),
        "body_base64": st.sampled_from(["/w==", "aGk=", "?"]),
        "unknown": st.just(1),
    },
)
BODIES = st.fixed_dictionaries(
    {"callback": CALLBACKS},
    optional={
        "due": st.sampled_from(
            ["2026-11-21T09:30:30Z", "2026-11-21T11:00:00.250+01:00", "2020-01-01T00:00:00Z", "soon"]
        ),
        "delay_seconds": st.sampled_from([0, 1.5, 90, 3600, -1, 1e300, "1"]),
        "label": st.sampled_from(["a", "ü", "", "x" * 257, None]),
        "ordering_key": st.sampled_from(["k", "x" * 256, 5]),
        "retry": st.sampled_from([{}, {"max_attempts": 3}, {"max_attempts": 0}]),
        "timeout_seconds": st.sampled_from([5, 0, 1000]),
        "skip_after_seconds": st.sampled_from([0, 60]),
        "extra": st.just([]),
    },
)
RIGHT = st.sampled_from(
    [
        schedule(),
        schedule(delay_seconds=1),
        schedule(label="order", ordering_key="k", callback=callback(headers={"X-A": "b"}, body="ä")),
        schedule(delay_seconds=7200, retry={"max_attempts": 2}, skip_after_seconds=5),
    ]
) | st.builds(
    lambda label, body, delay: schedule(label=label, callback=callback(body=body), delay_seconds=delay),
    st.text(min_size=1, max_size=9),
    st.text(max_size=9),
    st.floats(0, 80_000),
)
EVEN = RIGHT.map(lambda right: msgspec.json.encode(right).ljust(500))
"""Bodies of one length, so that their headers are equal."""
TEXTS = (
    st.one_of(RIGHT, BODIES).map(msgspec.json.encode)
    | RIGHT.map(lambda right: msgspec.json.encode(right) + b"  ")
    | st.sampled_from([b"", b"{", b"[]", b"\xff", b'{"callback": 1}', b"{}" * 2, b" " * 49_000, b"x" * 50_001])
)
LINES = [
    "X-Request-Id: mine",
    "X-Request-Id: not mine",
    "x-request-id: theirs",
    "User-Agent: tests",
    "Idempotency-Key: k1",
    "Idempotency-Key: not a key",
    "Content-Encoding: identity",
    "Content-Encoding: gzip",
    "Connection: keep-alive",
    "Connection: close",
    "Authorization: Basic eDp5",
    "-Authorization",
    "-Content-Type",
    "Content-Type: text/plain",
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
]
HEADERS = st.lists(st.sampled_from(LINES), max_size=2, unique=True)
TOKENS = st.sampled_from(
    [
        f"{SCHEDULES}?once={NOW + ms}.1.0.{16 * nonce}"
        for ms, nonce in ((0, "a"), (0, "b"), (-899_000, "c"), (-901_000, "d"))
    ]
    + [f"{SCHEDULES}?once={NOW}.{pollers}.{16 * 'e'}" for pollers in ("9999.0", "1.1", "2.1", "3.2")]
    + [f"{SCHEDULES}?once={NOW}.1.0.{rest}" for rest in ("short", f"%61{15 * 'f'}", f"{16 * 'g'}&once=", 16 * "\u00b2")]
)
PATHS = TOKENS | st.sampled_from(
    [
        *[SCHEDULES] * 3,
        f"{SCHEDULES}?x=1",
        f"{SCHEDULES}?",
        f"{SCHEDULES}/",
        f"http://api{SCHEDULES}",
        "/v1/clients/other/schedules",
        "/v1/clients/%73hop/schedules",
        "/v1/clients/shop%2Fx/schedules",
        "/schedules",
    ]
)
FAULTS = st.sampled_from([None] * 5 + [StoreUnavailable("gone"), ContentTooLarge("large"), TypeError("crash")])


@dataclass(frozen=True, slots=True)
class Request:
    """A request for both paths, and the behaviour of their storage."""

    body: bytes
    lines: list[str] = field(default_factory=list)
    path: str = SCHEDULES
    key: str = "shop"
    fault: Exception | None = None
    copies: int = 1
    seconds: float = 0

    def bytes_of(self, way: Way) -> bytes:
        return self.copies * create(way.keys[self.key], self.body, *self.lines, path=self.path)


SECONDS = st.sampled_from([0, 0, 0.5, 2])
DRAWN = {
    "right": st.builds(
        Request,
        body=EVEN,
        fault=FAULTS,
        copies=st.sampled_from([1, 1, 2, 3]),
        seconds=SECONDS,
    ),
    "right under a token": st.builds(Request, body=EVEN, path=TOKENS, fault=FAULTS, seconds=SECONDS),
    "any body": st.builds(Request, body=TEXTS, seconds=SECONDS),
    "any headers": st.builds(Request, body=RIGHT.map(msgspec.json.encode), lines=HEADERS, seconds=SECONDS),
    "any request": st.builds(
        Request,
        body=TEXTS,
        lines=HEADERS,
        path=PATHS,
        key=st.sampled_from(["shop", "shop", "shop", "other", "admin", "none"]),
        fault=FAULTS,
        seconds=SECONDS,
    ),
}


@pytest.mark.parametrize("drawn", DRAWN)
def test_the_short_path_cannot_be_told_from_the_long_one(drawn: str) -> None:
    with asyncio.Runner() as runner, capture_logs():
        short_way, long_way = Way.open(short=True), Way.open(short=False)
        short, long = runner.run(short_way.__aenter__()), runner.run(long_way.__aenter__())

        @settings(max_examples=80)
        @given(DRAWN[drawn])
        def ask_both(request: Request) -> None:
            answers = []
            for way in (short, long):
                way.connection.fault = request.fault
                answered = runner.run(way.ask(request.bytes_of(way), request.copies))
                for _, headers, _ in answered:
                    del headers["Date"]
                answers.append(answered)
                if request.copies > 1:
                    way.hang_up()
                way.api.clock.advance(request.seconds)
            assert answers[0] == answers[1]
            assert short.state() == long.state()

        for line in LINES if drawn == "any headers" else ():
            ask_both = example(Request(msgspec.json.encode(schedule()), [line]))(ask_both)
        try:
            ask_both()
            assert short.stored() == long.stored()
            assert short.taken > (10 if drawn.startswith("right") else 0)
            assert short.alike >= (6 if drawn.startswith("right") else 0)
            assert long.taken == 0
        finally:
            for way in (short, long):
                way.hang_up()
            runner.run(short_way.__aexit__(None, None, None))
            runner.run(long_way.__aexit__(None, None, None))


@pytest.fixture
async def held() -> AsyncIterator[Held]:
    async with Held.open() as world:
        yield world


async def test_storage_that_does_not_answer_is_503_in_time_and_the_connection_goes_on(held: Held) -> None:
    await held.send()
    held.api.clock.advance(held.api.settings.request_timeout_seconds)
    status, headers, body = await read_answer(held.reader)
    assert status.startswith(b"HTTP/1.1 503")
    assert headers["Retry-After"] == "1"
    assert msgspec.json.decode(body)["type"] == "/problems/storage-unavailable"
    assert held.api.storage.group_commit.rows == 0
    held.release()
    held.writer.write(create(held.key, msgspec.json.encode(schedule())))
    assert (await read_answer(held.reader))[0] == b"HTTP/1.1 201 Created"
    assert held.plain.series.by_status == {503: 1, 201: 1}
    assert held.api.services.body_capacity._held == {}


async def test_what_has_run_out_of_time_before_it_was_sent_is_not_sent(held: Held) -> None:
    await held.send()
    held.api.clock.advance(held.api.settings.request_timeout_seconds)
    await read_answer(held.reader)
    held.release()  # of its index row
    await until(lambda: held.api.storage.group_commit._index_in_flight == 0)
    assert held.gate.data == []


async def test_requests_that_follow_wait_for_their_turn(held: Held) -> None:
    await held.send()
    held.writer.write(2 * create(held.key, msgspec.json.encode(schedule())))
    await until(lambda: len(connection_of(held)._messages) == 2)
    held.release()
    ids = [msgspec.json.decode((await read_answer(held.reader))[2])["schedule_id"] for _ in range(3)]
    assert len(set(ids)) == 3


async def test_a_body_that_is_still_arriving_is_awaited(held: Held) -> None:
    body = msgspec.json.encode(schedule()) + b" " * 9
    request = create(held.key, body)
    held.writer.write(request[:-9])
    await until(lambda: sum(held.api.services.body_capacity._awaited.values()) == 1)
    held.writer.write(request[-9:])
    assert (await read_answer(held.reader))[0] == b"HTTP/1.1 201 Created"
    assert held.begun == 0


@pytest.mark.parametrize("after", [False, True], ids=["hung up first", "answered first"])
async def test_hanging_up_leaves_nothing_behind(held: Held, after: bool) -> None:
    before = asyncio.all_tasks()
    with capture_logs() as logs:
        await held.send()
        if after:
            held.release()
            await read_answer(held.reader)
        held.writer.close()
        assert held.api.server is not None
        server = held.api.server
        await until(lambda: server.connections == 1)
        held.release()
        await until(lambda: held.plain.series.by_status == {201: 1})
    assert logs == []
    assert held.api.services.body_capacity._held == {}
    assert len(held.gate.rows("schedules")) == 1
    await until(lambda: len(asyncio.all_tasks()) < len(before))


async def test_stopping_lets_it_end_says_that_it_is_the_last_and_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    gate = Gate()
    async with ApiHarness(connection=gate) as api:
        key = await api.register("shop")
        await warm(api, key)
        assert api.server is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
        gate.hold = True
        writer.write(create(key, msgspec.json.encode(schedule())))
        await until(lambda: bool(gate.held))
        stopping = asyncio.ensure_future(api.server.stop())
        await until(lambda: api.services.health.stopping)
        gate.hold = False
        gate.held[0].set_result(None)
        status, headers, _ = await read_answer(reader)
        assert (status, headers["Connection"]) == (b"HTTP/1.1 201 Created", "close")
        assert await reader.read() == b""
        await stopping
        writer.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() - before == set()


async def test_one_that_is_under_way_when_connections_are_closed_is_waited_for(held: Held) -> None:
    await held.send()
    connection = connection_of(held)
    connection.close()
    shutting = asyncio.ensure_future(connection.shutdown(30.0))
    await asyncio.sleep(0)
    assert not shutting.done()
    held.release()
    assert (await read_answer(held.reader))[0] == b"HTTP/1.1 201 Created"
    assert await held.reader.read() == b""
    await shutting


async def test_what_is_acknowledged_late_is_looked_after_before_it_is_answered(held: Held) -> None:
    await held.send(delay_seconds=0)
    late = NOW + MINUTE_MS + LATE_AFTER_MS + 1
    held.api.clock.now = late
    held.release()
    assert (await read_answer(held.reader))[0] == b"HTTP/1.1 201 Created"
    original, copy = sorted(held.gate.rows("schedules"), key=lambda row: row["kind"])
    assert (original["state"], original["next_attempt_at"], original["reason"]) == ("retrying", late, "late-create")
    assert (copy["kind"], copy["due"]) == ("copy", late)


async def test_a_late_create_is_not_acknowledged_without_a_check(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(*arguments: object, **named: object) -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(type(held.api.storage.schedules), "read_rows", lost)
    await held.send(delay_seconds=0)
    held.api.clock.now = NOW + MINUTE_MS + LATE_AFTER_MS + 1
    held.release()
    assert (await read_answer(held.reader))[0].startswith(b"HTTP/1.1 503")


async def test_looking_after_what_is_late_ends_with_the_time_limit(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = asyncio.Event()

    async def hang(*arguments: object, **named: object) -> None:
        looked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(type(held.api.storage.schedules), "read_rows", hang)
    await held.send(delay_seconds=0)
    held.api.clock.now = NOW + MINUTE_MS + LATE_AFTER_MS + 1
    held.release()
    await looked.wait()
    held.api.clock.advance(0)
    assert (await read_answer(held.reader))[0].startswith(b"HTTP/1.1 503")
    await until(lambda: len(held.plain.tasks) == 0)


async def test_a_connection_that_was_busy_when_idle_ones_closed_is_checked_again(held: Held) -> None:
    await held.send()
    connection = connection_of(held)
    assert not connection.waits
    connection._next_keepalive_close_time = 0.0
    assert connection._keepalive_handle is not None
    connection._keepalive_handle.cancel()
    connection._process_keepalive()
    assert connection._keepalive_handle is None
    held.release()
    assert (await read_answer(held.reader))[0] == b"HTTP/1.1 201 Created"
    assert connection.waits
    assert connection._keepalive_handle is not None


async def test_a_key_is_judged_for_each_request_of_a_connection(held: Held) -> None:
    body = msgspec.json.encode(schedule())

    async def asked(key: str) -> bytes:
        held.writer.write(create(key, body))
        return (await read_answer(held.reader))[0].split(b" ")[1]

    assert [await asked(key) for key in (held.key, held.key, held.key + "x", held.key)] == [
        b"201",
        b"201",
        b"401",
        b"201",
    ]
    assert held.begun == 3
    assert (await held.api.send("POST", "/v1/clients/shop:suspend")).status == 200
    await warm(held.api, held.key)
    assert await asked(held.key) == b"403"
    assert (await held.api.send("POST", "/v1/clients/shop:resume")).status == 200
    await warm(held.api, held.key)
    assert await asked(held.key) == b"201"
    assert held.begun == 4
    revoked = held.key.split("_")[1]
    assert (await held.api.send("DELETE", f"/v1/clients/shop/keys/{revoked}")).status == 204
    assert await asked(held.key) == b"401"


async def test_scope_and_expiry_of_a_key_count_for_each_request_of_a_connection(held: Held) -> None:
    body, api = msgspec.json.encode(schedule()), held.api

    async def made(**asked: str) -> str:
        return str((await api.send("POST", "/v1/clients/shop/keys", json=asked)).json["key"])

    async def asked(key: str) -> bytes:
        held.writer.write(create(key, body))
        return (await read_answer(held.reader))[0].split(b" ")[1]

    # The instant is within the time for which the process remembers a key.
    soon = await made(expires_at="2026-11-21T09:30:02Z")
    reader = await made(scope="read")
    await warm(api, soon)
    await warm(api, reader)
    assert [await asked(key) for key in (soon, reader, soon)] == [b"201", b"403", b"201"]
    assert held.begun == 2
    api.clock.advance(0.9)
    assert await asked(soon) == b"201"
    api.clock.advance(0.9)
    await warm(api, soon)
    assert await asked(soon) == b"201"
    assert held.begun == 4
    api.clock.advance(0.2)
    assert [await asked(soon), await asked(soon)] == [b"401", b"401"]
    assert held.begun == 4


async def test_a_revocation_elsewhere_is_seen_in_time(held: Held) -> None:
    body = msgspec.json.encode(schedule())
    held.writer.write(create(held.key, body))
    assert (await read_answer(held.reader))[0] == b"HTTP/1.1 201 Created"
    store, key_id = held.api.storage.clients, held.key.split("_")[1]
    await store.revoke_key(key_id, revoked_at=NOW)
    await store.announce()
    held.api.clock.advance(CHECK_AFTER_SECONDS)
    held.writer.write(create(held.key, body))
    assert (await read_answer(held.reader))[0] == b"HTTP/1.1 401 Unauthorized"


async def test_answered_creates_leave_no_garbage_cycles(held: Held) -> None:
    def there() -> int:
        return sum(type(one) is _PlainCreate and one._of is held.plain for one in gc.get_objects())

    gc.disable()
    try:
        await held.send()
        held.release()
        await read_answer(held.reader)
        await held.send()
        held.api.clock.advance(held.api.settings.request_timeout_seconds)
        await read_answer(held.reader)
        held.release()
        await until(lambda: held.api.storage.group_commit._in_flight == 0)
        assert there() == 0
    finally:
        gc.enable()
