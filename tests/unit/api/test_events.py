"""A client reads its feed: where it begins, pages, waiting, and the stream of server-sent events."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import ExitStack
from uuid import UUID

import pytest

from scheduler_service.api.event_readers import MOST_READERS_OF_CLIENT
from scheduler_service.api.http.query import MAX_CURSOR
from scheduler_service.api.resources.events import COMMENT_SECONDS, JUDGED_EVERY_SECONDS, READS_PER_UNIT, STREAM_SECONDS
from scheduler_service.domain.event_cursors import FeedCursor, decode_feed_cursor, encode_feed_cursor
from scheduler_service.domain.events import Block, Event, Position, derived_event_id, track_of, track_of_built_in
from scheduler_service.domain.ids import ClientId, Minute, PollerId, UnixMillis
from scheduler_service.domain.notices import APPENDING_POLLERS, EVENTS_CLIENT, event_row
from scheduler_service.usecases.read_events import MAX_TRACKS
from tests.support.api import NOW, ApiHarness, Reply

SHOP = ClientId("shop")
EVENTS = "/v1/clients/shop/events"


async def feed(api: ApiHarness, *, quota: int = 1) -> None:
    body = {"poller_quota": quota, "settings": {"event_feed": True}}
    assert (await api.send("PUT", "/v1/clients/shop", json=body)).status == 201


async def tell(api: ApiHarness, block: Block, first: int, numbers: Sequence[int]) -> None:
    """Append events with these numbers, which are also their instants; the first one of a block begins it."""
    store = api.storage.events
    if first == 0:
        await store.begin_block(SHOP, block, begun_at=UnixMillis(NOW + numbers[0]))
    events = [
        Event(
            event_id=derived_event_id(SHOP, number),
            type="schedule.delivered",
            at=UnixMillis(NOW + number),
            data=f'{{"n":{number}}}',
        )
        for number in numbers
    ]
    await store.append(SHOP, block, first_seq=first, events=events)


def numbers(reply: Reply) -> list[int]:
    assert reply.status == 200, reply.body
    return [event["data"]["n"] for event in reply.json["events"]]


async def read(api: ApiHarness, **query: str | int) -> Reply:
    return await api.send("GET", EVENTS + "?" + "&".join(f"{name}={value}" for name, value in query.items()))


async def test_a_client_without_feed_has_no_events(api: ApiHarness) -> None:
    await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 1})
    reply = await api.send("GET", EVENTS)
    assert (reply.status, reply.json["type"]) == (409, "/problems/no-feed")


async def test_all_tracks_are_read_page_by_page_in_their_order(api: ApiHarness) -> None:
    await feed(api, quota=2)
    await tell(api, Block("0000", 7, 0), 0, [1, 4, 2])
    await tell(api, Block("0000", 7, 1), 0, [8])
    await tell(api, Block("0001", 3, 0), 0, [3, 5])
    await tell(api, Block("0001", 9, 0), 0, [6, 7])
    await tell(api, Block("$events/0002", 1, 0), 0, [0])
    assert numbers(await read(api, after="earliest")) == [0, 1, 3, 4, 2, 5, 6, 7, 8]
    assert numbers(await read(api, after="earliest", pollers="1-5")) == [3, 5, 6, 7]
    found: list[int] = []
    reply = await read(api, after="earliest", limit=2)
    while reply.json["events"]:
        assert len(reply.json["events"]) <= 2
        found += numbers(reply)
        more = reply.json["more"]
        reply = await read(api, after=reply.json["cursor"], limit=2)
        assert more or not reply.json["events"]
    assert sorted(found) == list(range(9))
    assert [n for n in found if n in (1, 4, 2, 8)] == [1, 4, 2, 8]
    await tell(api, Block("0001", 9, 0), 2, [9])
    assert numbers(await read(api, after=reply.json["cursor"])) == [9]


async def test_without_after_only_what_comes_is_read(api: ApiHarness) -> None:
    await feed(api)
    await tell(api, Block("0000", 7, 0), 0, [1, 2])
    begun = await read(api)
    assert numbers(begun) == []
    assert decode_feed_cursor(begun.json["cursor"]).positions == {"0000": Position(7, 0, 1)}
    await tell(api, Block("0000", 7, 0), 2, [3])
    await tell(api, Block("0000", 8, 0), 0, [4])
    await tell(api, Block("$events/0000", 1, 0), 0, [5])
    assert numbers(await read(api, after=begun.json["cursor"])) == [3, 4, 5]


async def test_since_begins_with_the_block_of_that_instant(api: ApiHarness) -> None:
    await feed(api)
    for epoch, begun in enumerate((0, 7_200_000, 14_400_000), 1):
        await tell(api, Block("0000", epoch, 0), 0, [begun])
    for since, expected in (("+05:00", [0, 7_200_000, 14_400_000]), ("-03:30", [7_200_000, 14_400_000])):
        instant = f"2026-11-21T09:30:00{since}".replace("+", "%2B")
        assert numbers(await read(api, since=instant)) == expected


async def test_what_is_asked_wrongly_is_refused(api: ApiHarness) -> None:
    await feed(api)
    for query in ("after=no", "after=AQ!", "wait_seconds=61", "pollers=5-3", "pollers=0-64", "limit=1001"):
        assert (await api.send("GET", f"{EVENTS}?{query}")).status == 422, query
    both = await api.send("GET", f"{EVENTS}?after=earliest&since=2026-11-21T09:30:00Z")
    assert both.status == 422


async def test_a_cursor_is_refused_when_events_behind_it_may_be_gone(api: ApiHarness) -> None:
    await feed(api)
    cursor = (await read(api)).json["cursor"]
    api.clock.advance(48 * 3600 + 61)
    reply = await read(api, after=cursor)
    assert (reply.status, reply.json["type"]) == (409, "/problems/cursor-expired")
    stream_of_it = await api.send("GET", f"{EVENTS}?after={cursor}", headers={"Accept": "text/event-stream"})
    assert (stream_of_it.status, stream_of_it.json["type"]) == (409, "/problems/cursor-expired")


async def test_reading_some_pollers_renews_no_cursor_of_others(api: ApiHarness) -> None:
    await feed(api, quota=2)
    cursor = (await read(api)).json["cursor"]
    await tell(api, Block("0001", 7, 0), 0, [1])
    reply = await read(api, after=cursor, pollers="0-0")
    assert numbers(reply) == []
    assert numbers(await read(api, after=reply.json["cursor"], pollers="1-1")) == [1]


@pytest.mark.parametrize("position", [Position(2**40, 2**40, 5), Position(3, 2**31, 1), Position(3, 1, 2**31)])
async def test_a_cursor_beyond_what_can_be_stored_is_refused(api: ApiHarness, position: Position) -> None:
    await feed(api)
    forged = encode_feed_cursor(FeedCursor(Minute(NOW // 60_000), {"0000": position}))
    assert (await read(api, after=forged)).status == 422


async def test_waiting_ends_with_the_first_event(api: ApiHarness) -> None:
    await feed(api)
    cursor = (await read(api)).json["cursor"]
    waiting = asyncio.create_task(read(api, after=cursor, wait_seconds=30))
    for _ in range(20):
        await asyncio.sleep(0)
        api.clock.advance(0.05)
    assert not waiting.done()
    await tell(api, Block("0000", 7, 0), 0, [1])
    while not waiting.done():
        await asyncio.sleep(0)
        api.clock.advance(0.05)
    assert numbers(await waiting) == [1]
    assert len(api.services.events.waiting) == 0


async def test_looks_are_charged_by_their_reads(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await feed(api, quota=3)
    owed: list[float] = []
    monkeypatch.setattr(
        type(api.services.request_budget), "owe", lambda self, principal, cost: owed.append(round(cost, 9))
    )
    for number in range(3):
        await tell(api, Block(f"000{number}", 7, 0), 0, [number])
    cursor = (await read(api, after="earliest")).json["cursor"]
    assert 1 / READS_PER_UNIT * (1 + 3 + 3) in owed
    owed.clear()
    await read(api, after=cursor)
    assert 1 / READS_PER_UNIT * (1 + 3) in owed


async def test_a_feed_of_all_tracks_is_read_whatever_the_quota_of_built_in_pollers(api: ApiHarness) -> None:
    await feed(api, quota=MAX_TRACKS)
    events = [Event(event_id=UUID(int=n), type="quota.exceeded", at=UnixMillis(NOW)) for n in range(2_000)]
    built_in = {event_row(SHOP, event, quota=5_000).poller_id for event in events}
    assert built_in == set(range(APPENDING_POLLERS)), "all are used, and no others"
    tracks = [track_of(PollerId(n)) for n in range(MAX_TRACKS)] + [
        track_of_built_in(EVENTS_CLIENT, n) for n in built_in
    ]
    for number, track in enumerate(tracks):
        block = Block(track, 2**21, 16_000)
        await api.storage.events.begin_block(SHOP, block, begun_at=UnixMillis(NOW))
        await api.storage.events.append(SHOP, block, first_seq=9_999, events=[events[number]])
    reply = await read(api, after="earliest", limit=1_000)
    assert len(reply.json["events"]) == len(tracks)
    assert len(reply.json["cursor"]) <= MAX_CURSOR
    assert (await read(api, after=reply.json["cursor"])).json["events"] == []


def stream(reply: Reply) -> list[tuple[str, str, int | None]]:
    """Id, type and number of each event of a whole stream."""
    assert reply.headers["Content-Type"] == "text/event-stream"
    found = []
    for block in reply.body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            data = json.loads(fields["data"])
            found.append((fields["id"], fields["event"], data["data"]["n"] if data else None))
    return found


async def test_a_stream_tells_each_event_with_the_cursor_behind_it_and_resumes(api: ApiHarness) -> None:
    await feed(api, quota=2)
    await tell(api, Block("0000", 7, 0), 0, [1, 3])
    await tell(api, Block("0001", 7, 0), 0, [2])
    accept = {"Accept": "text/event-stream"}
    begun = api.clock.monotonic()
    whole = stream(await api.send("GET", EVENTS + "?after=earliest", headers=accept))
    assert STREAM_SECONDS <= api.clock.monotonic() - begun < STREAM_SECONDS + COMMENT_SECONDS + 1
    assert [number for _, _, number in whole] == [None, 1, 2, 3]
    assert [kind for _, kind, _ in whole] == ["begin", *["schedule.delivered"] * 3]
    for position, left in ((0, [1, 2, 3]), (2, [3]), (3, [])):
        headers = {**accept, "Last-Event-ID": whole[position][0]}
        again = stream(await api.send("GET", EVENTS, headers=headers))
        assert [number for _, _, number in again] == [None, *left]
    await api.send("GET", EVENTS + "?after=earliest", headers=accept)
    assert len(api.services.events.waiting) == 0


async def test_a_stream_ends_within_seconds_of_its_key(api: ApiHarness) -> None:
    await feed(api)
    made = await api.send("POST", "/v1/clients/shop/keys", json={"scope": "read", "expires_at": "2026-11-21T09:30:20Z"})
    begun = api.clock.monotonic()
    reply = await api.send("GET", EVENTS, key=made.json["key"], headers={"Accept": "text/event-stream"})
    assert [kind for _, kind, _ in stream(reply)] == ["begin"]
    assert 20 <= api.clock.monotonic() - begun < 20 + 2 * JUDGED_EVERY_SECONDS


async def test_a_stream_ends_when_the_process_stops(api: ApiHarness) -> None:
    await feed(api)
    api.services.health.stopping = True
    reply = await api.send("GET", EVENTS, headers={"Accept": "text/event-stream"})
    assert [kind for _, kind, _ in stream(reply)] == ["begin"]


async def test_readers_that_wait_are_bounded_for_each_client(api: ApiHarness) -> None:
    await feed(api)
    waiting = api.services.events.waiting
    with ExitStack() as places:
        assert all(places.enter_context(waiting.place(SHOP)) for _ in range(MOST_READERS_OF_CLIENT))
        begun = api.clock.monotonic()
        assert numbers(await read(api, wait_seconds=30)) == []
        assert api.clock.monotonic() == begun, "it is answered at once"
        refused = await api.send("GET", EVENTS, headers={"Accept": "text/event-stream"})
        assert (refused.status, refused.headers["Retry-After"]) == (429, "5")
        with waiting.place(ClientId("other")) as placed:
            assert placed
    assert len(waiting) == 0
