"""Receivers that hang, fail or are limited: which calls wait for them, and that none is lost."""

import pytest

from poller_cluster.delivery.result import AttemptError
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.clients import ClientSettings, HostLimit, RetrySettings
from scheduler_service.domain.ids import ClientId, minute_of
from scheduler_service.domain.schedules import State
from tests.simulation.creates import CreateRecord
from tests.simulation.receivers import Call
from tests.simulation.world import World, simulate

START_SECONDS = 5.0
DOWN, UP = "http://down.test/", "http://up.test/"
PATIENT = RetrySettings(base_seconds=5, cap_seconds=60, max_attempts=100)


async def begin(world: World, *, settings: ClientSettings | None = None, quota: int = 1) -> int:
    await world.add_client("shop", quota=quota, settings=settings)
    world.add_node("a")
    await world.advance(START_SECONDS)
    return world.now_ms()


def lateness(world: World, url: str) -> float:
    return max(call.at_ms - call.due_ms for call in world.receiver.calls if call.url == url)


def calls_to(world: World, url: str) -> list[Call]:
    return [call for call in world.receiver.calls if call.url == url]


@pytest.mark.parametrize("answer", [503, "timeout", "connect-refused"])
def test_a_host_that_is_down_is_left_alone_and_nothing_is_lost(answer: int | AttemptError) -> None:
    """Its rows are deferred without an attempt, their minutes settle, and other hosts of the client are not
    affected.
    """

    async def scenario(world: World) -> None:
        base = await begin(world, settings=ClientSettings(retry=PATIENT))
        down = True
        tried: list[Call] = []

        def script(call: Call) -> int | AttemptError:
            if call.url == DOWN and down:
                tried.append(call)
                return answer
            return 200

        world.receiver.script = script
        rows: list[CreateRecord] = []
        for number in range(200):
            rows.append(await world.create("shop", base + 2_000 + 1_000 * number, url=DOWN))
            await world.create("shop", base + 2_000 + 1_000 * number, url=UP)
        await world.advance(230)
        assert lateness(world, UP) < 100
        states = [row.reason for asked in rows if (row := await world.row_of(asked)) is not None]
        assert states.count("receiver-open") > 100
        assert len(tried) < 120, "without a breaker over 300 attempts were made"
        down = False
        await world.settle_down(within=900)
        ends = [row for asked in rows if (row := await world.row_of(asked)) is not None]
        assert {row.state for row in ends} == {State.DELIVERED}
        assert sum(row.attempts or 0 for row in ends) == len(tried) + len(rows)
        # Rows that wait do not keep the oldest minutes open.
        node = world.nodes["a"].node
        assert min(node.pollers.positions(ClientId("shop")).values()) >= minute_of(world.now_ms()) - 3

    simulate(scenario)


def test_a_host_that_hangs_takes_no_more_than_its_share() -> None:
    """Other hosts of the same client are called in time, even before the breaker opens."""

    async def scenario(world: World) -> None:
        base = await begin(world, settings=ClientSettings(max_in_flight=10, retry=PATIENT))
        world.receiver.script = lambda call: "timeout" if call.url == DOWN else 200
        for number in range(30):
            await world.create("shop", base + 3_000 + number, url=DOWN)
        for number in range(20):
            await world.create("shop", base + 3_500 + 100 * number, url=UP)
        # Just before the first hanging call times out, which would let another one begin.
        await world.advance_to(base + 7_900)
        assert len(calls_to(world, UP)) == 20
        assert lateness(world, UP) < 100
        assert len(calls_to(world, DOWN)) == 8
        world.receiver.script = lambda call: 200
        await world.settle_down(within=900)

    simulate(scenario)


@pytest.mark.parametrize(("limit", "calls_per_second", "takes"), [(1, 10, 0.01), (2, 10, 0.01), (4, 20, 0.1)])
def test_rows_due_later_do_not_hold_the_room_of_those_that_are_due(
    limit: int, calls_per_second: int, takes: float
) -> None:
    """The host's limit suffices for the due rows, but the rows are in pollers that do not know of each other."""

    async def scenario(world: World) -> None:
        only = {"up.test": HostLimit(max_in_flight=limit)}
        base = await begin(world, settings=ClientSettings(hosts=only), quota=8)
        world.receiver.latency_seconds = takes
        count = 20 * calls_per_second
        for number in range(count):
            await world.create("shop", base + 65_000 + number * 1_000 // calls_per_second, url=UP)
        await world.advance(65 + 20 + 5)
        assert len(calls_to(world, UP)) == count
        assert lateness(world, UP) < 500
        await world.settle_down()

    simulate(scenario)


def test_a_client_whose_receiver_hangs_delays_no_other() -> None:
    """The client would use more connections than the engine has."""

    async def scenario(world: World) -> None:
        down = {"down.test": HostLimit(max_in_flight=5_000)}
        settings = ClientSettings(max_in_flight=5_000, retry=PATIENT, hosts=down)
        await world.add_client("hog", quota=8, settings=settings)
        base = await begin(world)
        world.receiver.script = lambda call: "timeout" if call.url == DOWN else 200
        for _ in range(1_500):
            await world.create("hog", base + 20_000, url=DOWN)
        for number in range(40):
            await world.create("shop", base + 20_000 + 200 * number, url=UP)
        await world.advance_to(base + 24_000)
        assert world.nodes["a"].engine.in_flight > world.nodes["a"].engine.capacity / 2
        await world.advance_to(base + 29_000)
        assert len(calls_to(world, UP)) == 40
        assert lateness(world, UP) < 200
        world.receiver.script = lambda call: 200
        await world.settle_down(within=900)

    simulate(scenario)


def test_a_clients_limits_hold_over_all_nodes() -> None:
    async def scenario(world: World) -> None:
        limit = HostLimit(max_in_flight=8, max_per_second=20)
        world.add_node("b")
        base = await begin(world, quota=4, settings=ClientSettings(hosts={"down.test": limit}))
        world.receiver.latency_seconds = 0.3
        await world.advance(10)
        base = world.now_ms() + 3_000
        for _ in range(200):
            await world.create("shop", base, url=DOWN)
        await world.settle_down()
        starts = sorted(call.at_ms for call in calls_to(world, DOWN))
        assert {call.node for call in world.receiver.calls} == {"a", "b"}
        assert len(starts) == 200
        for start in starts:
            assert sum(start <= each < start + 1_000 for each in starts) <= 20 * 1.1 + 2
        assert starts[-1] - starts[0] < 1_000 * 200 / 20 * 2

    simulate(scenario)


def test_rows_beyond_the_guarantee_are_counted_and_come_late_at_worst() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        due = base + 60_000 - base % 60_000 + 1_000
        for _ in range(1_100):
            await world.create("shop", due)
        await world.settle_down()
        assert len(world.receiver.calls) == 1_100
        assert world.nodes["a"].node.dispatcher.over_quota == 100

    simulate(scenario, settings=MinuteSettings(window_rows=3_000))
