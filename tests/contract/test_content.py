"""A schedule's content is one cell or five, and every read shows the same."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from cql.connection import UNSET
from cql.memory.connection import InMemoryConnection
from cql.packed import FORM, UNREADABLE
from cql.schedule_rows import definition_item
from cql.storage import Storage
from membership.conditional import APPLIED
from scheduler_service.domain.clients import WriteConsistency
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.schedules import Definition, Kind
from tests.contract.builders import START, cancelled, commit, definition, update
from tests.contract.conftest import Names
from tests.contract.forms import shown

pytestmark = pytest.mark.asyncio(loop_scope="session")

RETRY_ROW: dict[str, Any] = {
    "kind": Kind.RETRY_ROW,
    "attempt_base": 2,
    "origin_due": UnixMillis(START - 60_001),
    "nominal_due": UnixMillis(START - 7),
    "options": '{"retry":{"max_attempts":3}}',
}


@pytest.fixture(autouse=True)
def form(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the form that other tests write with this storage."""
    monkeypatch.setattr(storage.schedules, "packs", storage.schedules.packs)


async def insert(storage: Storage, *rows: Definition, packs: bool) -> None:
    storage.schedules.packs = lambda: packs
    for one in rows:
        await storage.schedules.insert(one)


def three(names: Names, poller: int, **other: Any) -> list[Definition]:
    """Three rows of a poller, the middle one changed by `other`."""
    rows = [definition(names.client(), offset=number, tail=number, poller_id=poller) for number in range(3)]
    rows[1] = replace(rows[1], **other)
    return rows


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"body": b""},
        {"body": bytes(range(256)), "method": "DELETE", "headers": "[]"},
        {"url": "https://receiver.example/\u00e9\u2603\U0001f600", "headers": '[["x","\u00e9"]]', "options": ""},
        {"url": "https://receiver.example/" + "p" * 2_000, "headers": f'[["x","{"y" * 70_000}"]]', "body": bytes(9)},
        {"label": "a label", "ordering_key": "key", "cron_id": "nightly", "nominal_due": UnixMillis(START - 7)},
        {"created_at": None, "rescheduled_from": definition(ClientId("other")).schedule_id},
        RETRY_ROW,
    ],
)
async def test_every_read_shows_the_same(storage: Storage, names: Names, other: dict[str, Any]) -> None:
    packed, plain = three(names, 1, **other), three(names, 2, **other)
    await insert(storage, *packed, packs=True)
    await insert(storage, *plain, packs=False)
    found = await shown(storage, packed)
    assert found == await shown(storage, plain)
    assert found[0][1].url == packed[1].url
    assert found[0][1].body == packed[1].body


async def test_retry_rows_of_a_commit_show_the_same(storage: Storage, names: Names) -> None:
    pollers = three(names, 1), three(names, 2)
    for rows, packs in zip(pollers, (True, False), strict=True):
        await insert(storage, rows[0], rows[2], packs=packs)
        retry_rows = (replace(rows[1], **RETRY_ROW),)
        assert (
            await storage.schedules.commit(commit(rows[0].partition, expect_epoch=None, retry_rows=retry_rows))
            == APPLIED
        )
    assert await shown(storage, pollers[0]) == await shown(storage, pollers[1])


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("created", [True, False])
async def test_a_late_announcement_leaves_the_row_as_it_was_created(
    storage: Storage, names: Names, announced: bool, created: bool
) -> None:
    """In each combination of the two forms: a writer repeats an announcement that got no answer."""
    one = definition(names.client(), rescheduled_from=definition(ClientId("other")).schedule_id, label="moved")
    before = replace(one, created_at=None)
    await insert(storage, before, packs=announced)
    (row,) = (await storage.schedules.read_page(one.partition)).rows
    assert (row.defined, row.announced, row.url, row.body) == (False, True, one.url, one.body)
    await insert(storage, one, packs=created)
    assert await storage.schedules.update(update(one.partition, 1, cancelled(one))) == APPLIED
    (row,) = (await storage.schedules.read_page(one.partition)).rows
    await insert(storage, before, packs=announced)
    assert (await storage.schedules.read_page(one.partition)).rows == [row]
    assert (row.created_at, row.url, row.body, row.state) == (one.created_at, one.url, one.body, "cancelled")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x01",
        bytes([FORM]) + bytes(15),
        bytes([FORM + 1]) + bytes(16) + b"of a later program",
        bytes([FORM]) + b"\x00\x00\x00\x04" * 4 + b"POSThttp",
        bytes([FORM]) + b"\xff" * 16 + b"longer than there is",
        bytes([FORM]) + b"\x00\x00\x00\x01" * 4 + b"\xff{[{",
    ],
)
async def test_unreadable_content_hides_no_other_row(
    storage: Storage, names: Names, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    rows = three(names, 4)
    await insert(storage, rows[0], rows[2], packs=True)
    with monkeypatch.context() as patch:
        patch.setattr("cql.schedule_rows.pack_content", lambda *texts: content)
        await insert(storage, rows[1], packs=True)
    for found in (await shown(storage, rows))[:-1]:
        assert found
    page = (await storage.schedules.read_page(rows[0].partition)).rows
    assert [row.url for row in page] == [rows[0].url, None, rows[2].url]
    assert page == (await storage.schedules.read_to_call(rows[0].partition)).rows
    told = await storage.schedules.read_content(rows[0].partition, [one.key for one in rows])
    for bad in (page[1], told[rows[1].key]):
        assert (bad.method, bad.headers, bad.body, bad.options) == (None, UNREADABLE, content, UNREADABLE)


@pytest.mark.parametrize("first", [True, False])
async def test_the_cell_holds_where_a_row_has_both_forms(storage: Storage, names: Names, first: bool) -> None:
    """The values are equal then, except for headers that were encrypted again."""
    client = names.client()
    one, other = (definition(client, headers=f"by {'cell' if packs else 'columns'}") for packs in (first, not first))
    await insert(storage, one, packs=first)
    await insert(storage, other, packs=not first)
    (row,) = (await storage.schedules.read_to_call(one.partition)).rows
    assert (row.headers, row.body) == ("by cell", one.body)


@pytest.mark.parametrize("packs", [True, False])
@pytest.mark.parametrize("consistency", ["LOCAL_QUORUM", "EACH_QUORUM"])
async def test_every_way_to_insert_takes_the_form_that_may_be_written(
    names: Names, packs: bool, consistency: WriteConsistency
) -> None:
    memory = InMemoryConnection()
    storage = Storage.over(memory)
    storage.schedules.packs = lambda: packs
    one, several, begun, retry_row = (definition(names.client(), tail=tail) for tail in range(4))
    await storage.schedules.insert(one, consistency=consistency)
    assert await storage.schedules.insert_many([several], consistency=consistency) == [None]
    answer = asyncio.get_running_loop().create_future()
    storage.schedules.begin_insert(begun, answer.set_result, consistency=consistency)
    assert await answer is None
    assert await storage.schedules.commit(commit(one.partition, expect_epoch=None, retry_rows=(retry_row,))) == APPLIED
    rows = memory.rows("schedules")
    assert [row["content"] is not None for row in rows] == [packs] * 4
    assert [row["url"] is None for row in rows] == [packs] * 4


async def test_default_values_are_left_unset() -> None:
    name, values = definition_item(definition(ClientId("shop")), packs=True)
    assert name == "schedules.insert_packed"
    assert [value for value in values[5:] if value is not UNSET] == [values[6], START - 1000]
    name, values = definition_item(definition(ClientId("shop"), **RETRY_ROW), packs=True)
    assert [values[5], values[-1]] == ["copy", 2]
