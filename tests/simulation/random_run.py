"""Random runs: operations drawn from the seed, everything checked, every acknowledged create brought to its end."""

import asyncio
import random
from dataclasses import dataclass

from poller_cluster.delivery.result import AttemptError
from poller_cluster.settings import DestinationSettings
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from tests.simulation.books import check_books
from tests.simulation.receivers import Call
from tests.simulation.redeliveries import Redeliveries
from tests.simulation.world import World, simulate

NODES = ("a", "b", "c")
EASILY_OPENED = DestinationSettings(breaker_failures=2, breaker_open_seconds=2, breaker_longest_seconds=60)
OTHER_HOST = "http://other.test/"


@dataclass(frozen=True)
class Operation:
    """One thing that happens, `after` seconds of nothing."""

    after: float
    name: str
    node: str
    amount: float


WEIGHTS = {
    "create": 30,
    "cancel": 12,
    "redeliver": 10,
    "kill": 4,
    "start": 6,
    "stop": 2,
    "pause": 3,
    "resume": 5,
    "cut_off": 2,
    "heal": 4,
    "flaky": 4,
    "step": 1,
    "slow_receiver": 2,
    "failing_receiver": 3,
    "dead_host": 3,
    "outage": 1,
}


def draw(seed: int, count: int) -> list[Operation]:
    rng = random.Random(seed)
    names = rng.choices(list(WEIGHTS), weights=list(WEIGHTS.values()), k=count)
    return [
        Operation(
            after=rng.choice((0.0, 0.3, 1.5, 6.0, 20.0)) * rng.random(),
            name=name,
            node=rng.choice(NODES),
            amount=rng.random(),
        )
        for name in names
    ]


def drawn_columns(world: World) -> dict[str, str]:
    """A third of the rows have one of few keys, a third go to another host."""
    chance = world.rng.random()
    if chance < 1 / 3:
        return {"ordering_key": f"key-{int(chance * 9)}"}
    return {"url": OTHER_HOST} if chance < 2 / 3 else {}


async def perform(world: World, operation: Operation) -> None:  # noqa: C901 - one case an operation
    node = world.nodes.get(operation.node)
    match operation.name:
        case "create":
            base = world.now_ms()
            spread = 4_000 + 80_000 * operation.amount
            for number in range(1 + int(8 * operation.amount)):
                client = ("shop", "once")[number % 2]
                await world.create(client, base + spread * world.rng.random(), **drawn_columns(world))
        case "cancel":
            open_ones = [asked for asked in world.asked.values() if asked.acknowledged and not asked.cancelled]
            if open_ones:
                await world.cancel(open_ones[int(operation.amount * len(open_ones))])
        case "redeliver":
            ended = [asked for asked in world.asked.values() if asked.acknowledged and asked.end is not None]
            if ended:
                asked = ended[int(operation.amount * len(ended))]
                await Redeliveries(world).in_doubt(asked, callers=1 + int(3 * world.rng.random()))
        case "kill" if node is not None:
            await world.kill(operation.node)
        case "start" if node is None:
            world.add_node(
                operation.node, skew_ms=200 * (operation.amount - 0.5), rate=1 + (operation.amount - 0.5) / 500
            )
        case "stop" if node is not None and not node.clock.paused:
            world.leave(operation.node)
        case "pause" if node is not None:
            world.pause(operation.node)
        case "resume" if node is not None:
            world.resume(operation.node)
        case "cut_off" if node is not None:
            world.cut_off(operation.node)
        case "outage":
            world.cut_off()
            world.api_connection.plan.cut_off = True
            await world.advance(40 * operation.amount)
            world.heal()
        case "heal":
            world.heal()
        case "flaky" if node is not None:
            plan = node.connection.plan
            plan.refuse, plan.lose_answer, plan.slow = 0.05 * operation.amount, 0.1 * operation.amount, 0.1
        case "step" if node is not None:
            # Mended before a node that is alone would believe it.
            step_ms = 100_000 * (operation.amount - 0.5)
            node.clock.step(step_ms)
            await world.advance(6 * operation.amount)
            node.clock.step(-step_ms)
        case "slow_receiver":
            world.receiver.latency_seconds = 4 * operation.amount**2
        case "failing_receiver":
            share = int(16 * operation.amount)

            def script(call: Call) -> int:
                return 500 if int(call.schedule_id[-1], 16) < share and call.attempt < 3 else 200

            world.receiver.script = script
        case "dead_host":
            answers: tuple[int | AttemptError, ...] = (503, "connect-refused", "reset", 200)
            answer = answers[int(4 * operation.amount)]
            world.receiver.script = lambda call: answer if call.url == OTHER_HOST else 200
        case _:
            return


def run(seed: int, *, operations: list[Operation] | None = None, count: int = 40) -> World:
    """One run; a Violation, or whatever else goes wrong, is raised."""
    chosen = draw(seed, count) if operations is None else operations

    async def scenario(world: World) -> None:
        retry = RetrySettings(base_seconds=3, max_attempts=5)
        await world.add_client("shop", quota=3, settings=ClientSettings(retry=retry))
        await world.add_client("once", quota=2, settings=ClientSettings(retry=retry, in_doubt="drop"))
        world.hints_lost, world.hints_crowded = 0.3, 0.2
        for name in NODES[: 1 + seed % 3]:
            world.add_node(name)
        await world.advance(4)
        for operation in chosen:
            await world.advance(operation.after)
            await asyncio.wait_for(perform(world, operation), 120)
            await check_books(world)
        world.heal()
        world.receiver.latency_seconds = 0.01
        world.receiver.script = lambda call: 200
        for node in world.nodes.values():
            node.clock.step(node.clock.true_ms() - node.clock.system_ms())
        if "a" not in world.nodes:
            world.add_node("a")
        await world.revive()
        await world.settle_down(within=900)

    return simulate(scenario, seed=seed, destinations=EASILY_OPENED)


def shrink(seed: int, operations: list[Operation]) -> list[Operation]:
    """A shorter list that still fails: pieces are left out as long as that goes on failing."""
    size = len(operations) // 2
    while size >= 1:
        start = 0
        while start < len(operations):
            candidate = operations[:start] + operations[start + size :]
            if fails(seed, candidate):
                operations = candidate
            else:
                start += size
        size //= 2
    return operations


def fails(seed: int, operations: list[Operation]) -> bool:
    try:
        run(seed, operations=operations)
    except Exception:
        return True
    return False
