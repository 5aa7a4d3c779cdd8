"""Follow-ups of a minute run in groups, each in one slot of the background budget."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from membership.errors import StoreUnavailable
from poller_cluster.minute.follow_up_runner import FOLLOW_UPS_AT_ONCE, FollowUpRunner
from poller_cluster.minute.steps import FollowUp
from poller_cluster.settings import BackgroundSettings
from scheduler_service.domain.ids import CronId, UnixMillis
from scheduler_service.domain.retry_rows import SUPERSEDED, retry_row_of
from scheduler_service.domain.schedules import Definition, Outcome, State
from scheduler_service.runtime.lifecycle import Tasks
from tests.simulation.sim_clock import SimClock
from tests.support.budgets import budget
from tests.support.minutes import DELIVERED, MINUTE, definition, retry_row
from tests.support.node_parts import node_runtime
from tests.support.virtual_loop import run_virtual, virtual_loop

ANSWER_SECONDS = 0.1


class Bench:
    """Replaces `ScheduleWriter`, and counts its concurrent requests."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.budget = budget(self.clock, BackgroundSettings(requests_at_once=1))
        self.tasks = Tasks(lambda name, error: self.crashes.append(error))
        self.crashes: list[BaseException] = []
        self.over = False
        self.refusals = 0
        self.asked: list[tuple[float, Definition]] = []
        self.acknowledged: list[FollowUp] = []
        self.letters = 0
        self.failed_runs: list[Definition] = []
        self.stopped_runs: list[Definition] = []
        self.judged_in_vain = 0
        self.reaches = True
        self.told: list[Outcome] = []
        self.followed: list[Definition] = []
        stand_in: Any = self
        self.runner = FollowUpRunner(
            writer=stand_in,
            reschedules=stand_in,
            books=stand_in,
            runtime=node_runtime(self.clock, spawn=self.tasks.spawn, budget=self.budget),
            over=lambda: self.over,
            run_failed=self.run_failed,
            run_stopped=self.run_stopped,
            on_acknowledged=self.acknowledged.append,
            tell=self.tell,
            tell_end=None,
        )

    async def run_failed(self, definition: Definition) -> None:
        self.failed_runs.append(definition)
        if self.judged_in_vain:
            self.judged_in_vain -= 1
            raise StoreUnavailable("planted")

    async def run_stopped(self, definition: Definition) -> None:
        self.stopped_runs.append(definition)

    async def move_original(self, definition: Definition, outcome: Outcome) -> bool:
        self.asked.append((asyncio.get_running_loop().time(), definition))
        await self.clock.sleep(ANSWER_SECONDS)
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailable("planted")
        return self.reaches

    async def tell(self, definition: Definition, outcome: Outcome) -> None:
        self.told.append(outcome)

    async def follow_original(self, definition: Definition) -> None:
        self.followed.append(definition)

    async def complete(self, definition: Definition, outcome: Outcome) -> None:
        await self.move_original(definition, outcome)

    async def dead_letter(self, definition: Definition, outcome: Outcome) -> None:
        self.letters += 1

    def submit(self, count: int, *, minute: int = MINUTE, outcome: Outcome = DELIVERED) -> None:
        for number in range(count):
            original = definition(number / 100, tail=number, minute=minute)
            self.runner.submit(FollowUp(retry_row(original, original.due + 90_000), outcome))

    def groups(self) -> list[int]:
        """The number of requests at each instant."""
        instants = [at for at, _ in self.asked]
        return [instants.count(at) for at in sorted(set(instants))]


def on_bench(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        bench = Bench()
        try:
            await scenario(bench)
        finally:
            await bench.tasks.close()
        assert bench.crashes == []
        assert bench.budget.slots.held == 0

    run_virtual(run)


def test_follow_ups_to_one_partition_are_carried_out_hundreds_at_a_time_one_group_after_the_other() -> None:
    async def scenario(bench: Bench) -> None:
        bench.submit(2 * FOLLOW_UPS_AT_ONCE + 7)
        await virtual_loop().advance(1.0)
        assert bench.groups() == [FOLLOW_UPS_AT_ONCE, FOLLOW_UPS_AT_ONCE, 7]
        assert len(bench.acknowledged) == len({one.key for one in bench.acknowledged}) == 2 * FOLLOW_UPS_AT_ONCE + 7
        assert len(bench.tasks) == 0

    on_bench(scenario)


def test_every_group_takes_a_slot() -> None:
    async def scenario(bench: Bench) -> None:
        for minute in range(3):
            bench.submit(5, minute=MINUTE + minute)
        await virtual_loop().advance(ANSWER_SECONDS / 2)
        assert (len(bench.asked), bench.budget.slots.waiting) == (5, 2)
        await virtual_loop().advance(1.0)
        assert bench.groups() == [5, 5, 5]

    on_bench(scenario)


def test_unanswered_follow_ups_are_repeated_after_a_pause_with_new_ones() -> None:
    async def scenario(bench: Bench) -> None:
        bench.submit(10)
        bench.refusals = 13
        await virtual_loop().advance(ANSWER_SECONDS / 2)
        bench.submit(10, minute=MINUTE)
        await virtual_loop().advance(5.0)
        first, second, *others = bench.groups()
        assert (first, second) == (10, 20)
        assert sum(others) == 3
        assert len(bench.acknowledged) == 20

    on_bench(scenario)


def test_no_follow_up_begins_after_the_minute_is_lost() -> None:
    async def scenario(bench: Bench) -> None:
        bench.submit(FOLLOW_UPS_AT_ONCE + 5)
        await virtual_loop().advance(ANSWER_SECONDS / 2)
        bench.over = True
        await virtual_loop().advance(5.0)
        assert len(bench.asked) == FOLLOW_UPS_AT_ONCE
        assert len(bench.tasks) == 0

    on_bench(scenario)


def test_a_failed_run_of_a_cron_is_judged_before_its_follow_up_is_acknowledged() -> None:
    async def scenario(bench: Bench) -> None:
        original = msgspec.structs.replace(definition(0.0, minute=MINUTE), cron_id=CronId("nightly"))
        row, failed = retry_row(original, original.due + 90_000), Outcome(state=State.FAILED, attempts=3)
        bench.judged_in_vain = 1
        bench.runner.submit(FollowUp(row, failed))
        await virtual_loop().advance(1.5 * ANSWER_SECONDS)
        assert (len(bench.failed_runs), bench.acknowledged) == (1, [])
        await virtual_loop().advance(10.0)
        assert (bench.failed_runs, len(bench.acknowledged)) == ([row, row], 1)
        bench.runner.submit(FollowUp(row, DELIVERED))
        bench.submit(1, outcome=failed)
        await virtual_loop().advance(1.0)
        assert (len(bench.failed_runs), len(bench.acknowledged)) == (2, 3), "it was delivered, or is no run"

    on_bench(scenario)


def test_a_failed_call_is_filed_before_its_end_is_carried() -> None:
    async def scenario(bench: Bench) -> None:
        bench.submit(3, outcome=Outcome(state=State.FAILED, attempts=3, reason="attempts"))
        await virtual_loop().advance(1.0)
        assert (bench.letters, len(bench.acknowledged)) == (3, 3)

    on_bench(scenario)


@pytest.mark.parametrize("reaches", [True, False])
def test_the_end_of_a_wait_counts_only_if_it_reaches_the_original(reaches: bool) -> None:
    """Else a word or a cancel was faster: there is no failure, and an event tells at most of the cancel."""

    async def scenario(bench: Bench) -> None:
        bench.reaches = reaches
        original = msgspec.structs.replace(
            definition(0.0, minute=MINUTE), cron_id=CronId("nightly"), options='{"ack":{"within_seconds":60}}'
        )
        deadline = retry_row_of(original, at=UnixMillis(original.due + 60_901), attempts=1, word="awaiting")
        failed = Outcome(state=State.FAILED, attempts=1, reason="exhausted")
        bench.runner.submit(FollowUp(deadline, failed, event=True))
        await virtual_loop().advance(1.0)
        assert len(bench.acknowledged) == 1
        assert (bench.letters, len(bench.failed_runs), len(bench.followed)) == ((1, 1, 0) if reaches else (0, 0, 1))
        (told,) = bench.told
        assert (told.state, told.reason) == ((State.FAILED, "exhausted") if reaches else (State.CANCELLED, SUPERSEDED))

    on_bench(scenario)
