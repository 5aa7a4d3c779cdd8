"""Callbacks that name a destination: which of its changes hold for which calls, and what a pause keeps waiting.

Every call is checked against what its destination said within the last five seconds (`destinations`)."""

from collections.abc import Sequence

import pytest

from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.ids import ClientId, minute_of
from scheduler_service.domain.schedules import Row, State
from tests.simulation import destination_scenes as scenes
from tests.simulation.cluster import three_nodes
from tests.simulation.creates import CreateRecord
from tests.simulation.destination_scenes import CRM, NEW, OLD
from tests.simulation.receivers import Call
from tests.simulation.world import World, simulate

DEATHS = pytest.mark.parametrize("dies", [False, True], ids=["owner lives", "owner dies"])


async def rows_of(world: World, asked: Sequence[CreateRecord]) -> list[Row]:
    rows = [await world.row_of(each) for each in asked]
    return [row for row in rows if row is not None]


def settled_up_to(world: World) -> int:
    """The oldest minute of any poller that is not settled."""
    return min(
        position for node in world.nodes.values() for position in node.node.pollers.positions(ClientId("shop")).values()
    )


@DEATHS
@pytest.mark.parametrize("seed", range(2))
def test_a_change_between_claim_and_call_holds_for_the_call(seed: int, dies: bool) -> None:
    simulate(lambda world: scenes.changed_between_claim_and_call(world, dies=dies), seed=seed)


@DEATHS
@pytest.mark.parametrize("seed", range(2))
def test_claimed_rows_of_a_destination_that_is_paused_get_no_attempt(seed: int, dies: bool) -> None:
    simulate(lambda world: scenes.paused_after_the_claim(world, dies=dies), seed=seed)


@pytest.mark.parametrize("seconds", [60, 300])
@pytest.mark.parametrize("seed", range(3))
def test_no_node_calls_by_what_it_knew_before_an_outage(seed: int, seconds: float) -> None:
    simulate(lambda world: scenes.paused_while_nodes_are_cut_off(world, seconds=seconds), seed=seed)


@DEATHS
@pytest.mark.parametrize("seed", range(2))
def test_rows_come_in_order_of_their_due_after_a_resume(seed: int, dies: bool) -> None:
    simulate(lambda world: scenes.resumed(world, dies=dies), seed=seed)


@DEATHS
def test_rows_of_a_deleted_destination_fail_without_an_attempt(dies: bool) -> None:
    simulate(lambda world: scenes.deleted(world, dies=dies))


@pytest.mark.parametrize("seed", range(5))
def test_a_destination_made_a_moment_ago_is_called(seed: int) -> None:
    simulate(scenes.named_at_once, seed=seed)


def test_minutes_settle_while_a_destination_is_paused() -> None:
    """However long that is, and calls to others are made in time."""

    async def scenario(world: World) -> None:
        await three_nodes(world, quota=2)
        await world.destinations.put("crm", url=OLD)
        await world.destinations.pause("crm")
        base = world.now_ms()
        asked = [await world.create("shop", base + 5_000 + 500 * number, url=CRM) for number in range(300)]
        for number in range(300):
            await world.create("shop", base + 5_000 + 500 * number)
        await world.advance(1_800)
        assert settled_up_to(world) >= minute_of(world.now_ms()) - 3
        assert max(call.at_ms - call.due_ms for call in world.receiver.calls) < 200
        assert len(world.receiver.calls) == 300
        assert {(row.state, row.reason, row.attempts) for row in await rows_of(world, asked)} == {
            (State.RETRYING, "destination-paused", 0)
        }
        await world.destinations.resume("crm")
        await world.settle_down(within=620)

    simulate(scenario)


def test_a_late_policy_counts_on_during_a_pause_and_not_after_it() -> None:
    """The time from the resume to the next look is ours."""

    async def scenario(world: World) -> None:
        await three_nodes(world)
        await world.destinations.put("crm", url=OLD)
        base = world.now_ms()
        await world.destinations.pause("crm")
        early = await world.create("shop", base + 20_000, url=CRM, skip_after_seconds=60)
        # 310 s after the pause comes a look at 303 s, and the next one at 455 s.
        late = await world.create("shop", base + 310_000, url=CRM, skip_after_seconds=60)
        await world.advance(340)
        await world.destinations.resume("crm")
        await world.settle_down(within=300)
        ends = await rows_of(world, [early, late])
        assert [(row.state, row.reason) for row in ends] == [(State.SKIPPED, "late"), (State.DELIVERED, None)]
        (call,) = late.calls
        assert call.at_ms - late.due > 60_000

    simulate(scenario)


def test_a_pause_longer_than_the_retries_deadline_ends_nothing() -> None:
    """An attempt follows the pause; if it fails too, the deadline counts."""

    async def scenario(world: World) -> None:
        retry = RetrySettings(base_seconds=20, cap_seconds=20, deadline_seconds=120, max_attempts=50)
        await three_nodes(world, settings=ClientSettings(retry=retry))
        await world.destinations.put("crm", url=OLD)
        base = world.now_ms()
        asked = [await world.create("shop", base + 5_000 + number, url=CRM) for number in range(6)]
        world.receiver.script = lambda call: 500
        await world.advance(8)
        await world.destinations.pause("crm")
        await world.advance(400)
        attempts = [row.attempts for row in await rows_of(world, asked)]

        def script(call: Call) -> int:
            return 200 if call.schedule_id == str(asked[0].schedule_id) else 500

        world.receiver.script = script
        await world.destinations.resume("crm")
        await world.settle_down(within=600)
        ends = await rows_of(world, asked)
        assert [row.state for row in ends] == [State.DELIVERED, *[State.FAILED] * 5]
        assert {row.reason for row in ends[1:]} == {"deadline"}
        assert [row.attempts for row in ends] == [1 + (before or 0) for before in attempts]

    simulate(scenario)


def test_ordering_keys_hold_over_a_pause() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        await world.destinations.put("crm", url=OLD)
        base = world.now_ms()
        for number in range(60):
            await world.create("shop", base + 5_000 + 1_000 * number, url=CRM, ordering_key=f"cart-{number % 4}")
        await world.advance(20)
        await world.destinations.pause("crm")
        await world.advance(120)
        await world.destinations.resume("crm")
        await world.settle_down(within=600)

    simulate(scenario)


def test_a_dead_receiver_that_moves_is_called_soon() -> None:
    """The breaker of the old URL does not hold back calls to the new one."""

    async def scenario(world: World) -> None:
        await three_nodes(world, quota=1, names="a")
        await world.destinations.put("crm", url=OLD)
        base = world.now_ms()
        world.receiver.script = lambda call: 503 if call.url.startswith(OLD) else 200
        for number in range(200):
            await world.create("shop", base + 2_000 + 500 * number, url=CRM)
        await world.advance(60)
        assert world.nodes["a"].node.dispatcher.held_back() == {"shop": 1}
        await world.destinations.put("crm", url=NEW)
        changed = world.now_ms()
        await world.advance(20)
        due = [each for each in world.asked.values() if changed + 8_000 < each.due < changed + 18_000]
        assert all(each.calls and each.calls[0].at_ms - each.due < 200 for each in due)
        assert due

    simulate(scenario)
