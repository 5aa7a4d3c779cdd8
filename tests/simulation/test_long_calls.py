"""Calls that take ten minutes: what they leave to others, and what becomes of them when their poller moves."""

import pytest

from poller_cluster.dispatch.long_calls import LongCalls
from poller_cluster.minute.machine import PollerMinute
from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.ids import ClientId, minute_of
from scheduler_service.domain.notices import EVENTS_CLIENT
from scheduler_service.domain.schedules import State
from tests.simulation.receivers import Call
from tests.simulation.world import World, simulate

LONG = "http://long.test/"
START_SECONDS = 10.0
TEN_MINUTES = 600.0
BOUNDS = ClientBounds(timeout_seconds=600)
PLACES = 100


def takes(call: Call) -> float | None:
    return TEN_MINUTES - 5 if call.url.startswith("http://long") else 1.0 if call.client_id == "other" else None


async def begin(world: World, *, in_doubt: str = "redeliver", nodes: str = "a") -> int:
    settings = ClientSettings(timeout_seconds=600, max_in_flight=PLACES, in_doubt=in_doubt)  # type: ignore[arg-type]
    await world.add_client("shop", settings=settings)
    await world.add_client("other")
    world.receiver.takes = takes
    for name in nodes:
        world.add_node(name)
    await world.advance(START_SECONDS)
    return world.now_ms()


def latest(world: World, client_id: str, *, but: str = "long") -> float:
    """Milliseconds by which the latest of a client's short calls was late."""
    return max(
        (c.at_ms - c.due_ms for c in world.receiver.calls if c.client_id == client_id and but not in c.url), default=1e9
    )


async def beside_one_another(world: World) -> None:
    """More long calls than there are places, over many hosts, then short ones with their own short time-out."""
    base = await begin(world)
    for number in range(3 * PLACES):
        await world.create("shop", base + 3_000, url=f"http://long-{number % 20}.test/")
    for number in range(150):
        at = base + 4_000 + 1_000 * number
        await world.create("other", at)
        await world.create("shop", at, timeout_seconds=10)
    await world.advance(170)


def long_called(world: World) -> int:
    return sum("long" in call.url for call in world.receiver.calls)


def test_long_calls_hold_half_of_the_places_and_delay_nobody() -> None:
    async def scenario(world: World) -> None:
        await beside_one_another(world)
        assert long_called(world) == PLACES // 2
        assert max(latest(world, "shop"), latest(world, "other")) < 200
        # Those under way are as they should be: only those without room count as overdue.
        backlog = world.nodes["a"].node.backlog
        assert backlog.rows_by_client()[ClientId("shop")] <= 3 * PLACES - PLACES // 2
        await world.settle_down(within=3 * 3600)
        ends = [await world.row_of(asked) for asked in world.asked.values()]
        assert all(row is not None and row.state == State.DELIVERED for row in ends)
        assert world.nodes["a"].node.dispatcher.long_calls.taken == 0
        positions = world.nodes["a"].node.pollers.positions(ClientId("shop"))
        assert min(positions.values()) >= minute_of(world.now_ms()) - 2

    simulate(scenario, bounds=BOUNDS)


def test_without_the_share_they_would_delay_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: every long call has room."""
    monkeypatch.setattr(LongCalls, "headroom", lambda *args: 1 << 30)

    async def scenario(world: World) -> None:
        await beside_one_another(world)
        assert long_called(world) > PLACES // 2
        assert latest(world, "shop") > 1_000 or len([c for c in world.receiver.calls if c.client_id == "shop"]) < 200
        world.receiver.takes = lambda call: None

    simulate(scenario, bounds=BOUNDS)


def test_notices_to_receivers_that_hang_are_not_long_calls() -> None:
    """A schedule's end is one notice, so there may be as many as calls."""

    async def scenario(world: World) -> None:
        base = await begin(world)
        await world.add_client(EVENTS_CLIENT, quota=4)
        world.receiver.takes = lambda call: None
        world.receiver.script = lambda call: "timeout" if "long" in call.url else 200
        await world.advance(10)
        for number in range(3 * PLACES):
            told = f"http://long-{number % 20}.test/"
            await world.create("shop", base + 13_000, timeout_seconds=10, told=told)
        await world.advance(120)
        assert long_called(world) > PLACES // 2
        assert world.nodes["a"].node.dispatcher.long_calls.taken == 0
        for number in range(60):
            await world.create("shop", world.now_ms() + 1_000 * number, timeout_seconds=10)
        await world.advance(90)
        assert latest(world, "shop") < 40_000

    simulate(scenario, bounds=BOUNDS)


def test_a_call_of_nearly_ten_minutes_is_recorded_once() -> None:
    """Its lease is renewed and its minute stays open meanwhile; the watermark follows."""

    async def scenario(world: World) -> None:
        base = await begin(world)
        asked = await world.create("shop", base + 2_000, url=LONG)
        await world.advance(580)
        assert len(asked.calls) == 1
        assert world.state_of(asked) is None
        assert world.nodes["a"].node.backlog.oldest_age_seconds() == 0.0
        await world.settle_down(within=120)
        row = await world.row_of(asked)
        assert row is not None
        assert (row.state, row.attempts) == (State.DELIVERED, 1)

    simulate(scenario, bounds=BOUNDS)


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("in_doubt", ["redeliver", "drop"])
def test_a_call_under_way_is_in_doubt_when_its_poller_moves(how: str, in_doubt: str) -> None:
    """It is neither forgotten nor taken for ended: called again under a higher fence, or failed where a call is never
    repeated. Calls of other rows go on."""

    async def scenario(world: World) -> None:
        base = await begin(world, in_doubt=in_doubt, nodes="a")
        asked = await world.create("shop", base + 2_000, url=LONG)
        await world.advance(60)
        world.add_node("b")
        await world.advance(30)
        if how == "killed":
            await world.kill("a")
        else:
            world.leave("a")
        short = [await world.create("other", world.now_ms() + 30_000 + 1_000 * number) for number in range(30)]
        await world.advance(90)
        assert all(len(one.calls) == 1 for one in short)
        assert latest(world, "other") < 200
        await world.settle_down(within=1_300)
        row = await world.row_of(asked)
        assert row is not None
        if in_doubt == "drop":
            assert (row.state, row.reason, len(asked.calls)) == (State.FAILED, "in-doubt", 1)
        else:
            assert (row.state, len(asked.calls)) == (State.DELIVERED, 2)
            assert asked.calls[1].redelivery
            assert asked.calls[1].fence > asked.calls[0].fence

    simulate(scenario, bounds=BOUNDS)


@pytest.mark.parametrize("planted", [False, True])
def test_long_calls_of_a_takeover_leave_the_places_of_recovery(planted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many past minutes have a long call in doubt. A planted bug: each keeps its place in recovery until it ends, so
    what else was left comes minutes later."""
    if planted:
        monkeypatch.setattr(PollerMinute, "at_rest", property(lambda self: False))

    async def scenario(world: World) -> None:
        base = await begin(world)
        for number in range(6):
            await world.create("shop", base + 2_000 + 60_000 * number, url=LONG)
        await world.advance(330)
        await world.kill("a")
        left = await world.create("shop", world.now_ms() + 20_000, url="http://short.test/", timeout_seconds=5)
        await world.advance(180)
        world.add_node("b")
        await world.advance(60)
        assert (len(left.calls) == 1) is not planted
        world.receiver.takes = lambda call: None
        await world.settle_down(within=1_500)

    simulate(scenario, bounds=BOUNDS)
