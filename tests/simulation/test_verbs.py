"""A receiver that asks in its answers for another instant, or for an end, is obeyed once, through crashes and lost
answers."""

import asyncio
from collections.abc import Callable

import pytest

from poller_cluster.minute import machine
from poller_cluster.minute.follow_ups import FollowUps
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.crons.row import Cron, CronState
from scheduler_service.domain.schedules import Outcome, Row, State
from scheduler_service.domain.verbs import CRON_STOPPED, VERBS, Asked
from scheduler_service.usecases import schedule_writer
from tests.simulation.creates import CreateRecord
from tests.simulation.crons import SHOP, with_crons
from tests.simulation.faults import FaultPlan
from tests.simulation.receivers import Call
from tests.simulation.test_redeliver import crashes, inserts
from tests.simulation.world import World, simulate

STEP_MS = 45_000
ON_TIME_MS = 1_500


async def shop(world: World, *, names: str = "a", **settings: object) -> None:
    retry = RetrySettings(base_seconds=3, max_attempts=2)
    known = {"retry": retry, "receiver_verbs": VERBS} | settings
    await world.add_client("shop", quota=2, settings=ClientSettings(**known))  # type: ignore[arg-type]
    for name in names:
        world.add_node(name)
    await world.advance(8)


def snoozes(times: int) -> Callable[[Call], Asked | None]:
    """Asks for its next call `STEP_MS` after the present one was wanted, in the first `times` attempts."""
    return lambda call: Asked(call_at=call.due_ms + call.attempt * STEP_MS) if call.attempt <= times else None


async def row_of(world: World, asked: CreateRecord) -> Row:
    row = await world.row_of(asked)
    assert row is not None
    return row


def assert_obeyed(asked: CreateRecord, *, times: int, slack_ms: float = ON_TIME_MS) -> None:
    """Each snooze is one call, at its instant or (after a node's death) a little later."""
    wanted = {attempt: asked.due + (attempt - 1) * STEP_MS for attempt in range(1, times + 2)}
    assert sorted({call.attempt for call in asked.calls}) == sorted(wanted)
    for call in asked.calls:
        late = call.at_ms - wanted[call.attempt]
        assert late >= -1, f"attempt {call.attempt} came {-late} ms early"
        assert late <= slack_ms or call.redelivery, f"attempt {call.attempt} came {late} ms late"


def test_a_snoozed_schedule_is_called_at_the_instants_asked_for_and_fails_not_by_them() -> None:
    async def scenario(world: World) -> None:
        await shop(world)
        world.receiver.asks = snoozes(4)
        asked = await world.create("shop", world.now_ms() + 3_000)
        await world.advance(20)
        row = await row_of(world, asked)
        assert (row.state, row.reason, row.next_attempt_at) == ("retrying", "snoozed", asked.due + STEP_MS)
        await world.settle_down()
        assert_obeyed(asked, times=4)
        row = await row_of(world, asked)
        assert (row.state, row.attempts, row.reason) == ("delivered", 5, None)
        made = await world.truth.attempts.read(asked.client_id, asked.schedule_id)
        assert [(each.attempt, each.snoozed) for each in made] == [*((n, True) for n in range(1, 5)), (5, False)]

    simulate(scenario)


async def fails_after_snoozes(world: World) -> None:
    """The retry policy allows two attempts; they are counted from the last snooze."""
    await shop(world)
    world.receiver.asks = snoozes(2)
    world.receiver.script = lambda call: 200 if call.attempt <= 2 else 500
    asked = await world.create("shop", world.now_ms() + 3_000)
    await world.settle_down()
    row = await row_of(world, asked)
    assert (row.state, row.reason, row.attempts) == ("failed", "exhausted", 4)


def test_the_retry_policy_counts_from_the_last_snooze() -> None:
    simulate(fails_after_snoozes)


async def dies_before_the_retry_row(world: World, *, fault: str = "crash-before") -> None:
    await shop(world, names="a")
    world.receiver.asks = snoozes(2)
    asked = await world.create("shop", world.now_ms() + 3_000)
    world.nodes["a"].connection.plan.hook = crashes(fault, inserts)
    await world.advance(8)
    assert len(asked.calls) == 1
    await world.kill("a")
    world.add_node("b")
    await world.settle_down()
    assert_obeyed(asked, times=2, slack_ms=60_000)
    assert len(asked.calls) == 3


@pytest.mark.parametrize("fault", ["crash-before", "crash-after"])
def test_an_owner_that_dies_over_a_snooze_leaves_it_to_the_next(fault: str) -> None:
    async def scenario(world: World) -> None:
        await dies_before_the_retry_row(world, fault=fault)

    simulate(scenario)


def test_rows_behind_a_snoozed_one_do_not_wait_for_it() -> None:
    async def scenario(world: World) -> None:
        await shop(world)
        first = await world.create("shop", world.now_ms() + 3_000, ordering_key="order")
        behind = await world.create("shop", world.now_ms() + 3_500, ordering_key="order")
        world.receiver.asks = lambda call: snoozes(1)(call) if call.schedule_id == str(first.schedule_id) else None
        first.in_line = 1
        await world.advance(6)
        assert [len(asked.calls) for asked in (first, behind)] == [1, 1]
        await world.settle_down()
        assert_obeyed(first, times=1)

    simulate(scenario)


def test_what_is_not_allowed_is_what_its_status_says() -> None:
    async def scenario(world: World) -> None:
        await shop(world, receiver_verbs=("not-again",))
        world.receiver.asks = snoozes(1)
        asked = await world.create("shop", world.now_ms() + 3_000)
        await world.settle_down()
        assert ((await row_of(world, asked)).state, len(asked.calls)) == ("delivered", 1)
        world.receiver.asks = lambda call: Asked(not_again=True)
        world.receiver.script = lambda call: 489
        refused = await world.create("shop", world.now_ms() + 3_000)
        await world.settle_down()
        row = await row_of(world, refused)
        assert (row.state, row.reason, len(refused.calls)) == ("failed", "not-again", 1)

    simulate(scenario)


@pytest.mark.parametrize("seed", range(1, 9))
def test_no_snooze_is_lost_or_doubled_while_nodes_die_and_storage_fails(seed: int) -> None:
    async def scenario(world: World) -> None:
        await shop(world, names="abc")
        world.receiver.asks = snoozes(3)
        world.receiver.latency_seconds = 0.4
        asked = [await world.create("shop", world.now_ms() + 3_000 + 400 * number) for number in range(12)]
        for name in "abc":
            world.nodes[name].connection.plan = FaultPlan(refuse=0.02, lose_answer=0.04)
            await world.advance(world.rng.random() * 40)
            await world.kill(name)
            world.add_node(name + "2")
        await world.settle_down()
        for one in asked:
            assert_obeyed(one, times=3, slack_ms=60_000)
            for attempt in range(1, 5):
                plain = [call for call in one.calls if call.attempt == attempt and not call.redelivery]
                assert len(plain) <= 1
            assert (await row_of(world, one)).state == "delivered"

    simulate(scenario, seed=seed)


async def stopped_cron(world: World, *, dies: bool = False) -> None:
    """A cron whose receiver stops it in its second run; with `dies`, the node dies right after that was recorded."""
    crons = await with_crons(world, names="a")
    await world.change_client(SHOP, settings=ClientSettings(receiver_verbs=VERBS))
    await crons.put("job", "* * * * *")
    await world.advance(70)
    calls = [call for call in world.receiver.calls if call.cron_id == "job"]
    world.receiver.asks = lambda call: Asked(stop_cron=True) if call.cron_id == "job" else None
    if dies:
        stored = world.nodes["a"].connection.plan
        stored.hook = crashes("crash-before", lambda request, items: any("audit" in name for name, _ in items))
    await world.advance(60)
    if dies:
        assert (await crons.read("job")).state is CronState.ACTIVE
        world.receiver.asks = lambda call: None
        await world.kill("a")
        world.add_node("b")
    await world.advance(180)
    cron: Cron = await crons.read("job")
    assert cron.state is CronState.PAUSED
    assert cron.pause is not None
    assert (cron.pause.by, cron.revision) == ("request", 2)
    assert (cron.pause.note or "").startswith("stopped by the receiver of the run due ")
    stopped = [row for _, row in sorted((await crons.rows("job")).items()) if row.reason == CRON_STOPPED]
    assert [row.state for row in stopped] == [State.DELIVERED]
    made = [call for call in world.receiver.calls if call.cron_id == "job"]
    assert len(made) > len(calls)
    await world.advance(120)
    assert len([call for call in world.receiver.calls if call.cron_id == "job"]) == len(made)


@pytest.mark.parametrize("dies", [False, True])
def test_a_receiver_stops_the_cron_of_its_run(dies: bool) -> None:
    async def scenario(world: World) -> None:
        await stopped_cron(world, dies=dies)

    simulate(scenario)


def _uncounted(patch: pytest.MonkeyPatch) -> None:
    """The retry row of a snooze has no mark of it."""
    patch.setattr(schedule_writer, "begun_again", lambda definition, outcome: definition)


def _forgotten(patch: pytest.MonkeyPatch) -> None:
    """A snooze and a stop require nothing in other partitions."""
    require = FollowUps.require

    def forgetful(self: FollowUps, row: Row, outcome: Outcome) -> None:
        if outcome.reason not in ("snoozed", CRON_STOPPED):
            require(self, row, outcome)

    patch.setattr(FollowUps, "require", forgetful)


def _unseen(patch: pytest.MonkeyPatch) -> None:
    """The sweep passes over a run whose answer stops its cron."""
    patch.setattr(machine, "CRON_STOPPED", "no reason")


async def stopped_cron_whose_node_dies(world: World) -> None:
    await stopped_cron(world, dies=True)


@pytest.mark.parametrize(
    ("plant", "scenario"),
    [
        (_uncounted, fails_after_snoozes),
        (_forgotten, dies_before_the_retry_row),
        (_forgotten, stopped_cron),
        (_unseen, stopped_cron_whose_node_dies),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    scenario: Callable[[World], "asyncio.Future[None]"],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        simulate(scenario)
