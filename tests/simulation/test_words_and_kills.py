"""The node that is to record words is killed at every step, while words for several schedules arrive at once."""

import asyncio
from collections.abc import Sequence

import pytest

from cql.connection import Item
from poller_cluster.minute.follow_ups import FollowUps
from scheduler_service.domain.acknowledgements import Ack
from scheduler_service.domain.schedules import Outcome, Row, State
from tests.simulation.ack_scenes import ONCE, check, row_of
from tests.simulation.acknowledgements import shop
from tests.simulation.world import Violation, World, simulate

SAID = (("done", "done"), ("done", "failed"), ("failed", "extend"), ("extend", "done"), ("failed", "failed"))
"""What is said of each schedule at the same time, by two processes."""
FEWEST_STEPS = 12
WRITES_OF_MEMBERS = ("nodes.", "pollers.", "leases.")


def killed_at(step: int, fault: str) -> bool:
    """One world, in which the node dies before or after its `step`th write from the words on. False: it made fewer."""
    reached = asyncio.Event()

    async def scenario(world: World) -> None:
        words = await shop(world, event_feed=True, retry=ONCE)
        asked = [
            await world.create("shop", world.now_ms() + 3_000 + 10 * number, ack=Ack(within_seconds=30))
            for number in range(len(SAID))
        ]
        await world.advance(6)
        for one in asked:
            assert (await row_of(world, one)).shown_state is State.AWAITING
        writes = 0

        def hook(kind: str, items: Sequence[Item]) -> str | None:
            nonlocal writes
            if kind == "select" or items[0][0].startswith(WRITES_OF_MEMBERS):
                return None
            writes += 1
            return fault if writes == step else None

        plan = world.nodes["a"].connection.plan
        plan.hook, plan.crash = hook, reached.set
        others = words.by_another_api()
        saying = asyncio.gather(*(
            each.insist(one.calls[0], word)
            for one, pair in zip(asked, SAID, strict=True)
            for each, word in zip((words, others), pair, strict=True)
        ))  # fmt: skip
        for _ in range(80):
            if reached.is_set():
                break
            await world.advance(0.25)
        await world.kill("a")
        world.add_node("b")
        await world.advance(40)
        for said, again in zip(saying.result()[::2], saying.result()[1::2], strict=True):
            assert isinstance(said, Row) or isinstance(again, Row)
        await check(world, words, asked)
        assert [len(one.calls) for one in asked] == [1] * len(SAID)

    simulate(scenario, seed=step)
    return reached.is_set()


@pytest.mark.parametrize("fault", ["crash-before", "crash-after"])
def test_each_schedule_ends_once_as_was_said(fault: str) -> None:
    steps = 1
    while killed_at(steps, fault):
        steps += 1
    assert steps > FEWEST_STEPS


def test_an_end_that_nobody_follows_up_after_a_kill_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: what a row that is read says already is taken for done."""
    require = FollowUps.require

    def forget(self: FollowUps, row: Row, outcome: Outcome) -> None:
        if row.state is None:
            require(self, row, outcome)

    monkeypatch.setattr(FollowUps, "require", forget)
    with pytest.raises((Violation, AssertionError)):
        any(not killed_at(step, "crash-after") for step in range(1, FEWEST_STEPS))
