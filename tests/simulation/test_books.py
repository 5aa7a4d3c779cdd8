"""The books are right although rows change minutes after they were settled, and although storage fails during reads."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from cql.connection import Item
from membership.errors import StoreUnavailable
from scheduler_service.domain.books import MinuteBalance
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.ids import ClientId, Minute, minute_of
from scheduler_service.usecases.balance import Position, ShowBalance
from scheduler_service.usecases.cancel_schedules import Cancelled
from tests.simulation.books import check_books, shown_books
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import INSERTS
from tests.simulation.world import World, simulate

SHOP = ClientId("shop")
RETRY = ClientSettings(retry=RetrySettings(base_seconds=200, cap_seconds=200, max_attempts=3))


async def balance_of(world: World, minute: Minute) -> tuple[MinuteBalance, bool]:
    """The stored balance of a minute of one poller, and whether it holds."""
    (balance,) = await world.truth.balances.read(SHOP, first=minute, last=minute)
    return balance, balance.holds(await world.truth.schedules.read_stamp(balance.partition))


async def three_failing(world: World) -> tuple[list[CreateRecord], Minute]:
    """Three calls of one minute that fail once; the minute is settled with all of them open."""
    await world.add_client("shop", settings=RETRY)
    world.add_node("a")
    await world.advance(5)
    world.receiver.script = lambda call: 500 if call.attempt == 1 else 200
    asked = [await world.create("shop", world.now_ms() + 10_000 + number) for number in range(3)]
    minute = minute_of(asked[0].due)
    await world.advance(80)
    balance, holds = await balance_of(world, minute)
    assert (balance.accepted, balance.open, holds) == (3, 3, True)
    return asked, minute


def test_the_end_of_a_retry_is_booked_where_the_schedule_was_due() -> None:
    async def scenario(world: World) -> None:
        _, minute = await three_failing(world)
        await world.advance(260)
        balance, holds = await balance_of(world, minute)
        assert (balance.accepted, balance.delivered, balance.open, holds) == (3, 3, 0, True)
        assert sum(balance.lateness) == 3
        await world.settle_down()

    simulate(scenario)


def test_an_owner_that_dies_before_its_count_leaves_correct_books() -> None:
    async def scenario(world: World) -> None:
        _, minute = await three_failing(world)

        def dies(kind: str, items: Sequence[Item]) -> str | None:
            return "crash-before" if any(name == "schedules.count_first_page" for name, _ in items) else None

        world.nodes["a"].connection.plan.hook = dies
        await world.advance(260)
        balance, holds = await balance_of(world, minute)
        assert (balance.open, holds) == (3, False)
        assert (await shown_books(world, SHOP))[minute] == Counter(delivered=3)
        balance, holds = await balance_of(world, minute)
        assert (balance.delivered, balance.epoch, holds) == (3, 1, True)
        await world.kill("a")
        world.add_node("b")
        await world.settle_down()

    simulate(scenario)


def test_a_cancel_between_attempts_is_booked_when_it_is_answered() -> None:
    async def scenario(world: World) -> None:
        asked, minute = await three_failing(world)
        assert isinstance(await world.cancel(asked[1]), Cancelled)
        _, holds = await balance_of(world, minute)
        assert not holds
        assert (await shown_books(world, SHOP))[minute] == Counter(cancelled=1, open=2)
        await world.settle_down()

    simulate(scenario)


def test_a_create_that_comes_to_a_settled_minute_is_booked_there() -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop")
        world.add_node("a")
        await world.advance(5)
        first = await world.create("shop", world.now_ms() + 10_000)
        minute = minute_of(first.due)

        def sleeps(kind: str, items: Sequence[Item]) -> None:
            if any(name in INSERTS for name, _ in items):
                world.api_clock.pause()

        world.api_connection.plan.hook = sleeps
        late = asyncio.get_running_loop().create_task(world.create("shop", world.now_ms() + 12_000))
        await world.advance(90)
        balance, holds = await balance_of(world, minute)
        assert (balance.accepted, holds) == (1, True)
        world.api_connection.plan.hook = None
        world.api_clock.resume()
        assert (await late).acknowledged
        assert (await shown_books(world, SHOP))[minute] == Counter(delivered=1, open=1)
        await world.advance(60)
        balance, holds = await balance_of(world, minute)
        assert (balance.accepted, balance.delivered, holds) == (2, 2, True)
        await world.settle_down()

    simulate(scenario)


def test_what_is_answered_while_storage_fails_is_no_smaller_than_what_was_acknowledged() -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop", quota=3, settings=RETRY)
        for name in "ab":
            world.add_node(name)
        await world.advance(5)
        show = ShowBalance(
            schedules=world.api_storage.schedules, balances=world.api_storage.balances, clock=world.api_clock
        )
        plan = world.api_connection.plan
        plan.refuse, plan.lose_answer, plan.slow = 0.02, 0.02, 0.1
        answered = refused = 0
        for number in range(60):
            await world.create("shop", world.now_ms() + 1_000 + 90_000 * world.rng.random())
            if number % 3 == 0:
                await world.advance(5 * world.rng.random())
            least = sum(one.acknowledged for one in world.asked.values())
            first, last = minute_of(world.now_ms() - 3_600_000), minute_of(world.now_ms() + 100_000)
            try:
                position: Position | None = Position(first)
                accepted = 0
                while position is not None:
                    books = await show(SHOP, position=position, last=last, limit=3)
                    accepted += sum(one.tally.accepted for one in books.minutes)
                    position = books.next
            except StoreUnavailable:
                refused += 1
                continue
            answered += 1
            assert least <= accepted <= len(world.asked)
        assert answered > 10
        assert refused > 2
        world.heal()
        await check_books(world)
        await world.settle_down(within=900)

    simulate(scenario)
