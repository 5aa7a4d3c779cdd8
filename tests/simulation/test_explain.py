"""Why a call was late: each cause is made to happen in whole nodes, and read back from what they stored."""

import pytest

from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.clients import ClientSettings, ClientState, HostLimit, RetrySettings
from scheduler_service.domain.flows import Flow, FlowLimits, FlowRules
from scheduler_service.domain.schedules import Row
from scheduler_service.domain.stories import Facts, Story, story_of
from scheduler_service.domain.waits import LATE_MS, Wait, fired_by_of, read_waits
from tests.simulation.cluster import SHOP, three_nodes
from tests.simulation.creates import CreateRecord
from tests.simulation.world import World, simulate

START_SECONDS = 5.0


async def begin(world: World, *, quota: int = 1, settings: ClientSettings | None = None) -> int:
    await world.add_client(SHOP, quota=quota, settings=settings)
    world.add_node("a")
    await world.advance(START_SECONDS)
    return world.now_ms()


async def story(world: World, asked: CreateRecord) -> tuple[Story, dict[str, Wait]]:
    row: Row | None = await world.row_of(asked)
    assert row is not None
    told = story_of(
        Facts(
            row=row,
            in_flight=False,
            attempts=(),
            claimed_by=None,
            epoch=None,
            client_held=False,
            now=world.now_ms(),
        )
    )
    waits = {wait.cause: wait for wait in read_waits(row.fired_by)}
    if row.first_attempt_at is not None and row.attempts == 1 and not row.redelivered_at:
        counted, late = sum(wait.ms for wait in waits.values()), row.first_attempt_at - row.due
        # What is counted is all of the time, and no more of it.
        assert counted <= late + 100
        if late > LATE_MS:
            assert counted >= late - 300
    return told, waits


def test_a_call_on_time_stores_nothing_more() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        asked = await world.create(SHOP, base + 6_000)
        await world.settle_down()
        row = await world.row_of(asked)
        assert row is not None
        assert row.fired_by == fired_by_of(row.fired_by)
        told, waits = await story(world, asked)
        assert (told.verdict, waits) == ("on-time", {})

    simulate(scenario)


def test_a_call_that_waited_less_than_a_second_stores_nothing_more() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        world.receiver.latency_seconds = 0.2
        rows = [await world.create(SHOP, base + 6_000 + n, ordering_key="k") for n in range(2)]
        await world.settle_down()
        assert [(await story(world, asked))[1] for asked in rows] == [{}, {}]

    simulate(scenario)


def test_the_rate_of_overdue_calls() -> None:
    async def scenario(world: World) -> None:
        await world.add_client(SHOP, settings=ClientSettings(overdue_per_second=0.1))
        rows = [await world.create(SHOP, world.now_ms() + 6_000 + n) for n in range(4)]
        await world.advance(90)
        world.add_node("a")
        await world.advance(60)
        await world.settle_down()
        told, waits = await story(world, rows[-1])
        assert (told.verdict, told.cause) == ("late", "takeover")
        assert waits["overdue-rate"].ms >= 25_000
        assert "rate that an administrator has set" in "".join(step.text for step in told.steps)

    simulate(scenario)


def test_the_order_of_its_key() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        world.receiver.latency_seconds = 4.0
        first, second = [await world.create(SHOP, base + 6_000 + n, ordering_key="k") for n in range(2)]
        await world.settle_down()
        told, waits = await story(world, second)
        assert (told.verdict, told.cause) == ("late", "ordering")
        assert waits["ordering"].behind == str(first.schedule_id)

    simulate(scenario)


def test_the_order_of_its_key_over_deferrals() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, settings=ClientSettings(retry=RetrySettings(base_seconds=40, max_attempts=3)))
        first, second = [await world.create(SHOP, base + 6_000 + n, ordering_key="k") for n in range(2)]
        world.receiver.script = lambda call: 500 if call.schedule_id == str(first.schedule_id) else 200
        await world.settle_down(within=400)
        told, waits = await story(world, second)
        assert (told.verdict, told.cause) == ("late", "ordering")
        assert waits["ordering"].behind == str(first.schedule_id)
        assert told.late_ms is not None
        assert waits["ordering"].ms > 0.9 * told.late_ms

    simulate(scenario)


def test_the_limits_of_its_flow_key() -> None:
    async def scenario(world: World) -> None:
        flows = FlowRules(default=FlowLimits(parallelism=1))
        base = await begin(world, settings=ClientSettings(flows=flows))
        world.receiver.latency_seconds = 2.0
        rows = [await world.create(SHOP, base + 6_000, flow=Flow("one")) for _ in range(3)]
        await world.settle_down()
        told = [(await story(world, asked))[0] for asked in rows]
        assert sorted(each.cause or "" for each in told) == ["", "flow", "flow"]

    simulate(scenario)


def test_the_room_of_its_receiver() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, settings=ClientSettings(hosts={"receiver.test": HostLimit(max_in_flight=1)}))
        world.receiver.latency_seconds = 2.0
        rows = [await world.create(SHOP, base + 6_000) for _ in range(3)]
        await world.settle_down()
        told = [(await story(world, asked))[0] for asked in rows]
        assert sorted(each.cause or "" for each in told) == ["", "receiver", "receiver"]

    simulate(scenario)


def test_the_rate_of_its_receiver() -> None:
    async def scenario(world: World) -> None:
        hosts = {"receiver.test": HostLimit(max_per_second=0.5)}
        base = await begin(world, settings=ClientSettings(hosts=hosts))
        rows = [await world.create(SHOP, base + 6_000) for _ in range(4)]
        await world.settle_down()
        told = [(await story(world, asked))[0] for asked in rows]
        assert [each.cause for each in told].count("receiver") >= 2

    simulate(scenario)


def test_the_breaker_of_its_receiver() -> None:
    async def scenario(world: World) -> None:
        patient = RetrySettings(base_seconds=5, cap_seconds=60, max_attempts=100)
        base = await begin(world, settings=ClientSettings(retry=patient))
        down = True
        world.receiver.script = lambda call: 503 if down else 200
        rows = [await world.create(SHOP, base + 2_000 + 1_000 * number) for number in range(60)]
        await world.advance(90)
        down = False
        await world.settle_down(within=600)
        told, waits = await story(world, rows[-1])
        assert (told.verdict, told.cause) == ("late", "receiver-open")
        assert told.late_ms is not None
        assert waits["receiver-open"].ms > 0.9 * told.late_ms

    simulate(scenario)


def test_a_paused_destination() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world, quota=1)
        await world.destinations.put("crm", url="http://crm.test/")
        await world.destinations.pause("crm")
        asked = await world.create(SHOP, world.now_ms() + 5_000, url="destination://crm/")
        await world.advance(40)
        await world.destinations.resume("crm")
        await world.settle_down(within=300)
        told, _ = await story(world, asked)
        assert (told.verdict, told.cause) == ("late", "destination-paused")

    simulate(scenario)


def test_a_suspended_client() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        await world.change_client(SHOP, state=ClientState.SUSPENDED)
        await world.truth.clients.announce()
        asked = await world.create(SHOP, base + 70_000)
        await world.advance(100)
        await world.change_client(SHOP, state=ClientState.ACTIVE)
        await world.truth.clients.announce()
        await world.settle_down()
        told, _ = await story(world, asked)
        assert (told.verdict, told.cause) == ("late", "client-inactive")

    simulate(scenario)


def test_a_dead_owner() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world, quota=1, names="ab")
        (owner,) = [name for name in world.nodes if world.nodes[name].node.balancer.leases()]
        asked = await world.create(SHOP, world.now_ms() + 2_000)
        await world.kill(owner)
        await world.settle_down()
        told, _ = await story(world, asked)
        assert (told.verdict, told.cause) == ("late", "takeover")

    simulate(scenario)


def test_lost_trust() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        asked = await world.create(SHOP, base + 8_000)
        await world.advance(2)
        world.cut_off("a")
        await world.advance(9)
        world.heal()
        await world.settle_down()
        told, waits = await story(world, asked)
        assert told.verdict == "late"
        assert told.cause == "trust", waits

    simulate(scenario)


def test_a_clock_in_doubt() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        asked = await world.create(SHOP, base + 8_000)
        await world.advance(2)
        world.nodes["a"].connection.plan.hook = lambda kind, items: (
            "refuse" if items[0][0] == "servers.read_clock" else None
        )
        world.nodes["a"].clock.step(60_000)
        await world.advance(20)
        world.heal()
        await world.settle_down()
        told, waits = await story(world, asked)
        assert (told.verdict, told.cause) == ("late", "clock"), waits

    simulate(scenario)


def test_a_late_create() -> None:
    async def scenario(world: World) -> None:
        await begin(world)
        await world.create(SHOP, world.now_ms() + 20_000)
        await world.advance(6)
        asked = await world.create(SHOP, world.now_ms() - 3_000)
        await world.settle_down()
        told, waits = await story(world, asked)
        assert (told.verdict, told.cause) == ("late", "late-create"), waits

    simulate(scenario)


def test_the_calls_that_a_client_may_have_under_way() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, settings=ClientSettings(max_in_flight=2))
        world.receiver.latency_seconds = 2.0
        rows = [await world.create(SHOP, base + 6_000, url=f"http://receiver-{number}.test/") for number in range(8)]
        await world.settle_down()
        told = [(await story(world, asked))[0] for asked in rows]
        assert [each.cause for each in told].count("in-flight") >= 5

    simulate(scenario)


def test_the_quota() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, settings=ClientSettings(max_in_flight=200))
        world.receiver.latency_seconds = 1.0
        due = base + 60_000 - base % 60_000 + 1_000
        rows = [await world.create(SHOP, due, url=f"http://r-{number % 100}.test/") for number in range(1_100)]
        await world.settle_down()
        told = [(await story(world, asked))[0] for asked in rows]
        assert [each.cause for each in told].count("quota") > 90

    simulate(scenario, settings=MinuteSettings(window_rows=3_000))


@pytest.mark.parametrize("seed", range(3))
def test_a_retried_call_keeps_what_it_waited_for(seed: int) -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, settings=ClientSettings(retry=RetrySettings(base_seconds=2, max_attempts=3)))
        world.receiver.latency_seconds = 3.0
        first, second = [await world.create(SHOP, base + 6_000 + n, ordering_key="k") for n in range(2)]
        world.receiver.script = lambda call: (
            500 if call.schedule_id == str(second.schedule_id) and call.attempt == 1 else 200
        )
        await world.settle_down()
        told, waits = await story(world, second)
        assert (told.verdict, told.cause) == ("late", "ordering")
        assert waits["ordering"].behind == str(first.schedule_id)

    simulate(scenario, seed=seed)
