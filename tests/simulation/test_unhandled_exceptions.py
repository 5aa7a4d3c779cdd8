"""An unhandled exception affects only the row or minute in which it happened."""

import pytest

from poller_cluster.dispatch import preparation
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.request import Prepared, prepare
from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.steps import Step
from scheduler_service.domain.schedules import Outcome, State
from tests.simulation.world import World, simulate


def test_a_row_that_no_request_can_be_made_of_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop")
        world.faults_planted = True
        world.add_node("a")
        await world.advance(5)
        asked = [await world.create("shop", world.now_ms() + 8_000 + number) for number in range(5)]

        def choke(claim: Claim, **given: object) -> Prepared | Outcome:
            if claim.row.schedule_id == asked[2].schedule_id:
                raise ValueError("planted")
            return prepare(claim, **given)  # type: ignore[arg-type]

        monkeypatch.setattr(preparation, "prepare", choke)
        while world.unfinished():
            await world.advance(1)
        states = [(row.state, row.reason) for one in asked if (row := await world.row_of(one))]
        assert states.count((State.DELIVERED, None)) == 4
        assert states[2] == (State.FAILED, "internal")

    simulate(scenario)


def test_a_minute_that_fails_is_retried_and_affects_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop")
        await world.add_client("other")
        world.faults_planted = True
        world.add_node("a")
        await world.advance(5)
        mine = await world.create("shop", world.now_ms() + 8_000)
        other = await world.create("other", world.now_ms() + 8_000)
        step, failures = PollerMinute.step, 0

        def fail_twice(self: PollerMinute, now: int, headroom: int) -> Step:
            nonlocal failures
            if self.partition.client_id == "shop" and now >= mine.due - 2_000 and failures < 2:
                failures += 1
                raise KeyError("planted")
            return step(self, now, headroom)

        monkeypatch.setattr(PollerMinute, "step", fail_twice)
        while world.unfinished():
            await world.advance(1)
        assert failures == 2
        assert other.calls[0].at_ms - other.due < 100
        assert len(mine.calls) == 1

    simulate(scenario)
