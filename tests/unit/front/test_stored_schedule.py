"""`minutehand schedules show`: a row decoded, and as it is stored."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cql.memory.connection import InMemoryConnection
from cql.packed import pack_content
from cql.settings import StorageSettings
from cql.storage import Storage
from membership.conditional import APPLIED
from minutehand.cli import stored_schedule as module
from minutehand.cli.stored_schedule import BYTES_SHOWN, NoSuchRow, flat, stored_schedule
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.schedules import Definition
from tests.contract.builders import START, commit, definition, delivered

SEALED = "sealed:1:2026-11:9cN2"
Show = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def memory() -> InMemoryConnection:
    return InMemoryConnection()


@pytest.fixture
def show(memory: InMemoryConnection, monkeypatch: pytest.MonkeyPatch) -> Show:
    async def opened(settings: StorageSettings) -> Storage:
        return Storage.over(memory)

    monkeypatch.setattr(module, "open_storage", opened)

    async def shown(one: Definition, *, raw: bool = True) -> dict[str, Any]:
        found = await stored_schedule(StorageSettings(), one.client_id, str(one.schedule_id), raw=raw)
        return json.loads(json.dumps(found, default=str))  # type: ignore[no-any-return]

    return shown


async def stored(memory: InMemoryConnection, *, packs: bool, **other: Any) -> Definition:
    """A delivered schedule; meanwhile another one is being called."""
    schedules = Storage.over(memory, packs=lambda: packs).schedules
    one, claimed = definition(ClientId("shop"), headers=SEALED, **other), definition(ClientId("shop"), tail=2)
    await schedules.insert(one)
    record = commit(
        one.partition, expect_epoch=None, in_flight=frozenset({claimed.schedule_id}), writes=(delivered(one),)
    )
    assert await schedules.commit(record) == APPLIED
    return one


async def test_packed_cells_are_shown_with_what_is_in_them(memory: InMemoryConnection, show: Show) -> None:
    one = await stored(memory, packs=True)
    found = await show(one)
    assert found["row"] == {
        "due": "2026-06-21T00:00:00.000Z",
        "schedule_id": str(one.schedule_id),
        "created_at": "2026-06-20T23:59:59.000Z",
        "state": "delivered",
        "finished_at": "2026-06-21T00:00:00.005Z",
        "delivery": {
            "attempts": 1,
            "first_attempt_at": "2026-06-21T00:00:00.000Z",
            "last_status": 200,
            "fired_epoch": 1,
            "fired_by": "node-1@7",
        },
        "content": {
            "form": 1,
            "method": "POST",
            "url": "https://receiver.example/hook",
            "headers": SEALED,
            "body": {"bytes": 7, "text": "payload"},
            "options": "{}",
        },
    }
    where = found["partition"]
    assert (where["client_id"], where["poller_id"], where["minute"]) == ("shop", 0, "2026-06-21T00:00:00.000Z")
    assert (where["claim_epoch"], where["version"], where["in_flight_count"]) == (1, 1, 1)
    assert where["in_flight"] == [str(definition(ClientId("shop"), tail=2).schedule_id)]
    fields = dict(flat(found))
    assert (fields["row.content.body.text"], fields["row.delivery.last_status"]) == ("payload", 200)


async def test_columns_are_shown_as_columns(memory: InMemoryConnection, show: Show) -> None:
    row = (await show(await stored(memory, packs=False)))["row"]
    assert (row["kind"], row["url"], row["headers"], row["attempts"], row["attempt_base"]) == (
        "call",
        "https://receiver.example/hook",
        SEALED,
        1,
        0,
    )
    assert not {"content", "delivery"} & row.keys()


async def test_without_raw_either_form_is_what_programs_read(show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    for packs in (True, False):
        memory = InMemoryConnection()

        async def opened(settings: StorageSettings, memory: InMemoryConnection = memory) -> Storage:
            return Storage.over(memory)

        monkeypatch.setattr(module, "open_storage", opened)
        rows.append((await show(await stored(memory, packs=packs), raw=False))["row"])
    assert rows[0] == {name: value for name, value in rows[1].items() if name not in ("kind", "attempt_base")}
    assert (rows[0]["url"], rows[0]["last_status"]) == ("https://receiver.example/hook", 200)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", {"bytes": 0, "text": ""}),
        (b"\xff\x00", {"bytes": 2, "base64": "/wA="}),
        (
            "\u00e9".encode() * BYTES_SHOWN,
            {"bytes": 2 * BYTES_SHOWN, "note": f"the first {BYTES_SHOWN} bytes of it", "text": "\u00e9" * 2048},
        ),
    ],
)
async def test_bodies_are_text_where_they_are_and_never_long(
    memory: InMemoryConnection, show: Show, body: bytes, shown: dict[str, Any]
) -> None:
    assert (await show(await stored(memory, packs=True, body=body)))["row"]["content"]["body"] == shown


async def test_what_cannot_be_unpacked_is_shown_as_it_is(
    memory: InMemoryConnection, show: Show, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = b"\x02" + pack_content("POST", "u", "[]", b"", "{}")[1:]
    monkeypatch.setattr("cql.schedule_rows.pack_content", lambda *texts: later)
    monkeypatch.setattr("cql.schedule_rows.pack_delivery", lambda outcome: "soon")
    row = (await show(await stored(memory, packs=True)))["row"]
    assert row["content"]["unreadable"]["bytes"] == len(later)
    assert row["delivery"] == {"unreadable": "soon"}


async def test_a_partition_without_the_row_shows_the_header(memory: InMemoryConnection, show: Show) -> None:
    await stored(memory, packs=True)
    found = await show(definition(ClientId("shop"), offset=1, tail=9))
    assert found["row"] == {}
    assert found["partition"]["version"] == 1


async def test_a_missing_row_is_reported(memory: InMemoryConnection, show: Show) -> None:
    with pytest.raises(NoSuchRow, match="its minute is empty"):
        await show(definition(ClientId("shop")))
    with pytest.raises(NoSuchRow, match="is not the id of a schedule"):
        await stored_schedule(StorageSettings(), "shop", f"{START}", raw=True)
