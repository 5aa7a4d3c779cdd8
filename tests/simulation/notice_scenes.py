"""What scenes of notices share: schedules that end in every way, and troubles of nodes and storage meanwhile."""

import random
from collections.abc import Awaitable, Callable, Collection, Sequence

from cql.connection import Item
from scheduler_service.domain.notices import EVENTS_CLIENT
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import INSERTS
from tests.simulation.notices import BOOK
from tests.simulation.receivers import Call
from tests.simulation.world import World


def fails_some(call: Call) -> int:
    """Every third schedule fails; notices get an answer."""
    return 200 if call.url.startswith(BOOK) or int(call.schedule_id[-1], 16) % 3 else 500


def fails_notices(call: Call) -> int:
    return 503 if call.url.startswith(BOOK) else 200


async def load(
    world: World, number: int, *, seconds: int = 60, told: Callable[[int], str | None] = lambda number: None
) -> list[CreateRecord]:
    """Schedules due over so many seconds, every seventh cancelled. `told`: whom the end of each is told, by number."""
    base = world.now_ms() + 10_000
    asked = [
        await world.create("shop", base + world.rng.randrange(seconds * 1000), told=told(turn))
        for turn in range(number)
    ]
    for one in asked[::7]:
        await world.cancel(one)
    return asked


async def until_told(world: World, missing: Callable[[], Collection[str]], *, within: int = 400) -> None:
    """Let all schedules end, then time pass until nothing is missing."""
    await world.settle_down(within=within)
    for _ in range(within):
        if not missing():
            return
        await world.revive()
        await world.advance(1.0)
    raise world.violation(f"no notice tells of {missing()}")


async def trouble(
    world: World, rng: random.Random, *, turns: int, also: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Nodes are killed, paused, cut off and lose answers, or what else is given happens; at the end storage heals."""
    for turn in range(turns):
        await world.advance(4.0 + 6.0 * rng.random())
        await world.revive()
        name = rng.choice(sorted(world.nodes))
        match rng.randrange(4 if also is None else 5):
            case 0:
                await world.kill(name)
                world.add_node(f"{name}{turn}")
            case 1:
                world.pause(name)
                await world.advance(3.0 + 5.0 * rng.random())
                world.resume(name)
            case 2:
                world.cut_off(name)
                await world.advance(3.0 * rng.random())
                world.heal()
            case 3 if also is not None:
                await also()
            case _:
                for node in world.nodes.values():
                    node.connection.plan.lose_answer = 0.2
    world.heal()


def refuse_notices(world: World) -> None:
    """Storage takes no row of `$events` from these nodes."""
    for node in world.nodes.values():
        node.connection.plan.hook = _refuse_notices


def _refuse_notices(kind: str, items: Sequence[Item]) -> str | None:
    of_events = any(statement in INSERTS and EVENTS_CLIENT in parameters for statement, parameters in items)
    return "refuse" if of_events else None


async def replace_nodes(world: World) -> None:
    """All die, and others start."""
    await world.kill_all()
    for name in "xyz":
        world.add_node(name)
