"""A window is redelivered, cancelled or counted: each row once, whatever happens to the nodes at work, and the counts
agree.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from cql.connection import Item
from poller_cluster.settings import NodeSettings, ReconciliationSettings
from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.reconciliations import HANDLED as APPLIES_TO
from scheduler_service.domain.reconciliations import MAX_RUNNING, Action, ReconciliationState, Seen
from scheduler_service.domain.schedules import State
from tests.simulation.faults import FaultPlan
from tests.simulation.reconciliations import GIVES_UP, Reconciliations, given_up, small_slices
from tests.simulation.world import World, simulate

POINTERS = "schedules.write_outcome_if_ended_at"
COPIES = "schedules.insert_"
HANDLED = "reconciled_"
PROGRESS = "reconciliations.write"
WRITES = (POINTERS, COPIES, HANDLED, PROGRESS)
STEPS = (*WRITES, "schedules.review", "reconciliations.read")
INTERRUPTED = [(step, fault) for step in WRITES for fault in ("crash-before", "crash-after")]
UNANSWERED = [(step, fault) for step in STEPS for fault in ("refuse", "lose")]
TRIANGULAR = [number * (number + 1) // 2 for number in range(1, 60)]
LATE = [(POINTERS, "late"), (PROGRESS, "late")]


@pytest.fixture(autouse=True)
def slices(monkeypatch: pytest.MonkeyPatch) -> None:
    small_slices(monkeypatch)


async def shop(world: World, *, names: str = "a", count: int = 12, spread_ms: int = 8_000) -> Reconciliations:
    await world.add_client("shop", quota=2, settings=GIVES_UP)
    for name in names:
        world.add_node(name)
    await world.advance(8)
    reconciliations = Reconciliations(world)
    if count:
        await given_up(world, count, spread_ms=spread_ms)
    return reconciliations


def window(world: World) -> dict[str, float]:
    dues = [one.due for one in world.asked.values()]
    return {"start": min(dues), "end": max(dues) + 1}


async def redelivered_once(world: World, reconciliations: Reconciliations) -> None:
    """Reconcile the whole window, wait for the end, and check it."""
    asked = list(world.asked.values())
    asked_id = await reconciliations.ask(Action.REDELIVER, State.FAILED, **window(world))
    done = await reconciliations.ended(asked_id)
    assert done.state is ReconciliationState.FINISHED
    assert done.progress.outcomes == {Seen.REDELIVERED: len(asked)}
    assert sum(done.progress.seen.values()) == len(asked)
    await reconciliations.check_handled(done, [one.schedule_id for one in asked])
    await world.settle_down()
    await reconciliations.check_redelivered_once(asked)


def test_a_window_is_redelivered_and_what_fails_again_is_left_alone() -> None:
    async def scenario(world: World) -> None:
        reconciliations = await shop(world)
        outside = await world.create("shop", window(world)["end"] + 1_000)
        await world.advance(10)
        asked = [one for one in world.asked.values() if one is not outside]
        asked_id = await reconciliations.ask(Action.REDELIVER, State.FAILED, start=asked[0].due, end=asked[-1].due + 1)
        done = await reconciliations.ended(asked_id)
        assert (done.progress.seen, done.progress.outcomes) == ({State.FAILED: 12}, {Seen.REDELIVERED: 12})
        assert done.minutes_done == done.minutes_total
        await world.settle_down()
        await reconciliations.check_redelivered_once(asked)
        assert len(outside.calls) == 1
        assert world.nodes["a"].node.reconciler.finished == 1

    simulate(scenario)


def test_redeliveries_are_spread_over_a_share_of_what_every_poller_is_guaranteed() -> None:
    async def scenario(world: World) -> None:
        reconciliations = await shop(world, count=120, spread_ms=50)
        world.receiver.calls.clear()
        await redelivered_once(world, reconciliations)
        pollers: dict[tuple[str, int], int] = Counter()
        for call in world.receiver.calls:
            asked = world.asked[call.schedule_id]
            pollers[str(asked.schedule_id.int >> 58 & 0xF), int(call.at_ms // 1_000)] += 1
        # 500 a minute are 8.3 a second.
        assert max(pollers.values()) <= 9
        assert len(pollers) >= 12

    simulate(scenario)


@pytest.mark.parametrize(("step", "fault"), [*INTERRUPTED, *UNANSWERED, *LATE])
def test_every_step_is_interrupted(step: str, fault: str) -> None:
    async def scenario(world: World) -> None:
        reconciliations = await shop(world)
        hit = 0
        crashed: list[int] = []

        def hook(kind: str, items: Sequence[Item]) -> str | None:
            nonlocal hit
            if not any(name.startswith(step) for name, _ in items):
                return None
            hit += 1
            # Less and less often, or nothing would ever be done.
            return fault if hit in TRIANGULAR else None

        def plant() -> None:
            plan = world.nodes["a"].connection.plan
            plan.hook, plan.crash = hook, lambda: crashed.append(hit)

        async def supervise() -> None:
            seen = 0
            while True:
                await world.api_clock.sleep(1.0)
                if len(crashed) > seen:
                    seen = len(crashed)
                    await world.kill("a")
                    world.add_node("a")
                    plant()

        plant()
        supervisor = asyncio.get_running_loop().create_task(supervise())
        try:
            await redelivered_once(world, reconciliations)
        finally:
            supervisor.cancel()
        assert hit > 3, "nothing was interrupted"

    simulate(scenario)


@pytest.mark.parametrize("seed", range(1, 5))
def test_two_work_on_it_while_answers_get_lost_and_one_dies(seed: int) -> None:
    async def scenario(world: World) -> None:
        reconciliations = await shop(world, names="ab")
        asked = list(world.asked.values())
        for node in world.nodes.values():
            node.connection.plan = FaultPlan(refuse=0.03, lose_answer=0.1)
        asked_id = await reconciliations.ask(Action.REDELIVER, State.FAILED, **window(world))
        world.api_connection.plan = FaultPlan(refuse=0.03, lose_answer=0.2, slow=0.2)
        meddler = asyncio.get_running_loop().create_task(reconciliations.meddle(asked_id))
        await reconciliations.advance(6)
        await world.kill("a")
        await reconciliations.advance(12)
        world.add_node("a")
        done = await reconciliations.ended(asked_id)
        world.heal()
        await asyncio.wait_for(meddler, 60.0)
        assert done.progress.outcomes == {Seen.REDELIVERED: len(asked)}
        assert sum(done.progress.seen.values()) == len(asked)
        await reconciliations.check_handled(done, [one.schedule_id for one in asked])
        await world.settle_down()
        await reconciliations.check_redelivered_once(asked)

    simulate(scenario, seed=seed)


def test_the_work_moves_with_its_poller_and_a_zombie_that_wakes_changes_nothing() -> None:
    async def scenario(world: World) -> None:
        reconciliations = await shop(world, names="ab")
        asked_id = await reconciliations.ask(Action.REDELIVER, State.FAILED, **window(world))
        stopped: list[str] = []

        def stop(name: str) -> None:
            stopped.append(name)
            world.pause(name)

        for name in "ab":
            plan = world.nodes[name].connection.plan

            def hook(kind: str, items: Sequence[Item], name: str = name) -> str | None:
                if not stopped and any(each == POINTERS for each, _ in items):
                    stop(name)
                return None

            plan.hook = hook
        await reconciliations.advance(20)
        assert stopped
        done = await reconciliations.ended(asked_id)
        world.resume(stopped[0])
        await reconciliations.advance(20)
        assert await reconciliations.read(asked_id) == done
        await world.revive()
        await world.settle_down()
        await reconciliations.check_redelivered_once(list(world.asked.values()))

    simulate(scenario)


def test_a_store_that_is_away_holds_it_up() -> None:
    async def scenario(world: World) -> None:
        reconciliations = await shop(world, names="ab")
        asked_id = await reconciliations.ask(Action.REDELIVER, State.FAILED, **window(world))
        await reconciliations.advance(5)
        world.cut_off()
        await reconciliations.advance(15)
        world.heal()
        done = await reconciliations.ended(asked_id)
        assert done.progress.outcomes == {Seen.REDELIVERED: len(world.asked)}
        await world.settle_down()
        await reconciliations.check_redelivered_once(list(world.asked.values()))

    simulate(scenario)


@pytest.mark.parametrize(("after", "dies"), [(0, False), (1, False), (0, True), (2, True)])
def test_what_is_stopped_stays_so_and_counts_what_was_done(after: int, dies: bool) -> None:
    """Progress from before the stop arrives long after it, or its node is dead by then."""

    async def scenario(world: World) -> None:
        world.node_settings = NodeSettings(reconciliations=ReconciliationSettings(redeliver_share=0.01))
        reconciliations = await shop(world)
        written = 0

        def late(kind: str, items: Sequence[Item]) -> str | None:
            nonlocal written
            if not any(name == PROGRESS for name, _ in items):
                return None
            written += 1
            return "late" if written > after else None

        plan = world.nodes["a"].connection.plan
        plan.hook, plan.late_seconds = late, 10.0
        asked_id = await reconciliations.ask(Action.REDELIVER, State.FAILED, **window(world))
        while written <= after:
            await reconciliations.advance(1)
        if dies:
            await world.kill("a")
        assert (await reconciliations.stop(asked_id)).state is ReconciliationState.STOPPED
        if dies:
            world.add_node("b")
        plan.hook = None
        await reconciliations.advance(60)
        found = await reconciliations.read(asked_id)
        assert (found.state, found.settled) == (ReconciliationState.STOPPED, True)
        await world.settle_down()
        rows = await reconciliations.rows([*world.asked.values()])
        redelivered = sum(row.redelivered_at is not None for row in rows)
        assert found.progress.outcomes == {Seen.REDELIVERED: redelivered}
        await reconciliations.check_handled(found, [row.schedule_id for row in rows if row.redelivered_at is not None])
        assert 0 < redelivered < len(world.asked)
        assert (await reconciliations.stop(asked_id)) == found

    simulate(scenario)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_to_come_is_cancelled_unless_it_was_claimed(seed: int) -> None:
    async def scenario(world: World) -> None:
        reconciliations = await shop(world, names="ab", count=0)
        start = world.now_ms() + 1_200
        asked = [await world.create("shop", start + 1_000 * number) for number in range(90)]
        for node in world.nodes.values():
            node.connection.plan = FaultPlan(refuse=0.01, lose_answer=0.06)
        asked_id = await reconciliations.ask(
            Action.CANCEL, State.SCHEDULED, State.RETRYING, start=start, end=start + 90_000
        )
        done = await reconciliations.ended(asked_id)
        world.heal()
        await world.settle_down()
        spared = [one for one in asked if one.calls]
        assert 0 < len(spared) < len(asked)
        outcomes = done.progress.outcomes
        assert outcomes[Seen.CANCELLED] == len(asked) - len(spared)
        assert sum(outcomes.values()) == sum(done.progress.seen.values())
        await reconciliations.check_handled(done, [one.schedule_id for one in asked if not one.calls])

    simulate(scenario, seed=seed)


def test_a_report_counts_and_a_suspended_client_redelivers_later() -> None:
    async def scenario(world: World) -> None:
        reconciliations = await shop(world)
        await world.change_client("shop", state=ClientState.SUSPENDED)
        await reconciliations.advance(5)
        report = await reconciliations.ask(Action.REPORT, *APPLIES_TO[Action.REPORT], **window(world))
        done = await reconciliations.ended(report)
        assert (done.progress.seen, done.progress.outcomes) == ({State.FAILED: 12}, {Seen.COUNTED: 12})
        await world.change_client("shop", state=ClientState.ACTIVE)
        asked_id = await reconciliations.ask(Action.REDELIVER, State.FAILED, **window(world))
        await world.change_client("shop", state=ClientState.SUSPENDED)
        await reconciliations.advance(20)
        assert (await reconciliations.read(asked_id)).running
        await world.change_client("shop", state=ClientState.ACTIVE)
        await reconciliations.ended(asked_id)
        await world.settle_down()
        await reconciliations.check_redelivered_once(list(world.asked.values()))

    simulate(scenario)


def test_never_more_run_than_a_client_has_slots() -> None:
    async def scenario(world: World) -> None:
        reconciliations = await shop(world, names="", count=0)
        world.api_connection.plan = FaultPlan(refuse=0.05, lose_answer=0.2)
        start = world.now_ms()

        async def ask() -> bool:
            try:
                await reconciliations.ask(Action.REPORT, State.FAILED, start=start, end=start + 1)
            except Conflict:
                return False
            return True

        told = await asyncio.gather(*(ask() for _ in range(MAX_RUNNING + 5)))
        world.heal()
        assert sum(told) <= MAX_RUNNING
        running = await reconciliations.store.read_newest(world.clients["shop"].client_id)
        assert sum(told) == len(running)
        world.add_node("a")
        await world.advance(15)
        assert not any(one.running for one in await reconciliations.store.read_newest(world.clients["shop"].client_id))
        assert await ask()

    simulate(scenario)
