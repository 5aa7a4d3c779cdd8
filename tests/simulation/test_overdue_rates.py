"""After an outage, overdue calls are made at the rate that an operator set, and all others as if there were none."""

from collections import Counter
from collections.abc import Sequence

from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.overdue_rates import OVERDUE_AFTER_MS
from tests.simulation.creates import CreateRecord
from tests.simulation.receivers import Call
from tests.simulation.world import World, simulate

OUTAGE_SECONDS = 3_600
RATE = 10.0


async def outage(world: World, *clients: str, each_minute: int = 60, seconds: int = OUTAGE_SECONDS) -> int:
    """Calls that nobody made, so many of each client a minute. Returns when nodes may come back."""
    start = world.now_ms() + 5_000
    for number in range(seconds * each_minute // 60):
        for client in clients:
            await world.create(client, start + 60_000 * number // each_minute)
    await world.advance_to(start + 1_000 * seconds)
    return world.now_ms()


async def on_time(world: World, client: str, *, seconds: int, per_second: int = 2) -> list[CreateRecord]:
    """Calls that become due from now on."""
    base = world.now_ms() + 5_000
    return [await world.create(client, base + 1_000 * number // per_second) for number in range(seconds * per_second)]


def is_overdue(call: Call) -> bool:
    return call.at_ms - call.due_ms >= OVERDUE_AFTER_MS


def overdue_calls(world: World, *clients: str, since: float = 0.0) -> list[Call]:
    return [c for c in world.receiver.calls if is_overdue(c) and c.client_id in clients and c.at_ms >= since]


def check_rate(calls: Sequence[Call], rate: float, *, start: float, end: float, least: float = 0.9) -> None:
    """Within 10 % of the rate in every ten seconds, and in no second more than the rate and a second's burst."""
    tens = Counter(int((call.at_ms - start) // 10_000) for call in calls if start <= call.at_ms < end)
    windows = [tens[number] for number in range(int((end - start) // 10_000))]
    assert windows
    assert min(windows) >= least * 10 * rate - 1, windows
    assert max(windows) <= 1.1 * 10 * rate + 1, windows
    seconds = Counter(int(call.at_ms // 1_000) for call in calls)
    assert max(seconds.values()) <= 2 * rate + 1


def latest(asked: Sequence[CreateRecord]) -> float:
    return max(call.at_ms - call.due_ms for one in asked for call in one.calls)


def limited(rate: float | None = RATE) -> ClientSettings:
    return ClientSettings(overdue_per_second=rate)


async def after_an_outage(world: World) -> None:
    await world.add_client("shop", quota=2, settings=limited())
    await world.add_client("bank", quota=2)
    back = await outage(world, "shop", "bank", each_minute=120)
    for name in "ab":
        world.add_node(name)
    fresh = [*await on_time(world, "shop", seconds=300), *await on_time(world, "bank", seconds=300)]
    await world.advance(120)
    bank = overdue_calls(world, "bank")
    assert len(bank) >= 118 * 60
    await world.advance(240)
    check_rate(overdue_calls(world, "shop"), RATE, start=back + 30_000, end=back + 300_000)
    assert all(one.calls for one in fresh)
    assert latest(fresh) < 1_000


def test_overdue_calls_keep_to_the_rate_and_delay_nobody() -> None:
    simulate(after_an_outage)
