"""After an outage, overdue calls are made at the rate that an operator set, and all others as if there were none."""

from collections import Counter
from collections.abc import Sequence

from scheduler_service.domain.clients import ClientSettings, RetrySettings
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


async def set_rate(world: World, client: str, rate: float | None) -> float:
    """Returns when the change was made."""
    await world.change_client(client, settings=limited(rate))
    await world.truth.clients.announce()
    return world.now_ms()


async def two_nodes_share(world: World) -> None:
    await world.add_client("shop", quota=4)
    await world.add_client("bank", quota=4)
    await world.truth.clients.set_overdue_rate(2 * RATE)
    await outage(world, "shop", "bank", each_minute=120)
    for name in "ab":
        world.add_node(name)
    back = world.now_ms()
    fresh = [*await on_time(world, "shop", seconds=200), *await on_time(world, "bank", seconds=200)]
    await world.advance(240)
    check_rate(overdue_calls(world, "shop", "bank"), 2 * RATE, start=back + 30_000, end=back + 230_000)
    for name in ("shop", "bank"):
        assert len(overdue_calls(world, name)) >= RATE * 0.5 * 200
    assert latest(fresh) < 1_000


def test_nodes_share_the_rate_of_all_clients() -> None:
    simulate(two_nodes_share)


async def changed_and_removed(world: World) -> None:
    await world.add_client("shop", quota=2, settings=limited())
    back = await outage(world, "shop", each_minute=120)
    world.add_node("a")
    await world.advance_to(back + 100_000)
    check_rate(overdue_calls(world, "shop"), RATE, start=back + 30_000, end=back + 100_000)
    changed = await set_rate(world, "shop", 3 * RATE)
    await world.advance(80)
    check_rate(
        overdue_calls(world, "shop", since=changed + 10_000), 3 * RATE, start=changed + 10_000, end=changed + 80_000
    )
    removed = await set_rate(world, "shop", None)
    await world.advance(60)
    assert len(overdue_calls(world, "shop", since=removed)) > 60 * 3 * RATE * 1.5
    await world.settle_down(within=600.0)


def test_a_rate_that_changes_while_it_holds_rows_back_is_kept_at_once() -> None:
    simulate(changed_and_removed)


async def owner_killed(world: World) -> None:
    await world.add_client("shop", quota=2, settings=limited())
    back = await outage(world, "shop", each_minute=120, seconds=900)
    world.add_node("a")
    await world.advance_to(back + 60_000)
    await world.kill("a")
    world.add_node("b")
    killed = world.now_ms()
    await world.advance(90)
    calls = overdue_calls(world, "shop")
    begun = next(call.at_ms for call in calls if call.at_ms > killed)
    check_rate([c for c in calls if c.at_ms >= begun], RATE, start=begun + 10_000, end=killed + 90_000)
    await world.settle_down(within=600.0)
    assert all(one.calls for one in world.asked.values())


def test_the_next_owner_goes_on_at_the_same_rate() -> None:
    simulate(owner_killed)


async def keys_wait_for_recovery(world: World) -> None:
    await world.add_client("shop", settings=limited())
    outage_seconds = 600
    back = await outage(world, "shop", seconds=outage_seconds)
    world.add_node("a")
    base = back + 5_000
    keyed = [await world.create("shop", base + 2_000 * number, ordering_key="k") for number in range(60)]
    fresh = await on_time(world, "shop", seconds=120)
    await world.advance(180)
    assert latest(fresh) < 1_000
    drained = outage_seconds / RATE
    assert all(one.calls for one in keyed)
    assert max(one.calls[0].at_ms for one in keyed) - back < 1_000 * max(drained + 20, 125)
    assert latest(keyed[-20:]) < 1_000


def test_rows_with_an_ordering_key_wait_for_recovery_at_most() -> None:
    simulate(keys_wait_for_recovery)


async def rows_of_failing_keys_come_first(world: World) -> None:
    retry = RetrySettings(max_attempts=100, base_seconds=1.0, cap_seconds=2.0)
    await world.add_client("shop", settings=ClientSettings(retry=retry, overdue_per_second=RATE))
    start = world.now_ms() + 60_000
    for minute in range(6):
        for number in range(60):
            await world.create("shop", start + 60_000 * minute + 50 * number, ordering_key="k" if number < 30 else None)
    await world.advance(660)
    world.receiver.script = lambda call: 503
    world.add_node("a")
    await world.advance(30)
    world.receiver.script = lambda call: 200
    await world.settle_down(within=180.0)


def test_rows_that_wait_for_their_keys_leave_the_rate_to_those_behind_them() -> None:
    simulate(rows_of_failing_keys_come_first)


async def quota_lowered(world: World) -> None:
    await world.add_client("shop", quota=4)
    await world.truth.clients.set_overdue_rate(2 * RATE)
    await outage(world, "shop", each_minute=120, seconds=600)
    for name in "abcd":
        world.add_node(name)
    await world.advance(20)
    await world.change_client("shop", poller_quota=1)
    await world.truth.clients.announce()
    await world.settle_down(within=300.0)


def test_pollers_beyond_a_lowered_quota_have_a_part_of_the_rate_of_all() -> None:
    simulate(quota_lowered)
