"""After an outage, recovery reaches the heads of ordering keys that are retried, however many rows wait for them.

The head fails once the nodes are back, so its retry row is in a later minute, which may start only when recovery has
read up to it. Meanwhile minutes with rows behind it may not keep recovery's places.
"""

from collections.abc import Callable

import pytest

from poller_cluster import background_budget
from poller_cluster.minute.machine import PollerMinute
from scheduler_service.domain.clients import ClientSettings, ClientState, RetrySettings
from scheduler_service.domain.reconciliations import Action, Seen
from scheduler_service.domain.schedules import State
from tests.simulation.cluster import until
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import FaultPlan
from tests.simulation.reconciliations import Reconciliations, small_slices
from tests.simulation.world import World, simulate

SOON = RetrySettings(max_attempts=100, base_seconds=1.0, cap_seconds=2.0)
HOURS_LATER = RetrySettings(max_attempts=20, base_seconds=3_600.0, cap_seconds=7_200.0)


async def outage(
    world: World,
    *,
    keys: int = 2,
    minutes: int = 6,
    quota: int = 1,
    retry: RetrySettings = SOON,
    url: Callable[[int], str] = lambda key: "http://receiver.test/",
) -> list[CreateRecord]:
    """A client with one row of each key in each of some minutes, which nobody called. The receivers still fail."""
    await world.add_client("shop", quota=quota, settings=ClientSettings(retry=retry))
    start = world.now_ms() + 60_000
    asked = [
        await world.create("shop", start + 60_000 * minute + key, ordering_key=f"key-{key}", url=url(key))
        for minute in range(minutes)
        for key in range(keys)
    ]
    world.receiver.script = lambda call: 503
    await world.advance(60 * minutes + 300)
    return asked


async def heads_called(world: World, asked: list[CreateRecord], keys: int) -> None:
    await until(world, lambda: all(head.calls for head in asked[:keys]), within=60.0)


def mended(world: World) -> None:
    world.receiver.script = lambda call: 200


def keeps_its_place(patch: pytest.MonkeyPatch) -> None:
    """Planted: only long calls give a place back."""
    patch.setattr(
        PollerMinute, "at_rest", property(lambda self: bool(self.long_calls) and len(self.long_calls) == len(self.rows))
    )


@pytest.mark.parametrize("takeover", [False, True])
@pytest.mark.parametrize("keys", [1, 2, 3])
@pytest.mark.parametrize("planted", [False, True])
def test_heads_that_are_retried_are_reached(
    planted: bool, keys: int, takeover: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if planted:
        keeps_its_place(monkeypatch)

    async def scenario(world: World) -> None:
        asked = await outage(world, keys=keys)
        world.add_node("a")
        await heads_called(world, asked, keys)
        await world.advance(3)
        if takeover:
            await world.kill("a")
            world.add_node("b")
        await world.advance(20)
        mended(world)
        await world.settle_down(within=180)

    if planted:
        with pytest.raises(AssertionError, match="have no end"):
            simulate(scenario)
    else:
        simulate(scenario)


@pytest.mark.parametrize("kills", [1, 3])
def test_nodes_that_die_while_the_heads_are_waited_for_lose_no_order(kills: int) -> None:
    async def scenario(world: World) -> None:
        asked = await outage(world, keys=3, quota=2)
        for name in "ab":
            world.add_node(name)
        await heads_called(world, asked, 3)
        for number in range(kills):
            await world.advance(2 + 7 * number)
            await world.kill(sorted(world.nodes)[0])
            world.add_node(f"c{number}")
        await world.advance(30)
        mended(world)
        await world.settle_down(within=300)

    simulate(scenario)


def test_heads_that_are_retried_hours_later_let_recovery_end() -> None:
    """What is behind them is deferred, and rows of other keys are called meanwhile."""

    async def scenario(world: World) -> None:
        asked = await outage(
            world, keys=3, retry=HOURS_LATER, url=lambda key: f"http://{'ok' if key == 2 else 'bad'}.test/"
        )
        world.receiver.script = lambda call: 200 if call.url.startswith("http://ok.") else 503
        world.add_node("a")
        await heads_called(world, asked, 3)
        await world.advance(60)
        assert all(one.calls for one in asked[2::3])
        await world.kill("a")
        world.add_node("b")
        await world.advance(120)
        (pollers,) = world.nodes["b"].node.pollers.all()
        assert all(poller.recovery.done for poller in pollers.pollers.values())
        mended(world)
        await world.settle_down(within=30_000)

    simulate(scenario)


@pytest.mark.parametrize("most", [0, 2, 20])
def test_minutes_at_rest_are_bounded_and_rows_beyond_the_bound_come_back(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_budget, "MINUTES_AT_REST", most)

    async def scenario(world: World) -> None:
        asked = await outage(world, keys=2, minutes=90)
        world.add_node("a")
        await heads_called(world, asked, 2)
        largest = 0
        for _ in range(40):
            await world.advance(1)
            (pollers,) = world.nodes["a"].node.pollers.all()
            runs = sum(len(poller.runs) for poller in pollers.pollers.values())
            largest = max(largest, runs)
        # Those at rest and as many as there are places, those at work, and the minutes of the present.
        assert largest <= max(most // 2, 1) + 2 + 2 + 3
        mended(world)
        await world.settle_down(within=900)

    simulate(scenario)


def test_a_client_resumed_while_the_heads_are_waited_for_goes_on() -> None:
    async def scenario(world: World) -> None:
        asked = await outage(world, keys=2, minutes=12)
        world.add_node("a")
        await heads_called(world, asked, 2)
        for _ in range(3):
            await world.advance(4)
            await world.change_client("shop", state=ClientState.SUSPENDED)
            await world.advance(70)
            await world.change_client("shop", state=ClientState.ACTIVE)
        await world.advance(20)
        mended(world)
        await world.settle_down(within=300)

    simulate(scenario)


@pytest.mark.parametrize("seed", range(1, 7))
def test_two_skips_of_what_waits_end_and_skip_each_row_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two reconciliations at once, nodes that die, and answers that are lost, while the heads are retried."""
    small_slices(monkeypatch)

    async def scenario(world: World) -> None:
        asked = await outage(world, keys=3, minutes=10, quota=2)
        for name in "ab":
            world.add_node(name)
        await heads_called(world, asked, 3)
        for node in world.nodes.values():
            node.connection.plan = FaultPlan(refuse=0.01, lose_answer=0.06)
        reconciliations = Reconciliations(world)
        end = world.now_ms() - 240_000
        window = {"start": asked[0].due, "end": end}
        ids = [await reconciliations.ask(Action.SKIP, State.SCHEDULED, **window) for _ in range(2)]
        for number in range(2):
            await reconciliations.advance(1 + seed % 3)
            await world.kill(sorted(world.nodes)[0])
            world.add_node(f"c{number}")
        done = [await reconciliations.ended(each, within=300.0) for each in ids]
        world.heal()
        mended(world)
        await world.settle_down(within=300)
        rows = await reconciliations.rows(asked)
        skipped = [row.schedule_id for row in rows if row.state == State.SKIPPED]
        shown = [
            one.schedule_id
            for each in ids
            for one in await reconciliations.handled(each)
            if one.outcome is Seen.SKIPPED
        ]
        # What one of them skipped counts for both.
        assert {*shown} == {*skipped}
        assert all(one.progress.outcomes.get(Seen.SKIPPED) for one in done)
        assert not any(one.calls for one in asked if one.schedule_id in skipped)

    simulate(scenario, seed=seed)
