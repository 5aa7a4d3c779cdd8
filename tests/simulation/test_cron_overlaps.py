"""Runs of a cron whose policy forbids it never overlap, by retries, triggers, backfills, crashes or lost answers."""

import asyncio
from itertools import groupby, pairwise

import pytest

from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.ids import MINUTE_MS, minute_of, minute_start
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import State
from tests.simulation.crons import SHOP, Crons, with_crons
from tests.simulation.receivers import Call
from tests.simulation.world import World, simulate

POLICIES = {
    "skip": {"overlap": "skip"},
    "buffer_one": {"overlap": "skip", "waits": "buffer_one"},
    "buffer_all": {"overlap": "skip", "waits": "buffer_all"},
    "cancel_other": {"overlap": "skip", "waits": "cancel_other"},
}
RETRY = RetrySettings(base_seconds=20, cap_seconds=40, max_attempts=12, deadline_seconds=1_000)


def calls_of(crons: Crons, cron_id: str = "job") -> list[Call]:
    found = [call for call in crons.world.receiver.calls if call.cron_id == cron_id]
    return sorted(found, key=lambda call: call.at_ms)


def assert_never_two(crons: Crons, *, least_ms: float = 0.0) -> None:
    """Once another run is called, the one before is not called any more; nor was it being called."""
    calls = calls_of(crons)
    blocks = [schedule_id for schedule_id, _ in groupby(calls, key=lambda call: call.schedule_id)]
    if len(blocks) != len(set(blocks)):
        twice = next(one for one in blocks if blocks.count(one) > 1)
        raise crons.world.violation(f"{twice} was called again after a later run of its cron was")
    for before, after in pairwise(calls):
        if before.schedule_id != after.schedule_id and after.at_ms - before.at_ms < least_ms:
            raise crons.world.violation(f"{after.schedule_id} was called while {before.schedule_id} was")


async def begin(world: World, policy: str, *, names: str = "a", latency: float = 0.01) -> Crons:
    crons = await with_crons(world, names=names)
    await world.change_client(SHOP, settings=ClientSettings(retry=RETRY))
    world.receiver.latency_seconds = latency
    await crons.put("job", "* * * * *", **POLICIES[policy])
    await world.advance(130.0)
    return crons


async def broken_for(world: World, seconds: float) -> int:
    began = world.now_ms()
    world.receiver.script = lambda call: 500
    await world.advance(seconds)
    world.receiver.script = lambda call: 200
    return began


def test_skip_passes_over_what_is_due_while_a_run_is_retried() -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world, "skip")
        began = await broken_for(world, 200.0)
        await world.advance(300.0)
        rows = await crons.rows("job")
        skipped = {nominal for nominal, row in rows.items() if row.state == State.SKIPPED}
        assert {rows[nominal].reason for nominal in skipped} == {"overlap"}
        assert len(skipped) in (2, 3)
        assert min(skipped) > began
        assert_never_two(crons)

    simulate(scenario)


@pytest.mark.parametrize("policy", ["skip", "cancel_other"])
def test_a_run_that_ends_just_before_the_next_is_due_costs_no_other(policy: str) -> None:
    """Rows are claimed seconds ahead; whether two overlap is decided when the later one is due."""

    async def scenario(world: World) -> None:
        crons = await begin(world, policy)
        world.receiver.latency_seconds = 6.0
        for _ in range(4):
            await world.advance_to(minute_start(minute_of(world.now_ms()) + 1) + 50_500)
            await crons.trigger("job")
        await world.advance(60.0)
        rows = await crons.rows("job")
        assert not [row for row in rows.values() if row.state in (State.SKIPPED, State.CANCELLED)]
        ended = [call.at_ms % MINUTE_MS for call in calls_of(crons) if call.at_ms % MINUTE_MS < 50_000]
        assert max(ended) < 1_000, "each fire is made when it is due"
        assert_never_two(crons, least_ms=2_900)

    simulate(scenario)


def test_buffer_all_calls_each_after_the_one_before_in_order() -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world, "buffer_all", latency=4.0)
        await broken_for(world, 200.0)
        await world.advance(500.0)
        await crons.check()
        rows = await crons.rows("job")
        ended = [row for nominal, row in rows.items() if nominal < world.now_ms() - MINUTE_MS]
        assert {row.state for row in ended} == {State.DELIVERED}
        assert_never_two(crons, least_ms=1_900)
        order = [call.nominal_due for call in calls_of(crons)]
        assert order == sorted(order)

    simulate(scenario)


def test_buffer_one_lets_one_wait_and_skips_the_others() -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world, "buffer_one")
        await broken_for(world, 250.0)
        await world.advance(300.0)
        rows = await crons.rows("job")
        late = [
            row for row in rows.values() if row.state == State.DELIVERED and (row.finished_at or 0) - row.due > 20_000
        ]
        assert len(late) == 2, "the one that was retried, and the one that waited"
        skipped = [row for row in rows.values() if row.state == State.SKIPPED]
        assert len(skipped) in (2, 3)
        assert_never_two(crons)

    simulate(scenario)


def test_cancel_other_cancels_the_run_that_waits_for_its_retry() -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world, "cancel_other")
        await broken_for(world, 250.0)
        await world.advance(200.0)
        rows = await crons.rows("job")
        cancelled = [row for row in rows.values() if row.state == State.CANCELLED]
        assert {row.reason for row in cancelled} == {"overlap"}
        assert len(cancelled) in (3, 4)
        assert not [row for row in rows.values() if row.state in (State.SKIPPED, State.FAILED)]
        assert_never_two(crons)

    simulate(scenario)


def test_cancel_other_does_not_interrupt_a_call() -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world, "cancel_other")
        world.receiver.latency_seconds = 30.0
        await world.advance(200.0)
        world.receiver.latency_seconds = 0.01
        await world.advance(100.0)
        rows = await crons.rows("job")
        assert not [row for row in rows.values() if row.state in (State.SKIPPED, State.CANCELLED, State.FAILED)]
        assert_never_two(crons)

    simulate(scenario)


@pytest.mark.parametrize("policy", POLICIES)
def test_triggers_and_backfills_keep_to_the_policy(policy: str) -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world, policy, names="ab", latency=6.0)
        await crons.pause("job")
        paused = world.now_ms()
        await world.advance(400.0)
        await crons.resume("job")
        resumed = world.now_ms()
        await world.advance(75.0)
        backfill = asyncio.ensure_future(crons.backfill("job", paused, resumed))
        for _ in range(12):
            await world.advance(world.rng.uniform(1.0, 15.0))
            await crons.trigger("job")
        promised = await backfill
        await world.advance(400.0)
        assert_never_two(crons, least_ms=2_900)
        made = {call.nominal_due for call in calls_of(crons)}
        rows = await crons.rows("job")
        assert len(promised) >= 5
        assert all(rows[nominal].state == State.DELIVERED for nominal in promised), "a backfill is never skipped"
        assert len(made) > len(promised)

    simulate(scenario)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_trigger_before_a_fire_that_is_claimed_already_does_not_run_beside_it(policy: str) -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world, policy)
        world.receiver.latency_seconds = 8.0
        for second in (56.0, 57.0, 58.0, 59.0):
            await world.advance_to(minute_start(minute_of(world.now_ms()) + 1) + second * 1_000)
            await crons.trigger("job")
        await world.advance(150.0)
        assert_never_two(crons, least_ms=3_900)

    simulate(scenario)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("taken_over", [False, True])
def test_a_backfill_waits_for_a_run_that_waits_for_its_retry(policy: str, taken_over: bool) -> None:
    """Fires of the past have earlier ids than the run that has started."""

    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="ab", quota=1)
        await world.change_client(SHOP, settings=ClientSettings(retry=RETRY))
        await crons.put("job", "*/10 * * * *", **POLICIES[policy])
        await world.advance_to(minute_start(minute_of(world.now_ms()) // 10 * 10 + 10) + 5_000)
        start = world.now_ms() - 3_600_000
        world.receiver.script = lambda call: 500 if call.attempt < 6 else 200
        await world.advance(600.0)
        assert calls_of(crons)
        world.receiver.script = lambda call: 500 if call.attempt < 4 and call.due_ms > start + 3_500_000 else 200
        await crons.trigger("job")
        await world.advance(3.0)
        promised = await crons.backfill("job", start, start + 3_000_000)
        if taken_over:
            for name in "ab":
                await world.advance(4.0)
                await world.kill(name)
                world.add_node(name)
        await world.advance(580.0)
        assert len(promised) == 5
        assert {call.nominal_due for call in calls_of(crons)} >= {format_instant(nominal) for nominal in promised}
        assert_never_two(crons)

    simulate(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_random_runs_draw_the_policy(seed: int) -> None:
    async def scenario(world: World) -> None:
        policy = world.rng.choice(list(POLICIES))
        crons = await begin(world, policy, names="abc", latency=1.0)
        for _ in range(14):
            name = world.rng.choice("abc")
            match world.rng.randrange(6):
                case 0:
                    await world.kill(name)
                    await world.advance(world.rng.uniform(0, 40))
                    world.add_node(name)
                case 1:
                    await world.stop(name)
                    world.add_node(name)
                case 2:
                    world.pause(name)
                    await world.advance(world.rng.uniform(1, 30))
                    world.resume(name)
                case 3:
                    await broken_for(world, world.rng.uniform(20, 150))
                case 4:
                    for node in world.nodes.values():
                        node.connection.plan.lose_answer = node.connection.plan.refuse = 0.05
                    await world.advance(world.rng.uniform(1, 90))
                    for node in world.nodes.values():
                        node.connection.plan.lose_answer = node.connection.plan.refuse = 0.0
                case _:
                    await crons.trigger("job")
            await world.advance(world.rng.uniform(0, 60))
            await world.revive()
        await world.advance(300.0)
        await world.revive()
        await world.advance(400.0)
        assert_never_two(crons)
        rows = await crons.rows("job")
        open_ = [nominal for nominal, row in rows.items() if not row.ended and nominal < world.now_ms() - 5 * MINUTE_MS]
        if policy != "buffer_all":
            assert open_ == []
        recent = [call for call in calls_of(crons) if call.at_ms > world.now_ms() - 200_000]
        assert recent, "it goes on"

    simulate(scenario, seed=seed)
