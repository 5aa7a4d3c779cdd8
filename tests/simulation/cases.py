"""Scenarios each made for one rule: they fail when the rule is broken."""

import asyncio
from collections.abc import Sequence

from cql.connection import Item
from scheduler_service.domain.clients import ClientSettings, ClientState, RetrySettings
from scheduler_service.domain.ids import minute_end, minute_of
from scheduler_service.domain.schedules import State
from tests.simulation.books import check_books
from tests.simulation.world import World
from tests.support.virtual_loop import virtual_loop


async def a_zombie_records_after_the_takeover(world: World) -> None:
    """A's call is answered 500, and A is stopped while its record is on the way. B takes the poller, calls again and
    delivers. A resumes, and its record arrives.
    """
    await world.add_client("shop", settings=ClientSettings(retry=RetrySettings(base_seconds=60)))
    world.add_node("a")
    await world.advance(5)
    world.receiver.latency_seconds = 2.0
    world.receiver.script = lambda call: 500 if call.node == "a" else 200
    asked = await world.create("shop", world.now_ms() + 10_000)
    stopped = asyncio.Event()

    def stop_while_recording(kind: str, items: Sequence[Item]) -> None:
        if not stopped.is_set() and any(name.startswith("schedules.write_outcome") for name, _ in items):
            stopped.set()
            world.pause("a")

    world.nodes["a"].connection.plan.hook = stop_while_recording
    await stopped.wait()
    world.add_node("b")
    await world.advance(20)
    world.resume("a")
    await world.advance(20)
    await world.settle_down()
    row = await world.row_of(asked)
    assert row is not None
    assert (row.state, len(asked.calls)) == (State.DELIVERED, 2)


async def a_poller_that_lags_behind_its_owners_low_watermark(world: World) -> None:
    """A suspended client's poller stands still while the low watermark advances for the others; then its owner dies."""
    await world.add_client("busy", quota=4)
    await world.add_client("still")
    world.add_node("a")
    await world.advance(5)
    asked = await world.create("still", world.now_ms() + 30_000)
    await world.change_client("still", state=ClientState.SUSPENDED)
    for _ in range(20):
        await world.create("busy", world.now_ms() + 5_000)
        await world.advance(60)
    assert not asked.calls
    await world.kill("a")
    world.add_node("b")
    await world.advance(60)
    await world.change_client("still", state=ClientState.ACTIVE)
    await world.settle_down()
    assert len(asked.calls) == 1


async def cancels_at_the_instant_of_the_claim(world: World) -> None:
    """Cancels read before the claim and write after it."""
    await world.add_client("shop")
    world.add_node("a")
    await world.advance(5)
    base = world.now_ms() + 15_000
    asked = [await world.create("shop", base + number) for number in range(120)]
    await world.advance_to(base - 1_010)

    async def cancel_later(number: int) -> None:
        await virtual_loop().advance(number * 0.000_5)
        await world.cancel(asked[number])

    await asyncio.gather(*(cancel_later(number) for number in range(len(asked))))
    await world.settle_down()


async def books_are_read_before_their_minute_is_over(world: World) -> None:
    """The books are read between the creates of two rows of one minute; no node runs to call them."""
    await world.add_client("shop")
    due = minute_end(minute_of(world.now_ms()))
    await world.create("shop", due)
    await check_books(world)
    await world.create("shop", due + 1)
    await world.advance_to(due + 80_000)
    await check_books(world)


async def a_zombie_writes_a_balance(world: World) -> None:
    """A is stopped with the balance of a minute on its way. B takes the poller and settles the minute under its own
    epoch; then A's write arrives.
    """
    await world.add_client("shop")
    world.add_node("a")
    await world.advance(5)
    await world.create("shop", world.now_ms() + 10_000)

    def late(kind: str, items: Sequence[Item]) -> str | None:
        return "late" if any(name.startswith("minute_balance.write") for name, _ in items) else None

    plan = world.nodes["a"].connection.plan
    plan.hook, plan.late_seconds = late, 60.0
    await world.advance(75)
    await world.kill("a")
    world.add_node("b")
    await world.advance(30)
    await check_books(world)
    await world.advance(60)
    await world.settle_down()
