"""Scenes of destinations that change while rows name them; plants run them too (`test_destination_plants`)."""

from typing import Final

from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.ids import poller_of
from scheduler_service.domain.schedules import State
from tests.simulation.cluster import three_nodes
from tests.simulation.creates import CreateRecord
from tests.simulation.world import World

CRM: Final = "destination://crm/orders"
OLD, NEW = "http://old.test/", "http://new.test/"


async def _begin(world: World, *, quota: int = 3) -> None:
    await three_nodes(world, quota=quota, settings=ClientSettings())
    await world.destinations.put("crm", url=OLD)
    await world.advance(3)


async def _owner_dies(world: World, asked: CreateRecord) -> None:
    lease = world.lease_of(asked)
    assert lease is not None
    if lease[0] in world.nodes:
        await world.kill(lease[0])


async def _reason_of(world: World, asked: CreateRecord) -> str | None:
    row = await world.row_of(asked)
    return None if row is None else row.reason


async def changed_between_claim_and_call(world: World, *, dies: bool) -> None:
    """Rows are claimed up to five seconds ahead; nodes hear of the change within two."""
    await _begin(world)
    due = world.now_ms() + 10_000
    asked = [await world.create("shop", due + number, url=CRM) for number in range(30)]
    await world.advance_to(due - 3_500)
    await world.destinations.put("crm", url=NEW)
    if dies:
        await _owner_dies(world, asked[0])
    await world.settle_down()
    assert {call.url for each in asked for call in each.calls} == {f"{NEW}orders"}


async def paused_after_the_claim(world: World, *, dies: bool) -> None:
    """Those in doubt after the death of their owner are counted as attempts of it, all others as none."""
    await _begin(world)
    due = world.now_ms() + 10_000
    asked = [await world.create("shop", due + number, url=CRM) for number in range(30)]
    await world.advance_to(due - 3_500)
    await world.destinations.pause("crm")
    if dies:
        await _owner_dies(world, asked[0])
    await world.advance_to(due + 60_000)
    assert not any(each.calls for each in asked)
    for each in asked:
        row = await world.row_of(each)
        assert row is not None
        assert (row.state, row.attempts) == (State.RETRYING, 0), row
        assert row.reason == "destination-paused" or (dies and row.reason == "in-doubt"), row
    await world.destinations.resume("crm")
    resumed = world.now_ms()
    await world.settle_down()
    assert all(len(each.calls) == 1 and each.calls[0].attempt == 1 for each in asked)
    # The pause has lasted 64 s then: the next look comes within half a minute, and a dead node's rows are taken over.
    assert max(each.calls[0].at_ms for each in asked) < resumed + 31_000


async def paused_while_nodes_are_cut_off(world: World, *, seconds: float) -> None:
    """Nodes can't reach storage while rows become due: once it answers, none is called by what its node knew before."""
    await _begin(world)
    due = world.now_ms() + 6_000
    asked = [await world.create("shop", due + 300 * number, url=CRM) for number in range(30)]
    await world.advance(3)
    world.cut_off()
    await world.advance(seconds / 2)
    await world.destinations.pause("crm")
    paused = world.now_ms()
    await world.advance(seconds / 2)
    world.heal()
    for _ in range(60):
        await world.revive()
        await world.advance(1)
    assert not any(call.at_ms > paused + 5_000 for each in asked for call in each.calls)
    await world.destinations.resume("crm")
    await world.settle_down(within=400)


async def resumed(world: World, *, dies: bool) -> None:
    """Rows of four minutes wait, of which the last come while the destination is paused, and one by one it is slow."""
    await _begin(world, quota=3)
    await world.destinations.put("crm", url=OLD, max_in_flight=3)
    await world.advance(3)
    base = world.now_ms()
    await world.destinations.pause("crm")
    asked = [await world.create("shop", base + 5_000 + 1_000 * number, url=CRM) for number in range(240)]
    await world.advance(150)
    if dies:
        await _owner_dies(world, asked[0])
    await world.advance(115)
    assert not any(each.calls for each in asked)
    await world.destinations.resume("crm")
    began = world.now_ms()
    await world.settle_down(within=300)
    # The pause has lasted 265 s: at most half of that, and what the calls take.
    assert max(each.calls[0].at_ms for each in asked) < began + 140_000
    pollers = {poller_of(each.schedule_id) for each in asked}
    assert len(pollers) == 3
    for poller in pollers:
        mine = [each for each in asked if poller_of(each.schedule_id) == poller]
        called = sorted(mine, key=lambda each: each.calls[0].at_ms)
        assert [each.due for each in called] == sorted(each.due for each in mine)


async def deleted(world: World, *, dies: bool) -> None:
    """By force: rows that are claimed, rows that wait for a pause, and rows of later."""
    await _begin(world)
    await world.destinations.put("paused", url=OLD)
    await world.destinations.pause("paused")
    due = world.now_ms() + 10_000
    asked = [await world.create("shop", due + 2_000 * number, url=CRM) for number in range(30)]
    asked += [await world.create("shop", due + number, url="destination://paused") for number in range(10)]
    await world.advance_to(due - 3_500)
    await world.destinations.delete("crm")
    if dies:
        await _owner_dies(world, asked[0])
    await world.advance_to(due + 5_000)
    await world.destinations.delete("paused")
    await world.settle_down(within=600)
    assert not any(each.calls for each in asked)
    for each in asked:
        row = await world.row_of(each)
        assert row is not None
        assert (row.state, row.reason) == (State.FAILED, "destination-deleted")


async def named_at_once(world: World) -> None:
    """Made, and named by a call that is due at once: nodes read the catalogue once a second."""
    await _begin(world)
    await world.advance(world.rng.random())
    await world.destinations.put("new", url=NEW)
    asked = [await world.create("shop", world.now_ms() + 100 * number, url="destination://new") for number in range(12)]
    await world.settle_down()
    for each in asked:
        row = await world.row_of(each)
        assert row is not None
        assert row.state == State.DELIVERED, row
        assert each.calls[0].at_ms - each.due < 2_500
