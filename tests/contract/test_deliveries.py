"""A delivery is one text or several columns, and every read shows the same."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from cql.packed import unpack_delivery
from cql.schedule_rows import commit_items
from cql.storage import Storage
from cql.stored_rows import read_stored_row
from membership.conditional import APPLIED
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.schedules import Definition, Outcome, State
from tests.contract.builders import START, commit, definition, delivered, redelivered, update, write
from tests.contract.conftest import Names
from tests.contract.forms import shown

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENDED_AFTER_MS = 5


@pytest.fixture(autouse=True)
def form(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the form that other tests write with this storage."""
    monkeypatch.setattr(storage.schedules, "packs", storage.schedules.packs)


async def recorded(storage: Storage, names: Names, poller: int, *, packs: bool, **other: Any) -> Sequence[Definition]:
    """Three rows of a poller, the middle one delivered, with `other` replaced in its outcome."""
    storage.schedules.packs = lambda: packs
    rows = [definition(names.client(), offset=number, tail=number, poller_id=poller) for number in range(3)]
    for one in rows:
        await storage.schedules.insert(one)
    end = delivered(rows[1])
    end = replace(end, outcome=replace(end.outcome, **other))
    record = commit(rows[0].partition, expect_epoch=None, writes=(end,))
    assert await storage.schedules.commit(record) == APPLIED
    return rows


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"attempts": 3, "last_status": 299, "fired_by": "a node@with blanks 1"},
        {"state": State.FAILED, "reason": "exhausted"},
        {"reason": "superseded"},
        {"last_status": None},
        {"first_attempt_at": None},
        {"fired_by": None},
        {"last_error": "odd"},
        {"redelivered_at": START, "redelivered_after": 1},
    ],
)
async def test_every_read_shows_the_same(storage: Storage, names: Names, other: dict[str, Any]) -> None:
    packed = await recorded(storage, names, 1, packs=True, **other)
    plain = await recorded(storage, names, 2, packs=False, **other)
    assert await shown(storage, packed) == await shown(storage, plain)


@pytest.mark.parametrize("status", [204, None])
async def test_it_is_one_text_with_and_without_a_status(storage: Storage, names: Names, status: int | None) -> None:
    rows = await recorded(storage, names, 3, packs=True, last_status=status)
    found = await read_stored_row(storage.connection, rows[1].partition, rows[1].key)
    assert not {"attempts", "last_status", "fired_by"} & found.cells.keys()
    assert unpack_delivery(found.cells["delivery"]) == (1, rows[1].due, status, 1, "node-1@7")
    row = (await storage.schedules.read_page(rows[1].partition)).rows[1]
    assert (row.state, row.attempts, row.last_status) == (State.DELIVERED, 1, status)


@pytest.mark.parametrize("text", ["", "1 2", "1 soon 204 7 node-1@7", "1 1763836800123 204 seven node-1@7"])
async def test_an_unreadable_text_hides_no_other_row(
    storage: Storage, names: Names, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr("cql.schedule_rows.pack_delivery", lambda outcome: text)
    rows = await recorded(storage, names, 4, packs=True)
    for found in (await shown(storage, rows))[:-1]:
        assert found
    page = (await storage.schedules.read_page(rows[0].partition)).rows
    assert [row.state for row in page] == [None, State.DELIVERED, None]
    assert (page[1].attempts, page[1].fired_by, page[1].finished_at) == (None, None, rows[1].due + ENDED_AFTER_MS)


async def test_what_comes_after_shows_the_same(storage: Storage, names: Names) -> None:
    """A redelivery identifies the end by its instant, keeps columns unknown to it, and its own end replaces the
    first.
    """
    pollers = [await recorded(storage, names, poller, packs=packs) for poller, packs in ((1, True), (2, False))]
    at = UnixMillis(START + 900)
    for rows in pollers:
        one, where = rows[1], rows[0].partition
        stale = redelivered(one, at, expect=State.DELIVERED, ended_at=one.due + ENDED_AFTER_MS + 1)
        assert await storage.schedules.update(update(where, 3, stale, known=False)) != APPLIED
        again = redelivered(one, at, expect=State.DELIVERED, ended_at=one.due + ENDED_AFTER_MS)
        assert await storage.schedules.update(update(where, 4, again, known=False)) == APPLIED
    assert await shown(storage, pollers[0]) == await shown(storage, pollers[1])
    one = pollers[0][1]
    _, found = await storage.schedules.read_rows(one.partition, [one.key])
    row = found[one.key]
    assert (row.state, row.attempts, row.last_status) == ("retrying", 1, None)
    assert (row.first_attempt_at, row.fired_by, row.fired_epoch) == (one.due, "node-1@7", 1)
    for rows in pollers:
        outcome = Outcome(state=State.FAILED, attempts=2, finished_at=at, last_status=500, fired_by="node-2@1")
        end = write(rows[1], outcome, expect=State.RETRYING, expect_next=at)
        assert await storage.schedules.update(update(rows[0].partition, 5, end, known=False)) == APPLIED
    assert await shown(storage, pollers[0]) == await shown(storage, pollers[1])


async def test_a_conditional_write_of_a_state_is_not_packed(storage: Storage, names: Names) -> None:
    """A write that tests the row's state keeps to columns, since another process may have written the state."""
    one = definition(names.client(), poller_id=3)
    await storage.schedules.insert(one)
    storage.schedules.packs = lambda: True
    end = delivered(one, expect=State.SCHEDULED)
    record = commit(one.partition, expect_epoch=None, writes=(end,))
    (_, (name, _)) = commit_items(record, packs=True)
    assert name == "schedules.write_outcome_if_state"
    assert await storage.schedules.commit(record) == APPLIED
    _, rows = await storage.schedules.read_rows(one.partition, [one.key], serial=True)
    assert (rows[one.key].attempts, rows[one.key].fired_by) == (1, "node-1@7")
