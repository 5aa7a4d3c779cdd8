"""`max_crons` holds, at the price of few counts."""

import pytest

from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.crons.row import CronMark, CronState
from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.ids import ClientId, CronId, UnixMillis
from scheduler_service.usecases.cron_counts import CREDIT_SECONDS, FULL_SECONDS, PAGE, CronCounts
from tests.support.api import NOW, ManualClock


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
        client_id=ClientId("shop"),
        poller_quota=1,
        poller_ceiling=1,
        state=ClientState.ACTIVE,
        settings=ClientSettings(max_crons=most),
        revision=1,
        created_at=UnixMillis(NOW),
    )


def judge(crons: Crons, clock: ManualClock) -> CronCounts:
    return CronCounts(crons=crons, clock=clock)  # type: ignore[arg-type]


async def fill(counts: CronCounts, crons: Crons, most: int) -> int:
    """Take until it is refused; how often it was not."""
    for taken in range(10 * most):
        try:
            await counts.take(client(most))
        except Conflict:
            return taken
        crons.add(1)
    raise AssertionError("nothing bounds it")


@pytest.mark.parametrize("most", [1, 2, 3, 100, 1_000])
async def test_no_more_than_the_setting_says(most: int) -> None:
    crons, clock = Crons(), ManualClock()
    assert await fill(judge(crons, clock), crons, most) == most


async def test_counting_is_rare() -> None:
    crons, clock = Crons(), ManualClock()
    counts = judge(crons, clock)
    for _ in range(2_500):
        await counts.take(client(10_000))
    assert crons.reads == 1
    clock.advance(CREDIT_SECONDS)
    await counts.take(client(10_000))
    assert crons.reads == 2


async def test_refusals_cost_one_count_in_five_seconds() -> None:
    crons, clock = Crons(), ManualClock()
    crons.add(3 * PAGE)
    counts = judge(crons, clock)
    for _ in range(100):
        with pytest.raises(Conflict):
            await counts.take(client(2 * PAGE))
    assert crons.reads == 2, "no more is counted than matters"
    crons.states.clear()
    clock.advance(FULL_SECONDS)
    await counts.take(client(2 * PAGE))


async def test_deleted_ones_do_not_count_and_make_room_at_once() -> None:
    crons, clock = Crons(), ManualClock()
    crons.add(2 * PAGE, CronState.DELETED)
    counts = judge(crons, clock)
    assert await fill(counts, crons, 5) == 5
    live = next(name for name, state in crons.states.items() if state is CronState.ACTIVE)
    crons.states[live] = CronState.DELETED
    counts.forget(ClientId("shop"))
    assert await fill(counts, crons, 5) == 1


async def test_processes_that_count_for_themselves_go_over_by_few() -> None:
    crons, clock = Crons(), ManualClock()
    processes = [judge(crons, clock) for _ in range(4)]
    for _ in range(10):
        for counts in processes:
            await fill(counts, crons, 1_000)
        clock.advance(CREDIT_SECONDS)
    assert 1_000 <= len(crons.states) < 1_000 + len(processes)
