"""Calls of a destination with a token source, while its token endpoint works, fails, hangs, and comes back."""

from itertools import pairwise

import pytest

from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.destinations import TokenSource, named_url
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.schedules import State
from tests.simulation.creates import CreateRecord
from tests.simulation.receivers import Call
from tests.simulation.world import World, simulate

START_SECONDS = 5.0
ORDERS = named_url("orders", "/expired")
PLAIN = "http://plain.test/"
SOURCE = TokenSource(client_id="shop", client_secret="secret", token_url="https://tokens.test/token")


def judging(world: World) -> list[tuple[Call, int]]:
    """From now on the destination answers 401 to calls without a token that is valid. Returns its answers."""
    answered: list[tuple[Call, int]] = []

    def script(call: Call) -> int:
        if call.url == PLAIN:
            assert call.token is None
            return 200
        answer = 200 if world.token_server.accepts(call.token, call.at_ms) else 401
        answered.append((call, answer))
        return answer

    world.receiver.script = script
    return answered


async def begin(world: World, *nodes: str) -> int:
    await world.add_client("shop", quota=len(nodes), settings=ClientSettings(retry=RetrySettings(base_seconds=1)))
    await world.destinations.put("orders", url="http://orders.test", token=SOURCE)
    for node in nodes:
        world.add_node(node)
    await world.advance(START_SECONDS)
    return world.now_ms()


async def creates(world: World, count: int, *, first_ms: int, apart_ms: int, url: str = ORDERS) -> list[CreateRecord]:
    return [await world.create("shop", first_ms + apart_ms * number, url=url) for number in range(count)]


async def attempts(world: World, rows: list[CreateRecord]) -> list[tuple[str | None, int | None]]:
    return [(row.state, row.attempts) for one in rows if (row := await world.row_of(one)) is not None]


def test_one_fetch_for_all_and_the_next_before_it_expires() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, "a")
        answered = judging(world)
        rows = [await world.create("shop", base + 3_000, url=ORDERS) for _ in range(50)]
        rows += await creates(world, 125, first_ms=base + 3_200, apart_ms=2_000)
        await world.settle_down()
        assert [answer for _, answer in answered] == [200] * 175
        assert await attempts(world, rows) == [(State.DELIVERED, 1)] * 175
        # Within the time of the first fetch; no later call waits for one.
        assert max(call.at_ms - call.due_ms for call, _ in answered) < 250
        apart = [later - earlier for earlier, later in pairwise(world.token_server.asked_at)]
        assert len(apart) == pytest.approx(253 / 45, abs=1)
        assert all(42_000 <= each <= 50_000 for each in apart)

    simulate(scenario)


@pytest.mark.parametrize("state", ["refusing", "hanging"])
def test_calls_wait_without_an_attempt_until_it_is_back(state: str) -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, "a", "b")
        answered, server = judging(world), world.token_server
        server.state = state
        rows = await creates(world, 100, first_ms=base + 3_000, apart_ms=1_000)
        plain = await creates(world, 100, first_ms=base + 3_000, apart_ms=1_000, url=PLAIN)
        await world.advance(150)
        assert answered == []
        reasons = [row.reason for one in rows if (row := await world.row_of(one)) is not None]
        assert reasons.count("token-unavailable") > 90
        assert await attempts(world, plain) == [(State.DELIVERED, 1)] * 100
        assert max(call.at_ms - call.due_ms for call in world.receiver.calls) < 100
        # Two nodes, pauses that double up to a minute.
        assert 6 <= len(server.asked_at) <= 2 * 9
        nodes = [node.node for node in world.nodes.values()]
        shown = sum(node.destinations.figures(ClientId("shop"), "orders").token_failures for node in nodes)
        assert len(server.asked_at) - 2 <= shown <= len(server.asked_at)
        assert sum(sum(node.books.counts.token_fetches.values()) for node in nodes) == shown
        assert all(node.node.dispatcher.held_back().total() == 0 for node in world.nodes.values())
        server.state = "up"
        back = world.now_ms()
        await world.settle_down(within=300)
        assert await attempts(world, rows) == [(State.DELIVERED, 1)] * 100
        assert max(call.at_ms for call, _ in answered) - back < 130_000

    simulate(scenario)


def test_a_token_that_its_receiver_rejects_is_replaced() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, "a")
        answered, server = judging(world), world.token_server
        server.life_seconds = 3_600.0
        rows = await creates(world, 200, first_ms=base + 3_000, apart_ms=250)
        await world.advance_to(base + 30_000)
        server.revoke_all()
        await world.settle_down()
        refused = [call.at_ms for call, answer in answered if answer == 401]
        assert 1 <= len(refused) <= 3
        assert refused[-1] - refused[0] < 600
        assert len(server.asked_at) == 2
        ends = await attempts(world, rows)
        assert sorted(ends) == [(State.DELIVERED, 1)] * (200 - len(refused)) + [(State.DELIVERED, 2)] * len(refused)

    simulate(scenario)


def test_a_receiver_that_rejects_every_token_costs_a_fetch_in_ten_seconds() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, "a")
        world.receiver.script = lambda call: 401
        server = world.token_server
        server.life_seconds = 3_600.0
        rows = await creates(world, 60, first_ms=base + 3_000, apart_ms=1_000)
        await world.advance_to(base + 63_000)
        assert 2 <= len(server.asked_at) <= 7
        assert all((count or 0) >= 1 for _, count in await attempts(world, rows[:5])), (
            "they are attempts like any other"
        )
        world.receiver.script = lambda call: 200
        await world.settle_down(within=3_600)

    simulate(scenario)


def test_a_node_that_dies_while_calls_wait_loses_none() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, "a", "b")
        answered, server = judging(world), world.token_server
        server.state = "hanging"
        rows = await creates(world, 40, first_ms=base + 3_000, apart_ms=100)
        await world.advance_to(base + 6_000)
        await world.kill("a")
        server.state = "up"
        await world.settle_down(within=300)
        assert {state for state, _ in await attempts(world, rows)} == {State.DELIVERED}
        assert {answer for _, answer in answered} == {200}
        assert len(answered) == 40

    simulate(scenario)


def test_a_node_that_drains_while_calls_wait_gives_them_back() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, "a")
        answered, server = judging(world), world.token_server
        server.state = "hanging"
        rows = await creates(world, 40, first_ms=base + 3_000, apart_ms=10)
        await world.advance_to(base + 4_000)
        world.add_node("b")
        began = world.now_ms()
        await world.stop("a")
        assert world.now_ms() - began < 2_000, "it does not wait for the fetch"
        server.state = "up"
        await world.settle_down(within=300)
        assert await attempts(world, rows) == [(State.DELIVERED, 1)] * 40
        assert len(answered) == 40

    simulate(scenario)
