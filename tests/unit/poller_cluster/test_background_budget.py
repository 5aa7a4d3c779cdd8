"""Which requests get a slot of the background budget, and when."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from poller_cluster.background_budget import MINUTES_AT_REST, WINDOW_SECONDS, BackgroundBudget, minutes_per_client
from poller_cluster.settings import BackgroundSettings
from scheduler_service.domain.ids import ClientId
from tests.simulation.sim_clock import SimClock
from tests.support.budgets import budget
from tests.support.virtual_loop import run_virtual, virtual_loop

HOG, OTHER = ClientId("hog"), ClientId("other")
ANSWER_SECONDS = 0.01


class Bench:
    def __init__(self, *, slots: int = 16, pause: float = 5.0) -> None:
        self.clock = SimClock()
        settings = BackgroundSettings(requests_at_once=slots, longest_pause_seconds=pause)
        self.budget: BackgroundBudget = budget(self.clock, settings)
        self.began: list[tuple[float, ClientId]] = []
        self.under_way = self.most = 0
        self.tasks: list[asyncio.Task[None]] = []

    def ask(self, client_id: ClientId, times: int) -> None:
        for _ in range(times):
            self.tasks.append(asyncio.get_running_loop().create_task(self._ask(client_id)))

    async def _ask(self, client_id: ClientId) -> None:
        async with self.budget.slot(client_id):
            self.began.append((self.clock.monotonic(), client_id))
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            try:
                await self.clock.sleep(ANSWER_SECONDS)
            finally:
                self.under_way -= 1

    async def storage(self, *, seconds: float, answered: bool, rate: float = 20.0) -> None:
        """Report other requests of the node to storage, with their answers."""
        for _ in range(int(seconds * rate)):
            await virtual_loop().advance(1 / rate)
            self.budget.observe(0.002 if answered else 2.0, answered)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def on_bench(scenario: Callable[[Bench], Awaitable[None]], **given: float) -> None:
    async def run() -> None:
        bench = Bench(**given)  # type: ignore[arg-type]
        try:
            await scenario(bench)
        finally:
            await bench.close()
        assert (bench.budget.slots.held, bench.budget.slots.waiting) == (0, 0)

    run_virtual(run)


def test_requests_under_way_are_bounded_by_slots() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ask(HOG, 50)
        await virtual_loop().advance(0)
        assert (bench.under_way, bench.budget.slots.waiting) == (4, 46)
        await virtual_loop().advance(1.0)
        assert (len(bench.began), bench.most) == (50, 4)

    on_bench(scenario)


def test_a_long_queue_of_one_client_costs_another_one_turn() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ask(HOG, 1000)
        await virtual_loop().advance(0)
        bench.ask(OTHER, 3)
        await virtual_loop().advance(2 * ANSWER_SECONDS)
        assert sum(client_id == OTHER for _, client_id in bench.began) == 3

    on_bench(scenario)


def test_requests_trickle_with_jittered_pauses_until_storage_answers() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.storage(seconds=8, answered=False)
        assert bench.budget.pace.pause_seconds == 5.0
        bench.ask(HOG, 1000)
        await bench.storage(seconds=60, answered=False)
        instants = [at for at, _ in bench.began]
        pauses = {round(later - at, 1) for at, later in itertools.pairwise(instants)}
        assert 60 / 7.5 - 1 <= len(instants) <= 60 / 2.5 + 1
        assert len(pauses) > 3
        assert all(2.5 <= pause <= 7.6 for pause in pauses)
        await bench.storage(seconds=20, answered=True)
        assert bench.budget.pace.size == 16
        assert len(bench.began) == 1000

    on_bench(scenario)


def test_a_window_that_adds_slots_wakes_the_waiters() -> None:
    async def scenario(bench: Bench) -> None:
        held = [bench.budget.slot(HOG) for _ in range(4)]
        for slot in held:
            await slot.__aenter__()
        bench.ask(OTHER, 1)
        await virtual_loop().advance(WINDOW_SECONDS)
        assert bench.began == []
        bench.budget.observe(0.001, True)
        await virtual_loop().advance(0)
        assert len(bench.began) == 1
        for slot in held:
            await slot.__aexit__(None, None, None)

    on_bench(scenario)


def test_a_cancelled_request_takes_no_slot() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ask(HOG, 10)
        await virtual_loop().advance(0)
        for task in bench.tasks[2:7]:
            task.cancel()
        await virtual_loop().advance(1.0)
        assert len(bench.began) == 4 + 3

    on_bench(scenario)


def test_a_request_cancelled_at_its_turn_returns_its_slot() -> None:
    async def scenario(bench: Bench) -> None:
        bench.ask(HOG, 5)
        await virtual_loop().advance(0)
        first, last = bench.tasks[0], bench.tasks[4]
        first.add_done_callback(lambda _: last.cancel())
        await virtual_loop().advance(1.0)
        bench.ask(HOG, 4)
        await virtual_loop().advance(0)
        assert bench.under_way == 4

    on_bench(scenario)


@pytest.mark.parametrize(("minutes", "most"), [(1, 1), (2, 1), (3, 1), (4, 2), (9, 4)])
def test_half_of_the_minutes_in_recovery_may_be_one_clients(minutes: int, most: int) -> None:
    assert minutes_per_client(minutes) == most


def test_a_clients_backlog_of_minutes_leaves_room_for_anothers() -> None:
    async def scenario(bench: Bench) -> None:
        places = bench.budget.minutes
        waiting = [asyncio.ensure_future(places.acquire(HOG)) for _ in range(10)]
        await virtual_loop().advance(0)
        assert sum(task.done() for task in waiting) == 2
        async with asyncio.timeout(1):
            await places.acquire(OTHER)
        places.release(HOG)
        await virtual_loop().advance(0)
        assert sum(task.done() for task in waiting) == 3
        for task in waiting:
            task.cancel()

    on_bench(scenario)


def test_a_minute_at_rest_gives_its_place_back_once_and_counts_until_it_ends() -> None:
    async def scenario(bench: Bench) -> None:
        first = await bench.budget.minute_place(HOG)
        await bench.budget.minute_place(HOG)
        third = asyncio.ensure_future(bench.budget.minute_place(HOG))
        await virtual_loop().advance(0)
        assert not third.done()
        for _ in range(2):
            first.rest()
        await virtual_loop().advance(0)
        assert (third.done(), bench.budget.minutes.held) == (True, 2)
        for _ in range(2):
            first.end()
        first.rest()
        assert bench.budget.minutes.held == 2
        third.result().end()
        assert bench.budget.minutes.held == 1

    on_bench(scenario)


def test_minutes_at_rest_are_bounded_for_a_client_and_for_the_node() -> None:
    async def scenario(bench: Bench) -> None:
        resting = []
        for client in (HOG, OTHER):
            for _ in range(MINUTES_AT_REST // 2):
                place = await bench.budget.minute_place(client)
                assert place.may_rest
                place.rest()
                resting.append(place)
            assert not bench.budget.may_rest(client)
            assert resting[-1].may_rest
        assert not bench.budget.may_rest(ClientId("third"))
        resting[0].end()
        assert bench.budget.may_rest(HOG)
        assert bench.budget.may_rest(ClientId("third"))

    on_bench(scenario)
