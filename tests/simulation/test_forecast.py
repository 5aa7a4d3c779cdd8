"""A forecast says what the books will show."""

from typing import Any, cast

from scheduler_service.domain.forecast import MinuteForecast
from scheduler_service.domain.ids import MINUTE_MS, MINUTES_PER_HOUR, Minute, minute_of, minute_start
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.forecast import ShowForecast
from scheduler_service.usecases.members import WatchMembers
from scheduler_service.usecases.minute_loads import LOADS_EVERY_SECONDS, KeepMinuteLoads
from tests.simulation.books import shown_books
from tests.simulation.crons import SHOP, with_crons
from tests.simulation.world import World, simulate

MINUTES = 45
RATE = 2.0
"""Creates a second."""


class NoMembers:
    """Members are of no interest here."""

    async def known(self) -> None: ...

    def capacity_per_minute(self) -> int:
        return 0


async def forecast(world: World, first: Minute, last: Minute) -> dict[Minute, MinuteForecast]:
    show = ShowForecast(
        members=cast(WatchMembers, NoMembers()),
        clients=world.truth.clients,
        crons=world.truth.crons,
        loads=world.truth.minute_loads,
        clock=world.api_clock,
    )
    found = await show.of_client(world.clients[SHOP], first=first, last=last)
    return {minute.minute: minute for minute in found.minutes if minute.calls}


async def write_loads(world: World) -> None:
    await KeepMinuteLoads(store=world.api_storage.minute_loads, clock=world.api_clock).finish()


async def fill(world: World, seconds: float, *, first: Minute) -> None:
    """Create and cancel for some time; the first of three is cancelled by another moment's API."""
    recent: list[Any] = []
    for number in range(round(seconds * RATE)):
        due = minute_start(first) + world.rng.randrange(MINUTES * MINUTE_MS)
        recent.append(await world.create(SHOP, due))
        if number % 3 == 2:
            await world.cancel(recent.pop(world.rng.randrange(len(recent))))
        await world.advance(1 / RATE)


async def accepted(world: World, first: Minute, last: Minute) -> dict[Minute, int]:
    """By the books: what was accepted and not cancelled."""
    books = await shown_books(world, SHOP, limit=MINUTES_PER_HOUR)
    counts = {minute: of.total() - of[State.CANCELLED] for minute, of in books.items() if first <= minute <= last}
    return {minute: count for minute, count in counts.items() if count}


def test_creates_cancels_and_crons_of_any_rule_are_foreseen_as_the_books_show_them_afterwards() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world)
        first = Minute(minute_of(world.now_ms()) + 8)
        last = Minute(first + MINUTES - 1)
        await crons.put("tick", "* * * * *")
        await crons.put("tock", "* * * * *")
        await crons.put("third", "*/3 * * * *", timezone="Asia/Kathmandu", spread_seconds=200)
        await crons.put("few", "* * * * *", max_fires=20)
        await crons.put("interval", "every 7 minutes")
        await crons.put("gone", "* * * * *")
        await fill(world, 120, first=first)
        await crons.delete("gone")
        await world.advance(60)
        await write_loads(world)
        await world.advance(LOADS_EVERY_SECONDS + 1)
        foreseen = await forecast(world, first, last)
        assert any(minute.fires and minute.rows for minute in foreseen.values())
        await world.advance_to(minute_start(last + 2))
        assert {minute: one.calls for minute, one in foreseen.items()} == await accepted(world, first, last)
        again = await forecast(world, first, last)
        assert {minute: one.rows for minute, one in again.items()} == await accepted(world, first, last)
        assert not any(one.fires for one in again.values())

    simulate(scenario)


def test_killed_processes_lose_what_they_counted_in_some_seconds_and_nothing_else() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="abc")
        first = Minute(minute_of(world.now_ms()) + 8)
        last = Minute(first + MINUTES - 1)
        for number in range(6):
            await crons.put(f"c{number}", "*/2 * * * *", spread_seconds=60 * number)
        lost = 0
        for victim in "ab":
            await fill(world, 60, first=first)
            await write_loads(world)
            before = len(world.asked)
            await fill(world, LOADS_EVERY_SECONDS, first=first)
            lost += len(world.asked) - before
            await world.kill(victim)
            await world.restart_api()
        crons = type(crons)(world)
        await fill(world, 60, first=first)
        await write_loads(world)
        await world.advance(90)
        foreseen = await forecast(world, first, last)
        await world.advance_to(minute_start(last + 2))
        books = await accepted(world, first, last)
        wrong = sum(
            abs(books.get(minute, 0) - (foreseen[minute].calls if minute in foreseen else 0))
            for minute in map(Minute, range(first, last + 1))
        )
        # A cancel that was not counted weighs as much as a create; a minute's children are expanded ten minutes ahead.
        bound = 2 * lost + 2 * 6 * 5
        assert 0 < wrong <= bound, (wrong, bound)
        assert sum(books.values()) > 10 * lost

    simulate(scenario)
