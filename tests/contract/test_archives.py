"""Archived days: only the run that holds the client marks them."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.archives import ArchivedDay
from scheduler_service.domain.ids import DAY_MS, ClientId, UnixMillis
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")

DAY = 1_795_219_200_000
"""2026-11-21."""
RUN, OTHER = UUID(int=1), UUID(int=2)


def archived(client_id: ClientId, *, days: int = 0, **other: Any) -> ArchivedDay:
    given = {"as_of": UnixMillis(DAY + 3 * DAY_MS), "rows": 1 << 40, "digest": "-" + "9" * 37, "place": "file:/there"}
    return ArchivedDay(client_id=client_id, day=UnixMillis(DAY + days * DAY_MS), **{**given, **other})


async def test_one_run_has_a_client(storage: Storage, names: Names) -> None:
    client, store = names.client(), storage.archives
    assert await store.read_run(client) is None
    assert await store.take(client, RUN, expected=None) == APPLIED
    assert await store.take(client, OTHER, expected=None) == Rejected(None)
    assert await store.take(client, RUN, expected=RUN) == APPLIED
    assert await store.take(client, OTHER, expected=RUN) == APPLIED
    assert await store.take(client, RUN, expected=RUN) == Rejected(None)
    assert await store.read_run(client) == OTHER
    assert await store.read(client, first=UnixMillis(0), last=UnixMillis(DAY * 2)) == []
    assert await store.take(client, None, expected=OTHER) == APPLIED
    assert await store.read_run(client) is None
    assert await store.take(names.client("other"), RUN, expected=OTHER) == Rejected(None)


async def test_who_has_the_client_marks_its_days(storage: Storage, names: Names) -> None:
    client, store = names.client(), storage.archives
    one = archived(client)
    assert await store.mark(one, run=RUN) == Rejected(None)
    await store.take(client, RUN, expected=None)
    assert await store.mark(one, run=OTHER) == Rejected(None)
    assert await store.mark(one, run=RUN) == APPLIED
    assert await store.read(client, first=one.day, last=one.day) == [one]
    again = archived(client, as_of=UnixMillis(DAY + 4 * DAY_MS), rows=0, digest="0", past_retention=True, stale=True)
    assert await store.mark(again, run=RUN) == APPLIED
    assert await store.read(client, first=one.day, last=one.day) == [again]
    await store.take(client, OTHER, expected=RUN)
    assert await store.mark(one, run=RUN) == Rejected(None)
    assert await store.read(client, first=one.day, last=one.day) == [again]


async def test_days_of_a_span(storage: Storage, names: Names) -> None:
    client, store = names.client(), storage.archives
    await store.take(client, RUN, expected=None)
    days = [archived(client, days=offset) for offset in (-40, -1, 0, 1, 40)]
    for one in reversed(days):
        await store.mark(one, run=RUN)
    assert await store.read(client, first=days[1].day, last=days[3].day) == days[1:4]
    assert await store.read(client, first=UnixMillis(days[1].day + 1), last=UnixMillis(days[3].day - 1)) == [days[2]]
    assert await store.read(client, first=days[3].day, last=days[1].day) == []
    assert await store.read(names.client("other"), first=days[0].day, last=days[4].day) == []


async def test_a_day_is_stale_until_it_is_archived_again(storage: Storage, names: Names) -> None:
    client, store = names.client(), storage.archives
    one = archived(client)
    assert await store.mark_stale(one) == Rejected(None)
    assert await store.read(client, first=one.day, last=one.day) == []
    await store.take(client, RUN, expected=None)
    await store.mark(one, run=RUN)
    assert await store.mark_stale(one) == APPLIED
    assert await store.read(client, first=one.day, last=one.day) == [msgspec.structs.replace(one, stale=True)]
    renewed = msgspec.structs.replace(one, as_of=UnixMillis(one.as_of + 1))
    await store.mark(renewed, run=RUN)
    assert await store.mark_stale(one) == Rejected(None)
    assert await store.read(client, first=one.day, last=one.day) == [renewed]
