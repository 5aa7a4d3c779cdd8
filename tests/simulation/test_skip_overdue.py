"""After an outage of all nodes: what is overdue for too long is skipped on request, exactly what the report before said
apart from what ended in between; and what is due now is called in time meanwhile."""

from collections import Counter

import pytest

from poller_cluster.minute.follow_ups import FollowUps
from scheduler_service.domain import reconciliations
from scheduler_service.domain.clients import ClientSettings, ClientState
from scheduler_service.domain.events import EventType
from scheduler_service.domain.ids import hour_of, minute_of
from scheduler_service.domain.reconciliations import OVERDUE, SAMPLES, Action, Seen
from scheduler_service.domain.schedules import State
from scheduler_service.usecases import reconcile
from scheduler_service.usecases.cancel_schedules import Cancelled, CancelSchedules
from tests.simulation.cluster import everything, owned, until
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import FaultPlan
from tests.simulation.feeds import FeedReader
from tests.simulation.plants import Plant
from tests.simulation.reconciliations import Reconciliations, small_slices
from tests.simulation.world import World, simulate

OUTAGE_MS = 3_600_000
KEPT_MS = 600_000
"""What is overdue by less is called."""


async def outage(world: World) -> list[CreateRecord]:
    """Two clients whose calls of an hour nobody made."""
    await world.add_client("shop", quota=2, settings=ClientSettings(event_feed=True))
    await world.add_client("bank", quota=2)
    start = world.now_ms() + 5_000
    asked = [
        await world.create(name, start + OUTAGE_MS * number // 60) for number in range(60) for name in ("shop", "bank")
    ]
    await world.advance(OUTAGE_MS / 1000 + 30)
    return asked


async def skipped_after_an_outage(world: World, *, dies: bool = False, faulty: bool = False) -> None:
    asked = await outage(world)
    shop, bank = ([one for one in asked if one.client_id == name] for name in ("shop", "bank"))
    reader, asking = FeedReader(world), Reconciliations(world)
    await world.change_client("shop", state=ClientState.SUSPENDED)
    for name in "ab":
        world.add_node(name)
    await until(world, lambda: owned(world) >= everything(2), within=20.0)
    window = {"start": world.now_ms() - OUTAGE_MS - 120_000, "end": world.now_ms() - KEPT_MS}
    old = [one for one in shop if one.due < window["end"]]
    report = await asking.ended(await asking.ask(Action.REPORT, State.SCHEDULED, **window))
    assert report.progress.seen == {State.SCHEDULED: len(old)}
    assert sum(report.progress.hours.values()) == len(old)
    assert [*report.progress.samples] == [one.schedule_id for one in old[:SAMPLES]]
    between = old.pop(3)
    assert isinstance(await world.cancel(between), Cancelled)
    if faulty:
        for node in world.nodes.values():
            node.connection.plan = FaultPlan(refuse=0.01, lose_answer=0.06)
    asked_id = await asking.ask(Action.SKIP, State.SCHEDULED, **window)
    on_time = [await world.create("bank", world.now_ms() + 5_000 + 500 * number) for number in range(40)]
    if dies:
        await asking.advance(1)
        await world.kill("a")
    done = await asking.ended(asked_id)
    world.heal()
    await world.change_client("shop", state=ClientState.ACTIVE)
    await world.settle_down()
    rows = {row.schedule_id: row for row in await asking.rows(shop)}
    assert {one.schedule_id for one in old} == {
        row.schedule_id for row in rows.values() if (row.state, row.reason) == (State.SKIPPED, OVERDUE)
    }
    assert not any(one.calls for one in (*old, between))
    assert all(one.calls for one in (*shop, *bank, *on_time) if one not in (*old, between))
    if not (dies or faulty):
        assert max(call.at_ms - one.due for one in on_time for call in one.calls) < 1_000
    await asking.check_handled(done, [one.schedule_id for one in old])
    assert done.progress.outcomes == {Seen.SKIPPED: len(old)}
    assert done.progress.hours == dict(Counter(hour_of(minute_of(one.due)) for one in old))
    await reader.check()
    await reader.stop()
    told = {schedule_id for schedule_id, kinds in reader.seen.items() if EventType.SKIPPED in kinds}
    assert told == {str(one.schedule_id) for one in old}


def test_what_the_report_said_is_skipped_and_the_rest_is_called_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    small_slices(monkeypatch)
    simulate(skipped_after_an_outage)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_node_dies_amid_and_answers_are_lost(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    small_slices(monkeypatch)
    simulate(lambda world: skipped_after_an_outage(world, dies=True, faulty=True), seed=seed)


def skips_what_was_claimed(patch: pytest.MonkeyPatch) -> None:
    """Everything of the window is skipped, also what ended in between."""
    patch.setattr(reconciliations, "concerned", lambda of, row: row.original)
    patch.setattr(reconcile, "concerned", lambda of, row: row.original)


def does_not_know_its_own_work(patch: pytest.MonkeyPatch) -> None:
    """What an unwritten slice has skipped is not recognised."""
    patch.setattr(reconciliations, "handled", lambda of, row: False)
    patch.setattr(reconcile, "handled", lambda of, row: False)


def ends_as_cancelled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CancelSchedules, "skip", lambda self, name, ids, *, reason, turn: self.many(name, ids, turn=turn))


def tells_no_skip(patch: pytest.MonkeyPatch) -> None:
    """The sweep tells of cancels only."""
    untold = FollowUps._untold_end
    patch.setattr(
        FollowUps, "_untold_end", lambda self, row, end: end.state is not State.SKIPPED and untold(self, row, end)
    )


PLANTS = (skips_what_was_claimed, does_not_know_its_own_work, ends_as_cancelled, tells_no_skip)


def by_any_seed() -> None:
    for seed in (1, 2, 3):
        simulate(lambda world: skipped_after_an_outage(world, dies=True, faulty=True), seed=seed)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    small_slices(monkeypatch)
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        by_any_seed()
