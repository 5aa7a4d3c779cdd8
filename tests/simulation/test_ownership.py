"""Records, creates, pointers and cancels that race with the move of a poller to another owner."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from cql.connection import Item
from poller_cluster.counters import CallCounts
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.ids import minute_of, minute_start
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.cancel_schedules import Cancelled, CancelResult, InFlight
from tests.simulation import cases
from tests.simulation.cluster import SHOP, all_delivered_once, everything, owned, until
from tests.simulation.creates import CreateRecord
from tests.simulation.sim_node import SimNode
from tests.simulation.world import World, simulate


async def one_poller(world: World, *, settings: ClientSettings | None = None) -> None:
    """A node that owns the only poller."""
    await world.add_client(SHOP, settings=settings)
    world.add_node("a")
    await until(world, lambda: owned(world) == everything(1), within=5.0)


async def moved(world: World, to: str) -> None:
    """Wait until `to` owns the poller."""
    await until(
        world, lambda: owned(world) == everything(1) and bool(world.nodes[to].node.balancer.leases()), within=15
    )


def is_record(items: Sequence[Item]) -> bool:
    return any(name.startswith("schedules.write_outcome") for name, _ in items)


def is_retry_row(kind: str, items: Sequence[Item]) -> bool:
    return kind == "write" and items[0][0].startswith(("schedules.", "occupied"))


async def crash_at(world: World, name: str, meets: Callable[[str, Sequence[Item]], bool]) -> list[Item]:
    """The node dies when it sends such a write, before it is applied; returns the write."""
    crashed = asyncio.Event()
    held: list[Item] = []
    plan = world.nodes[name].connection.plan

    def hook(kind: str, items: Sequence[Item]) -> str | None:
        if crashed.is_set() or held or not meets(kind, items):
            return None
        held.extend(items)
        return "crash-before"

    plan.hook, plan.crash = hook, crashed.set
    await asyncio.wait_for(crashed.wait(), 60.0)
    await world.kill(name)
    return held


def test_a_prefetch_read_before_the_old_owners_last_record_is_thrown_away() -> None:
    """The dead owner's record arrives between the new owner's read of the minute and its open."""

    async def scenario(world: World) -> None:
        await one_poller(world)
        asked = await world.create(SHOP, world.now_ms() + 12_000)
        world.add_node("b")
        await world.advance(0.5)
        record = await crash_at(world, "a", lambda kind, items: is_record(items))
        assert len(asked.calls) == 1
        arrived: list[asyncio.Future[object]] = []

        def let_it_arrive(kind: str, items: Sequence[Item]) -> None:
            if items[0][0] == "schedules.open" and not arrived:
                arrived.append(asyncio.ensure_future(world.memory.conditional(record)))

        world.nodes["b"].connection.plan.hook = let_it_arrive
        await moved(world, "b")
        await all_delivered_once(world)
        assert arrived

    simulate(scenario, seed=4)


def test_a_record_that_arrives_after_the_new_owners_open_changes_nothing() -> None:
    """The dead owner's record says 500; the new owner has called again and delivers."""

    async def scenario(world: World) -> None:
        await one_poller(world, settings=ClientSettings(retry=RetrySettings(base_seconds=60)))
        world.receiver.script = lambda call: 500 if call.node == "a" else 200
        asked = await world.create(SHOP, world.now_ms() + 12_000)
        record = await crash_at(world, "a", lambda kind, items: is_record(items))
        world.add_node("b")
        await until(world, lambda: len(asked.calls) == 2, within=20.0, step=0.01)
        await world.memory.conditional(record)
        await world.settle_down()
        row = await world.row_of(asked)
        assert row is not None
        assert (row.state, row.attempts) == (State.DELIVERED, 1)
        assert [call.redelivery for call in asked.calls] == [False, True]

    simulate(scenario)


def test_a_claim_that_arrives_after_the_new_owners_open_is_void() -> None:
    """No row of a minute is written under an epoch that did not open the minute."""

    async def scenario(world: World) -> None:
        await one_poller(world)
        first = await world.create(SHOP, world.now_ms() + 8_000)
        asked = await world.create(SHOP, first.due + 9_000)
        await world.advance_to(first.due + 2_000)
        claim = await crash_at(world, "a", lambda kind, items: items[0][0].startswith("schedules.commit"))
        world.add_node("b")
        await moved(world, "b")
        await until(world, lambda: bool(asked.calls), within=10.0, step=0.01)
        await world.memory.conditional(claim)
        await all_delivered_once(world)
        assert asked.calls[0].redelivery is False

    simulate(scenario)


def test_a_poller_that_lags_is_not_skipped_by_its_dead_owners_low_watermark() -> None:
    simulate(cases.a_poller_that_lags_behind_its_owners_low_watermark, seed=3)


def test_a_zombies_record_after_the_takeover_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: dict[str, CallCounts] = {}

    async def scenario(world: World) -> None:
        add_node = world.add_node

        def remembered(name: str, **clock: float) -> SimNode:
            found = add_node(name, **clock)
            counted[name] = found.node.books.counts
            return found

        monkeypatch.setattr(world, "add_node", remembered)
        await cases.a_zombie_records_after_the_takeover(world)

    simulate(scenario, seed=3)
    assert (counted["a"].fenced, counted["b"].fenced) == (1, 0)
    assert (counted["a"].in_doubt, counted["b"].in_doubt) == (0, 1)


@pytest.mark.parametrize("ends", ["leaves", "dies"])
@pytest.mark.parametrize("when", ["idle", "open", "settled"])
def test_a_create_acknowledged_after_the_sweep_is_requeued_to_the_pollers_new_owner(when: str, ends: str) -> None:
    """Its insert takes effect when the minute was passed as empty, is still open, or was settled; then the poller moves
    before the create is acknowledged.
    """

    async def scenario(world: World) -> None:
        await one_poller(world)
        minute = minute_of(world.now_ms()) + 1
        if when != "idle":
            world.receiver.latency_seconds = 12.0 if when == "open" else 0.01
            await world.create(SHOP, minute_start(minute) + 59_900)
        asked, definition = world.define(SHOP, minute_start(minute) + 30_000)
        await world.advance_to(minute_start(minute + 1) + (4_000 if when == "open" else 40_000))
        world.hints_lost = 1.0
        await world.truth.schedules.insert(definition)
        world.add_node("b")
        if ends == "leaves":
            world.leave("a")
        else:
            await world.kill("a")
        await moved(world, "b")
        world.receiver.latency_seconds = 0.01
        await world.writer(definition)
        asked.acknowledged = True
        await world.settle_down()
        row = await world.row_of(asked)
        assert row is not None
        assert row.state == State.DELIVERED
        assert len(asked.calls) == 1
        assert asked.calls[0].node == "b"

    simulate(scenario)


@pytest.mark.parametrize("seed", range(1, 7))
def test_creates_acknowledged_late_while_the_poller_moves_are_called_once(seed: int) -> None:
    """Inserts take effect anywhere from the claim to long after the sweep, while the poller moves to and fro."""

    async def scenario(world: World) -> None:
        await one_poller(world)
        base = minute_start(minute_of(world.now_ms()) + 1)
        late = []

        async def place_late() -> None:
            due = base + 60_000 * world.rng.random()
            asked, definition = world.define(SHOP, due)
            await world.api_clock.sleep((base + 40_000 + 60_000 * world.rng.random() - world.now_ms()) / 1_000)
            await world.truth.schedules.insert(definition)
            await world.api_clock.sleep(8.0 * world.rng.random())
            await world.writer(definition)
            asked.acknowledged = True
            late.append(asked)

        world.hints_lost = 0.5
        creates = asyncio.gather(*(place_late() for _ in range(60)))
        await world.advance_to(base + 45_000)
        for old, new in ("ab", "bc", "cd"):
            world.add_node(new)
            await world.advance(6 * world.rng.random())
            if world.rng.random() < 0.5:
                world.leave(old)
            else:
                await world.kill(old)
            await moved(world, new)
            await world.advance(6 * world.rng.random())
        await creates
        await world.settle_down()
        assert len(late) == 60
        assert all(asked.calls for asked in late)
        assert all(call.redelivery for asked in late for call in asked.calls[1:])

    simulate(scenario, seed=seed)


def test_a_create_that_only_the_dead_owner_saw_is_requeued_in_doubt() -> None:
    """Its insert has reached a single replica when the owner claims it and dies. The new owner passes the minute as
    empty; then the claim arrives, and then the insert.
    """

    async def scenario(world: World) -> None:
        await one_poller(world)
        minute = minute_of(world.now_ms()) + 1
        asked, definition = world.define(SHOP, minute_start(minute) + 30_000)
        await world.advance_to(asked.due - 10_000)
        await world.truth.schedules.insert(definition)
        partition, key = definition.partition, definition.key
        world.hint(partition, key)
        claim = await crash_at(world, "a", lambda kind, items: items[0][0].startswith("schedules.commit"))
        world.memory.tables["schedules"].partitions.clear()
        world.add_node("b")
        await moved(world, "b")
        await world.advance_to(minute_start(minute + 1) + 20_000)
        await world.memory.conditional(claim)
        await world.writer(definition)
        asked.acknowledged = True
        await all_delivered_once(world)
        assert [(call.node, call.redelivery) for call in asked.calls] == [("b", True)]

    simulate(scenario)


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_crash_between_pointer_and_retry_row_is_completed_by_another_node(cancelled: bool) -> None:
    """The pointer is written and its retry row missing: a cancel wins for good; without one, the other node places
    it.
    """

    async def scenario(world: World) -> None:
        await one_poller(world, settings=ClientSettings(retry=RetrySettings(base_seconds=90)))
        world.receiver.script = lambda call: 500 if call.attempt == 1 else 200
        asked = await world.create(SHOP, world.now_ms() + 10_000)
        await crash_at(world, "a", is_retry_row)
        row = await world.row_of(asked)
        assert row is not None
        assert row.state == State.RETRYING
        if cancelled:
            assert isinstance(await world.cancel(asked), Cancelled)
        world.add_node("b")
        await world.advance(200)
        await world.settle_down()
        assert [call.attempt for call in asked.calls] == ([1] if cancelled else [1, 2])
        row = await world.row_of(asked)
        assert row is not None
        assert row.state == (State.CANCELLED if cancelled else State.DELIVERED)

    simulate(scenario)


@pytest.mark.parametrize("lead_ms", [9_000, 5_100, 3_000, 1_010, 995, 300, 0])
@pytest.mark.parametrize("ends", ["leaves", "dies", "is dead"])
def test_a_cancel_against_a_claim_has_one_winner_while_the_poller_moves(lead_ms: int, ends: str) -> None:
    async def scenario(world: World) -> None:
        await one_poller(world)
        asked = [await world.create(SHOP, world.now_ms() + 25_000 + 10 * number) for number in range(60)]
        world.add_node("b")
        await world.advance_to(asked[0].due - lead_ms - 20 - (5_000 if ends == "is dead" else 0))
        if ends == "leaves":
            world.leave("a")
        else:
            await world.kill("a")
        await world.advance_to(asked[0].due - lead_ms)

        async def cancel_later(number: int) -> CancelResult | None:
            await world.api_clock.sleep(number * 0.000_7)
            return await world.cancel(asked[number])

        answers = await asyncio.gather(*map(cancel_later, range(len(asked))))
        await world.advance(10)
        await world.settle_down()
        for one, answer in zip(asked, answers, strict=True):
            assert isinstance(answer, Cancelled | InFlight) or one.calls
            assert bool(one.calls) is not isinstance(answer, Cancelled)

    simulate(scenario, seed=lead_ms + 1)


def test_cancels_that_cross_the_new_owners_first_claim_have_one_winner() -> None:
    async def scenario(world: World) -> None:
        await one_poller(world)
        asked = [await world.create(SHOP, world.now_ms() + 15_000 + 2 * number) for number in range(60)]
        world.add_node("b")
        claiming = asyncio.Event()

        def notice(kind: str, items: Sequence[Item]) -> None:
            if items[0][0].startswith("schedules.commit"):
                claiming.set()

        world.nodes["b"].connection.plan.hook = notice
        await world.kill("a")
        await asyncio.wait_for(claiming.wait(), 30.0)
        answers = await asyncio.gather(*map(world.cancel, asked))
        await world.settle_down()
        for one, answer in zip(asked, answers, strict=True):
            assert bool(one.calls) is not isinstance(answer, Cancelled)

    simulate(scenario)


def test_hundreds_of_cancels_a_second_in_one_partition_while_its_owner_dies() -> None:
    async def scenario(world: World) -> None:
        await one_poller(world)
        base = world.now_ms() + 15_000
        asked = [await world.create(SHOP, base + 40 * number) for number in range(250)]
        world.add_node("b")

        async def cancel_before(one: CreateRecord) -> None:
            await world.api_clock.sleep((one.due - 7_000 - world.now_ms()) / 1_000)
            await world.cancel(one)

        cancels = asyncio.gather(*map(cancel_before, asked[::2]))
        await world.advance_to(base + 2_000)
        await world.kill("a")
        await cancels
        await moved(world, "b")
        await world.settle_down()
        cancelled = [one for one in asked if one.cancelled]
        assert len(cancelled) > 80
        assert {bool(one.calls) for one in cancelled} == {False}
        assert all(one.calls for one in asked if not one.cancelled)

    simulate(scenario)
