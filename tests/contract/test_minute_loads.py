"""Loads of minutes: each writer replaces its own row, and a reader gets those of all writers of the days asked for."""

from uuid import UUID

import pytest

from cql.storage import Storage
from membership.conditional import Applied, Rejected
from scheduler_service.domain.ids import HOUR_MS, ClientId, Hour, Minute, hour_of
from scheduler_service.domain.minute_loads import HourLoad, Unwritten, loads_of
from scheduler_service.domain.schedules import Outcome, State
from tests.contract.builders import MINUTE, START, cancelled, definition, partition, retrying, update, write
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")
ONE, OTHER = UUID(int=1), UUID(int=2)
HOUR = hour_of(MINUTE)


def load(hour: int, writer: UUID, **rows: int) -> HourLoad:
    """`m7=3`: three rows in the seventh minute."""
    return HourLoad(Hour(hour), writer, tuple(rows.get(f"m{minute}", 0) for minute in range(60)))


async def test_rows_of_all_writers_come_back_by_hour(storage: Storage, names: Names) -> None:
    client_id, store = names.client(), storage.minute_loads
    now = HOUR * HOUR_MS
    loads = [load(HOUR + ahead, writer, m0=1, m59=ahead) for ahead in (0, 5, 23, 24, 60) for writer in (ONE, OTHER)]
    loads.append(load(HOUR, UUID(int=3), m1=-4, m2=1 << 30))
    await store.write([Unwritten(client_id, one, 1) for one in loads], now=now)
    await store.write([Unwritten(names.client("-other"), load(HOUR, ONE, m3=9), 1)], now=now)
    first, last = Minute(HOUR * 60 + 59), Minute((HOUR + 24) * 60)
    read = await store.read(client_id, first=first, last=last)
    assert sorted(read) == sorted(one for one in loads if one.hour <= HOUR + 24)
    await store.write([Unwritten(client_id, load(HOUR, ONE, m4=8), 2)], now=now)
    again = await store.read(client_id, first=first, last=first)
    assert sorted(again) == sorted([load(HOUR, ONE, m4=8), *(one for one in loads[1:] if one.hour == HOUR)])


async def test_what_the_stores_place_and_end_is_counted(storage: Storage, names: Names) -> None:
    client_id, counts = names.client(), storage.minute_loads.counts
    where = partition(client_id)
    rows = [definition(client_id, tail=tail, offset=tail) for tail in range(1, 6)]
    await storage.schedules.insert(rows[0])
    assert await storage.schedules.insert_many(rows[1:]) == [None] * 4
    built_in = definition(ClientId("$cron"), tail=9)
    await storage.schedules.insert(built_in)
    await storage.schedules.insert(definition(client_id, tail=7, created_at=None))
    assert counts.known(client_id, MINUTE) == 5, "built-in clients and rows that are not created yet count nothing"
    assert counts.known(built_in.client_id, MINUTE) == 0
    skip = write(rows[1], Outcome(state=State.SKIPPED, finished_at=rows[1].due), expect=State.SCHEDULED)
    assert isinstance(await storage.schedules.update(update(where, 1, cancelled(rows[0]), skip)), Applied)
    assert counts.known(client_id, MINUTE) == 3
    assert isinstance(await storage.schedules.update(update(where, 2, cancelled(rows[0]), skip)), Rejected)
    assert counts.known(client_id, MINUTE) == 3, "a rejected update ends nothing"
    again = retrying(rows[2], START + 600_000)
    assert isinstance(await storage.schedules.update(update(where, 3, again)), Applied)
    over = write(rows[2], Outcome(state=State.CANCELLED), expect=State.RETRYING)
    assert isinstance(await storage.schedules.update(update(where, 4, over)), Applied)
    assert counts.known(client_id, MINUTE) == 3, "its retry row counts, in its own minute"
    waiting = [row for row in counts.unwritten(limit=100_000) if row.client_id == client_id]
    await storage.minute_loads.write(waiting, now=START)
    read = await storage.minute_loads.read(client_id, first=Minute(MINUTE), last=Minute(MINUTE))
    assert loads_of(read, first=Minute(MINUTE), last=Minute(MINUTE)) == {MINUTE: 3}
