"""`max_crons` holds, and needs few counts."""

import pytest

from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.crons.row import CronMark, CronState
from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.ids import ClientId, CronId, UnixMillis
from scheduler_service.usecases.cron_counts import CREDIT_SECONDS, FULL_SECONDS, PAGE, CronCounts
from tests.support.api import NOW, ManualClock

SHOP = ClientId("shop")


class Crons:
    """The marks of one client; `reads` counts pages."""

    def __init__(self) -> None:
        self.states: dict[str, CronState] = {}
        self.reads = 0

    async def read_marks(self, client_id: ClientId, *, after: CronId, limit: int) -> list[CronMark]:
        self.reads += 1
        found = [CronMark(CronId(name), self.states[name], None, UnixMillis(NOW)) for name in sorted(self.states)]
        return [mark for mark in found if mark.cron_id > after][:limit]

    def add(self, count: int, state: CronState = CronState.ACTIVE) -> None:
        self.states |= {f"{state}-{len(self.states) + one:06}": state for one in range(count)}


def client(most: int) -> Client:
    return Client(
        client_id=SHOP,
        poller_quota=1,
        poller_ceiling=1,
        state=ClientState.ACTIVE,
        settings=ClientSettings(max_crons=most),
        revision=1,
        created_at=UnixMillis(NOW),
    )


def judge(crons: Crons, clock: ManualClock) -> CronCounts:
    return CronCounts(crons=crons, clock=clock)  # type: ignore[arg-type]


async def take(counts: CronCounts, most: int, *, again: bool = False) -> list[int]:
    """Take one; returns how many rows were read, page by page."""
    rows: list[int] = []
    async with counts.reserve(client(most), again=again, has_read=lambda read, size: rows.append(read)):
        return rows


def delete(counts: CronCounts, crons: Crons) -> None:
    standing = counts.standing(SHOP)
    live = next(name for name, state in crons.states.items() if state is CronState.ACTIVE)
    crons.states[live] = CronState.DELETED
    counts.deleted(SHOP, standing)


async def fill(counts: CronCounts, crons: Crons, most: int) -> int:
    """Take until it is refused; returns how often it was not."""
    for taken in range(10 * most):
        try:
            await take(counts, most)
        except Conflict:
            return taken
        crons.add(1)
    raise AssertionError("nothing bounds it")


@pytest.mark.parametrize("most", [1, 2, 3, 100, 1_000])
async def test_no_more_than_the_setting_says(most: int) -> None:
    crons, clock = Crons(), ManualClock()
    assert await fill(judge(crons, clock), crons, most) == most


async def test_crons_are_counted_rarely() -> None:
    crons, clock = Crons(), ManualClock()
    counts = judge(crons, clock)
    for _ in range(2_500):
        await take(counts, 10_000)
    assert crons.reads == 1
    clock.advance(CREDIT_SECONDS)
    await take(counts, 10_000)
    assert crons.reads == 2


async def test_the_caller_is_told_what_was_read() -> None:
    crons, clock = Crons(), ManualClock()
    crons.add(2 * PAGE)
    crons.add(7, CronState.DELETED)
    counts = judge(crons, clock)
    assert [await take(counts, 10_000) for _ in range(2)] == [[PAGE, PAGE, 7], []]


@pytest.mark.parametrize("live", [0, 99])
async def test_creating_and_deleting_crons_is_counted_once_a_minute(live: int) -> None:
    crons, clock = Crons(), ManualClock()
    crons.add(live)
    counts = judge(crons, clock)
    for _ in range(500):
        await take(counts, 100)
        crons.add(1)
        delete(counts, crons)
    assert crons.reads == 1
    clock.advance(CREDIT_SECONDS)
    assert await fill(counts, crons, 100) == 100 - live


async def test_deleted_ones_are_bounded_and_their_ids_can_be_used_again() -> None:
    crons, clock = Crons(), ManualClock()
    crons.add(PAGE, CronState.DELETED)
    counts = judge(crons, clock)
    for _ in range(100):
        await take(counts, 100)
        crons.add(1)
        delete(counts, crons)
    reads = crons.reads
    for _ in range(100):
        with pytest.raises(Conflict, match="in the last 7 days, this client has the 1100 crons that are stored"):
            await take(counts, 100)
        clock.advance(0.01)
    await take(counts, 100, again=True)
    clock.advance(CREDIT_SECONDS)
    for _ in range(100):
        with pytest.raises(Conflict, match="deleted"):
            await take(counts, 100)
    assert crons.reads == reads + 2, "two pages, once"
    del crons.states[next(iter(crons.states))]
    clock.advance(FULL_SECONDS)
    await take(counts, 100)


async def test_a_deletion_that_a_count_may_have_seen_is_counted_again() -> None:
    crons, clock = Crons(), ManualClock()
    counts = judge(crons, clock)
    assert await fill(counts, crons, 5) == 5
    standing = counts.standing(SHOP)
    crons.states[next(iter(crons.states))] = CronState.DELETED
    clock.advance(FULL_SECONDS)
    await take(counts, 5)
    crons.add(1)
    counts.deleted(SHOP, standing)
    assert await fill(counts, crons, 5) == 0


async def test_a_deletion_makes_no_room_where_there_are_more_than_may_be() -> None:
    crons, clock = Crons(), ManualClock()
    crons.add(12)
    counts = judge(crons, clock)
    for _ in range(7):
        assert await fill(counts, crons, 5) == 0
        delete(counts, crons)
    assert await fill(counts, crons, 5) == 0
    delete(counts, crons)
    assert await fill(counts, crons, 5) == 1


async def test_refusals_cost_one_count_in_five_seconds() -> None:
    crons, clock = Crons(), ManualClock()
    crons.add(3 * PAGE)
    counts = judge(crons, clock)
    for _ in range(100):
        with pytest.raises(Conflict):
            await take(counts, PAGE)
    assert crons.reads == 2, "no more is counted than matters"
    crons.states.clear()
    clock.advance(FULL_SECONDS)
    await take(counts, PAGE)


async def test_deleted_ones_do_not_count_and_make_room_at_once() -> None:
    crons, clock = Crons(), ManualClock()
    crons.add(PAGE - 5, CronState.DELETED)
    counts = judge(crons, clock)
    assert await fill(counts, crons, 5) == 5
    delete(counts, crons)
    assert await fill(counts, crons, 5) == 1


@pytest.mark.parametrize("deletions", [0, 20])
async def test_processes_that_count_for_themselves_go_over_by_few(deletions: int) -> None:
    crons, clock = Crons(), ManualClock()
    processes = [judge(crons, clock) for _ in range(4)]
    for _ in range(10):
        for counts in processes:
            await fill(counts, crons, 1_000)
            for _ in range(deletions):
                delete(counts, crons)
            await fill(counts, crons, 1_000)
        clock.advance(CREDIT_SECONDS)
    live = sum(state is CronState.ACTIVE for state in crons.states.values())
    assert 1_000 <= live < 1_000 + len(processes)
