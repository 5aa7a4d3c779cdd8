"""A cron whose runs keep failing is paused by nodes, and not called any more, through crashes and lost answers."""

from collections.abc import Sequence

import pytest

from cql.connection import Item
from scheduler_service.domain.audit_log import SYSTEM, first_entry_id, last_entry_id
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.crons.row import Cron, CronPause, CronState
from scheduler_service.domain.ids import MINUTE_MS
from scheduler_service.domain.instants import parse_instant
from scheduler_service.domain.schedules import Row, State
from tests.simulation.crons import CLAIMED_MS, SHOP, Crons, with_crons
from tests.simulation.receivers import Call
from tests.simulation.test_crons import to_the_next_minute
from tests.simulation.world import World, simulate

ONCE = RetrySettings(max_attempts=1)


async def begin(
    world: World,
    *,
    names: str = "a",
    after: int = 3,
    retry: RetrySettings = ONCE,
    quota: int = 1,
    rule: str = "* * * * *",
    **options: str,
) -> Crons:
    """A cron of a receiver that is well, and fails from now on."""
    crons = await with_crons(world, names=names, quota=quota)
    await world.change_client(SHOP, settings=ClientSettings(retry=retry))
    await crons.put("job", rule, pause_after_failures=after, **options)
    await world.advance(130.0)
    await to_the_next_minute(world, second=20.0)
    world.receiver.script = lambda call: 500
    return crons


def calls_of(crons: Crons) -> list[Call]:
    return sorted((call for call in crons.world.receiver.calls if call.cron_id == "job"), key=lambda call: call.at_ms)


async def failed(crons: Crons) -> list[Row]:
    return [row for _, row in sorted((await crons.rows("job")).items()) if row.state == State.FAILED]


async def paused(crons: Crons, *, revision: int = 2) -> CronPause:
    """The pause, decided once."""
    cron: Cron = await crons.read("job")
    if cron.state is not CronState.PAUSED or cron.pause is None or cron.pause.by != "failures":
        raise crons.world.violation(f"it is not paused: {cron.state} {cron.pause}")
    assert (cron.revision, cron.pause.revision) == (revision, revision)
    return cron.pause


def assert_not_called_after(crons: Crons, pause: CronPause, *, retried: bool = False) -> None:
    """Fires that were claimed before the pause are called."""
    for call in calls_of(crons):
        if call.at_ms > pause.at + CLAIMED_MS and not (retried and call.attempt > 1):
            raise crons.world.violation(f"{call.schedule_id} was called at {call.at_ms}, paused at {pause.at}")


def test_after_three_failed_runs_it_is_paused_and_a_resume_counts_again() -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world, names="ab")
        await world.advance(400.0)
        pause, rows = await paused(crons), await failed(crons)
        assert len(rows) == 3
        assert pause.note is not None
        assert pause.note.startswith("the last 3 runs failed")
        assert pause.note.endswith("status 500")
        assert 0 <= pause.at - (rows[-1].finished_at or 0) < 2_000
        assert_not_called_after(crons, pause)
        since, now = first_entry_id(pause.at - 1_000), last_entry_id(world.now_ms())
        (entry,) = await world.api_storage.audit_log.read_page(client_id=SHOP, first=since, last=now, limit=9)
        assert (entry.actor, entry.action, entry.status) == (SYSTEM, "pause_cron", 200)
        assert entry.details["note"] == pause.note
        assert entry.details["node_id"] in ("a", "b")
        resumed = world.now_ms()
        await crons.resume("job")
        await world.advance(90.0)
        assert (await crons.read("job")).state is CronState.ACTIVE, "one failure is not three"
        await world.advance(300.0)
        again = await paused(crons, revision=4)
        assert len([row for row in await failed(crons) if row.due > resumed]) == 3
        assert_not_called_after(crons, again)
        world.receiver.script = lambda call: 200
        await crons.resume("job")
        await world.advance(200.0)
        assert (await crons.read("job")).state is CronState.ACTIVE
        assert calls_of(crons)[-1].answer == 200

    simulate(scenario)


def test_a_delivered_run_ends_the_series() -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world)
        world.receiver.script = lambda call: 200 if call.due_ms // MINUTE_MS % 3 == 0 else 500
        await world.advance(900.0)
        assert (await crons.read("job")).revision == 1
        assert len(await failed(crons)) >= 8

    simulate(scenario)


def test_skipped_and_cancelled_runs_neither_count_nor_end_the_series() -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world, overlap="skip")
        world.receiver.script = lambda call: 500 if call.due_ms // MINUTE_MS % 2 else "timeout"
        for _ in range(2):
            await world.advance(60.0)
            coming = min(nominal for nominal in await crons.rows("job") if nominal > world.now_ms())
            await world.cancel_schedules.one(SHOP, (await crons.rows("job"))[coming].schedule_id)
            await world.advance(60.0)
        assert (await crons.read("job")).revision == 1
        await world.advance(60.0)
        pause, rows = await paused(crons), await crons.rows("job")
        assert len(await failed(crons)) == 3
        assert sum(row.state == State.CANCELLED and row.reason != "cron-changed" for row in rows.values()) == 2
        assert_not_called_after(crons, pause)

    simulate(scenario)


@pytest.mark.parametrize("taken_over", [False, True])
def test_retries_belong_to_one_run(taken_over: bool) -> None:
    """The last attempt is made minutes later, by another owner."""

    async def scenario(world: World) -> None:
        retry = RetrySettings(max_attempts=3, base_seconds=80, cap_seconds=80)
        crons = await begin(world, names="ab", after=2, retry=retry, rule="*/5 * * * *")
        for _ in range(6):
            await world.advance(100.0)
            if taken_over:
                await world.kill("a")
                world.add_node("a")
                await world.advance(20.0)
                await world.kill("b")
                world.add_node("b")
        await world.advance(900.0 - 6 * (120.0 if taken_over else 100.0))
        pause, rows = await paused(crons), await failed(crons)
        assert [row.attempts for row in rows] == [3, 3]
        assert len([call for call in calls_of(crons) if call.answer == 500]) >= 6
        assert_not_called_after(crons, pause)

    simulate(scenario)


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        *(("crons.write", fault) for fault in ("crash-before", "crash-after", "refuse", "lose", "late")),
        *(("crons.read_standings", fault) for fault in ("crash-before", "refuse")),
        *(("cron_runs.read_newest", fault) for fault in ("crash-before", "refuse")),
    ],
)
def test_an_owner_that_dies_or_hears_nothing_between_failure_and_pause(step: str, fault: str) -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world)
        hit: list[int] = []

        def hook(kind: str, items: Sequence[Item]) -> str | None:
            if items[0][0] != step or len(hit) >= 3 or world.now_ms() - last < 0:
                return None
            hit.append(world.now_ms())
            return fault

        last = world.now_ms() + 140_000
        plan = world.nodes["a"].connection.plan
        plan.hook, plan.crash, plan.late_seconds = hook, lambda: None, 5.0
        await world.advance(165.0)
        assert hit, "nothing was interrupted"
        if fault.startswith("crash"):
            await world.kill("a")
            world.add_node("b")
        await world.advance(400.0)
        pause = await paused(crons)
        assert len(await failed(crons)) == 3, "a run was called once too often"
        assert_not_called_after(crons, pause)

    simulate(scenario)


def test_the_next_fire_is_not_called_although_the_owner_died_before_the_pause() -> None:
    """The new owner meets the fire before it has read the minute of the failed run to its end."""

    async def scenario(world: World) -> None:
        crons = await begin(world, after=1)
        stopped: list[int] = []

        def dies(kind: str, items: Sequence[Item]) -> str | None:
            return "crash-before" if items[0][0] == "crons.write" else None

        plan = world.nodes["a"].connection.plan
        plan.hook, plan.crash = dies, lambda: stopped.append(world.now_ms())
        await world.advance(45.0)
        assert stopped
        await world.kill("a")
        await to_the_next_minute(world, second=58.0)
        await world.advance(600.0)
        world.add_node("b")
        await world.advance(300.0)
        pause = await paused(crons)
        assert len(await failed(crons)) == 1
        assert_not_called_after(crons, pause)
        assert len([call for call in calls_of(crons) if call.answer == 500]) == 1

    simulate(scenario)


@pytest.mark.parametrize("seed", [1, 3])
@pytest.mark.parametrize("well_again", [False, True])
def test_runs_that_wait_are_not_called_after_the_pause(well_again: bool, seed: int) -> None:
    """They are deferred, or held while their turn is near, and checked again then."""

    async def scenario(world: World) -> None:
        retry = RetrySettings(max_attempts=40, base_seconds=5, cap_seconds=5, deadline_seconds=250)
        crons = await begin(world, after=1, retry=retry, overlap="skip", waits="buffer_all")
        first = world.now_ms() + MINUTE_MS
        world.receiver.script = lambda call: 200 if well_again and call.due_ms > first else 500
        world.receiver.latency_seconds = 8.0
        await world.advance(900.0)
        pause, rows = await paused(crons), await crons.rows("job")
        assert len([row for row in rows.values() if row.state == State.CANCELLED]) >= 2
        later = {call.schedule_id for call in calls_of(crons) if call.at_ms > pause.at + CLAIMED_MS}
        assert len(later) <= (0 if well_again else 1), "one was claimed when the failed one gave its turn up"

    simulate(scenario, seed=seed)


def test_a_change_while_a_slow_owner_judges_the_runs_wins() -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world)
        await world.advance(145.0)
        world.pause("a")
        await crons.put("job", "* * * * *", pause_after_failures=3, label="new")
        changed = world.now_ms()
        await world.advance(8.0)
        world.resume("a")
        await world.advance(100.0)
        assert (await crons.read("job")).revision == 2
        await world.advance(400.0)
        await paused(crons, revision=3)
        assert len([row for row in await failed(crons) if row.due > changed]) >= 3

    simulate(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_random_runs(seed: int) -> None:
    async def scenario(world: World) -> None:
        crons = await begin(world, names="abc", after=world.rng.choice([1, 2, 4]), quota=2)
        for _ in range(12):
            name = world.rng.choice("abc")
            match world.rng.randrange(4):
                case 0:
                    await world.kill(name)
                    await world.advance(world.rng.uniform(0, 40))
                    world.add_node(name)
                case 1:
                    world.pause(name)
                    await world.advance(world.rng.uniform(1, 30))
                    world.resume(name)
                case 2:
                    for node in world.nodes.values():
                        node.connection.plan.lose_answer = node.connection.plan.refuse = 0.1
                    await world.advance(world.rng.uniform(1, 90))
                    for node in world.nodes.values():
                        node.connection.plan.lose_answer = node.connection.plan.refuse = 0.0
                case _:
                    await world.stop(name)
                    world.add_node(name)
            await world.advance(world.rng.uniform(0, 60))
            await world.revive()
        await world.advance(300.0)
        await world.revive()
        await world.advance(300.0)
        pause = await paused(crons)
        assert_not_called_after(crons, pause)
        nominal = [parse_instant(call.nominal_due) for call in calls_of(crons) if call.answer == 500]
        assert max(nominal) <= pause.at + CLAIMED_MS

    simulate(scenario, seed=seed)
