"""The audit log: entries in two halves, listed newest first across days."""

import msgspec
import pytest

from cql.storage import Storage
from scheduler_service.domain.audit_log import (
    AuditEntry,
    EntryId,
    entry_id_before,
    first_entry_id,
    last_entry_id,
)
from scheduler_service.domain.ids import DAY_MS, ClientId, compose_schedule_id
from scheduler_service.runtime.randomness import SystemRandomness

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def start() -> int:
    """The beginning of a day that no other test uses."""
    return (2_000 + SystemRandomness().bits(17) * 20) * DAY_MS


def entry(at: int, tail: int = 1, **other: object) -> AuditEntry:
    values = {"actor": "ops", "key_id": "k1", "action": "create_key", "target": {"client_id": "shop"}} | other
    entry_id = EntryId(compose_schedule_id(due=at, poller_id=0, tail=tail))
    return AuditEntry(entry_id=entry_id, request_id="r1", **values)  # type: ignore[arg-type]


async def listed(
    storage: Storage, first: int, last: int, limit: int = 100, *, client_id: str | None = None
) -> list[AuditEntry]:
    whose = None if client_id is None else ClientId(client_id)
    found = await storage.audit_log.read_page(
        client_id=whose, first=first_entry_id(first), last=last_entry_id(last), limit=limit
    )
    return list(found)


async def test_an_entry_comes_back_as_far_as_it_was_written(storage: Storage, start: int) -> None:
    one = entry(start + 5)
    await storage.audit_log.begin(one)
    assert await listed(storage, start, start + 9) == [one]
    ended = msgspec.structs.replace(one, status=201, details={"key_id": "k9", "revision": 1 << 40})
    for _ in range(2):
        await storage.audit_log.end(ended)
    assert await listed(storage, start, start + 9) == [ended]
    bare = entry(start + 6, key_id=None, target={})
    await storage.audit_log.begin(bare)
    await storage.audit_log.end(msgspec.structs.replace(bare, status=409, problem="not-suspended"))
    assert [
        (got.status, got.problem, got.key_id, got.details) for got in await listed(storage, start + 6, start + 6)
    ] == [(409, "not-suspended", None, {})]


async def test_newest_first_over_days_within_both_ends(storage: Storage, start: int) -> None:
    times = [start, start + 1, start + DAY_MS - 1, start + DAY_MS, start + 3 * DAY_MS + 7, start + 4 * DAY_MS]
    entries = [entry(at, tail) for at in times for tail in (1, 2)]
    for one in entries:
        await storage.audit_log.begin(one)
    newest_first = entries[::-1]
    assert await listed(storage, start, times[-1]) == newest_first
    assert await listed(storage, start + 1, times[-1] - 1) == newest_first[2:-2]
    assert await listed(storage, start, times[-1], limit=5) == newest_first[:5]
    behind = entry_id_before(newest_first[4].entry_id)
    rest = await storage.audit_log.read_page(client_id=None, first=first_entry_id(start), last=behind, limit=100)
    assert list(rest) == newest_first[5:]
    assert await listed(storage, times[-1] + 1, times[-1] + DAY_MS) == []
    assert await listed(storage, times[-1], start) == []


async def test_the_beginning_of_time_is_a_day_too(storage: Storage) -> None:
    assert [one for one in await listed(storage, 0, 3) if one.actor != "ops"] == []


async def test_a_client_finds_what_was_done_to_it_over_days_and_nothing_else(storage: Storage, start: int) -> None:
    times = [start, start + 5, start + DAY_MS, start + 3 * DAY_MS + 7]
    mine = [entry(at, by_client=at == start + 5) for at in times]
    others = [entry(at, 2, target={"client_id": "bank"}) for at in times]
    of_nobody = [entry(at, 3, target={}) for at in times]
    for one in (*mine, *others, *of_nobody):
        await storage.audit_log.begin(one)
    ended = msgspec.structs.replace(mine[1], status=204, details={"key_id": "k9"})
    for _ in range(2):
        await storage.audit_log.end(ended)
    newest_first = [mine[3], mine[2], ended, mine[0]]
    assert await listed(storage, start, times[-1], client_id="shop") == newest_first
    assert await listed(storage, start + 1, times[-1] - 1, client_id="shop") == newest_first[1:3]
    assert await listed(storage, start, times[-1], limit=3, client_id="shop") == newest_first[:3]
    assert await listed(storage, start, times[-1], client_id="bank") == others[::-1]
    assert await listed(storage, start, times[-1], client_id="nobody") == []
    every = await listed(storage, start, times[-1])
    assert len(every) == 12
    assert [one for one in every if one.client_id == "shop"] == newest_first
