"""Revisions of rows: written on condition of what was read, and shown by every read."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from cql.storage import Storage
from membership.conditional import APPLIED, Applied, Rejected
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.revisions import Revision
from scheduler_service.domain.schedules import (
    Content,
    Definition,
    ExternalUpdate,
    Outcome,
    PartitionHeader,
    Row,
    RowRevision,
    RowWrite,
    State,
    WriteRejection,
)
from tests.contract.builders import cancelled, commit, definition, retrying, update
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")

FIRST = Revision(1, ("aa",), "two words").text
SECOND = Revision(2, ("aa", "bb"), None).text
NEW = Content("PUT", "https://other.example/", '[["x","1"]]', b"\x00other", '{"timeout_seconds":3}', FIRST)


def revision(
    of: Definition, *, text: str = FIRST, expect: str | None = None, content: Content = NEW, **known: Any
) -> ExternalUpdate:
    write = RowRevision(key=of.key, content=content, revision=text, expect_revision=expect)
    values: dict[str, Any] = {"version": None, "version_known": True, **known}
    return ExternalUpdate(partition=of.partition, edits=UUID(int=int(text.split()[0])), revisions=(write,), **values)


async def shown(storage: Storage, of: Definition, *others: Definition) -> list[Row]:
    """The row by every read of the whole row; lean ones are filled by the read of content."""
    schedules, where, keys = storage.schedules, of.partition, [of.key, *(other.key for other in others)]
    content = await schedules.read_content(where, keys)
    lean = [
        (await schedules.read_page(where, lean=True)).rows,
        (await schedules.find_rows(where, keys, lean=True)).values(),
    ]
    (_, serial), (_, plain) = await asyncio.gather(
        schedules.read_rows(where, [of.key], serial=True), schedules.read_rows(where, keys)
    )
    whole = [
        (await schedules.read_page(where)).rows,
        (await schedules.read_to_call(where)).rows,
        (await schedules.find_rows(where, keys)).values(),
        serial.values(),
        plain.values(),
    ]
    found = [row for rows in lean for row in rows if row.key == of.key]
    assert all(row.url is None for row in found)
    filled = [row.filled(content[row.key]) for row in found]
    return [*filled, *(row for rows in whole for row in rows if row.key == of.key)]


def meant(row: Row) -> tuple[object, ...]:
    return row.method, row.url, row.headers, row.body, row.options, row.label, row.revision


@pytest.mark.parametrize("packs", [False, True])
async def test_a_revision_replaces_content_and_label_in_every_read(
    storage: Storage, names: Names, packs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage.schedules, "packs", lambda: packs)
    one, other = definition(names.client(), label="old"), definition(names.client(), offset=1, tail=2, label="old")
    for each in (one, other):
        await storage.schedules.insert(each)
    assert await storage.schedules.update(revision(one)) == APPLIED
    first = (NEW.method, NEW.url, NEW.headers, NEW.body, NEW.options, "two words", FIRST)
    assert {meant(row) for row in await shown(storage, one, other)} == {first}
    # A repeated create writes what it wrote first.
    await storage.schedules.insert(one)
    again = revision(one, text=SECOND, expect=FIRST, content=replace(NEW, body=b""))
    assert await storage.schedules.update(again) == APPLIED
    assert {meant(row) for row in await shown(storage, one, other)} == {(*first[:3], b"", first[4], None, SECOND)}
    assert {row.label for row in await shown(storage, other, one)} == {"old"}
    assert {row.revision for row in await shown(storage, other, one)} == {None}
    swept = await storage.schedules.sweep_page(one.partition)
    assert [row.revision for row in swept.rows] == [SECOND, None]
    assert swept.header.edits == UUID(int=2)


async def test_it_is_written_only_over_what_was_read(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    await storage.schedules.insert(one)
    assert await storage.schedules.update(revision(one)) == APPLIED
    header = PartitionHeader(edits=UUID(int=1))
    late = await storage.schedules.update(revision(one, text=SECOND))
    assert late == Rejected(WriteRejection(header, {one.key: (None, None)}, {one.key: FIRST}))
    claim = commit(one.partition, expect_epoch=None, edits=UUID(int=1), in_flight=frozenset({one.schedule_id}))
    assert await storage.schedules.commit(claim) == APPLIED
    late = await storage.schedules.update(revision(one, text=SECOND, expect=FIRST))
    assert isinstance(late, Rejected)
    assert late.current.header.in_flight == {one.schedule_id}


async def test_a_row_with_an_outcome_is_not_revised(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    await storage.schedules.insert(one)
    pointed = update(one.partition, 5, retrying(one, one.due + 60_000))
    assert await storage.schedules.update(pointed) == APPLIED
    answer = await storage.schedules.update(revision(one))
    assert isinstance(answer, Rejected)
    assert answer.current.rows == {one.key: ("retrying", UnixMillis(one.due + 60_000))}


async def test_who_copies_content_tests_the_revision(storage: Storage, names: Names) -> None:
    """Also where the write shares its request with those of others."""
    rows = [definition(names.client(), offset=number, tail=number + 1) for number in range(3)]
    for each in rows:
        await storage.schedules.insert(each)
    assert await storage.schedules.update(revision(rows[1])) == APPLIED

    def copied(number: int, of: Definition, expect: str | None) -> ExternalUpdate:
        outcome = Outcome(state=State.RETRYING, attempts=0, next_attempt_at=UnixMillis(of.due + 60_000))
        write = RowWrite(key=of.key, outcome=outcome, expect_state=State.SCHEDULED, expect_revision=expect)
        return update(of.partition, number, write)

    answers = await asyncio.gather(
        storage.schedules.update(copied(3, rows[0], None)),
        storage.schedules.update(copied(4, rows[1], None)),
        storage.schedules.update(update(rows[2].partition, 5, cancelled(rows[2]))),
    )
    assert [isinstance(answer, Applied) for answer in answers] == [True, False, True]
    lost = answers[1]
    assert isinstance(lost, Rejected)
    assert lost.current.rows == {rows[1].key: (None, None)}
    assert lost.current.revisions == {rows[1].key: FIRST}
    assert await storage.schedules.update(copied(6, rows[1], FIRST)) == APPLIED


async def test_a_reconciliation_sees_the_label_of_the_latest_revision(storage: Storage, names: Names) -> None:
    one, other = definition(names.client(), tail=1), definition(names.client(), tail=1)
    for made in (one, other):
        await storage.schedules.insert(made)
    assert await storage.schedules.update(revision(one)) == APPLIED
    assert [row.label for row in (await storage.schedules.review_page(one.partition)).rows] == ["two words"]
    again = revision(one, text=SECOND, expect=FIRST)
    assert await storage.schedules.update(again) == APPLIED
    assert [row.label for row in (await storage.schedules.review_page(one.partition)).rows] == [None]
    assert [row.label for row in (await storage.schedules.review_page(other.partition)).rows] == [other.label]
