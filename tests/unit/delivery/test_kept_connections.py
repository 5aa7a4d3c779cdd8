"""Which connections are kept, which are reused, and when attempts are due."""

from dataclasses import dataclass

from poller_cluster.delivery.deadlines import Deadlines
from poller_cluster.delivery.http2.attempts import TARGET_SECONDS, TARGETS_REMEMBERED, Http1Receivers
from poller_cluster.delivery.pool import Pool, PoolKey
from poller_cluster.delivery.target import Target

TARGET = Target("http", "h", 80, None)
KEY = PoolKey("shop", TARGET, "192.0.2.1")


@dataclass(eq=False)
class Connection:
    key: PoolKey = KEY
    opened_at: float = 0.0
    idle_since: float = 0.0


def pool(*, most: int = 4, most_each: int = 2) -> Pool[Connection]:
    return Pool(most=most, most_each=most_each, idle_seconds=30, lifetime_seconds=300)


def test_the_newest_is_used_first() -> None:
    kept, first, second = pool(), Connection(), Connection()
    assert kept.put(first, 1) is None
    assert kept.put(second, 2) is None
    assert [kept.take(KEY, 3) for _ in range(3)] == [second, first, None]
    assert len(kept) == 0


def test_a_connection_of_another_client_or_target_is_not_reused() -> None:
    kept = pool()
    kept.put(Connection(), 1)
    others = [
        KEY._replace(client_id="other"),
        KEY._replace(address="192.0.2.2"),
        KEY._replace(target=TARGET._replace(port=81)),
        KEY._replace(target=TARGET._replace(scheme="https")),
        KEY._replace(target=TARGET._replace(host="g")),
    ]
    assert [kept.take(other, 1) for other in others] == [None] * 5


def test_pools_without_a_connection_are_forgotten() -> None:
    kept = pool(most=100)
    for number in range(10):
        kept.put(Connection(KEY._replace(address=f"192.0.2.{number}")), 1)
    assert kept.take(KEY, 2) is not None
    assert kept.outdated(3) == []
    assert len(kept._pools) == 9
    assert len(kept.outdated(31)) == 9
    assert kept._pools == {}


def test_too_many_of_one_and_too_many_of_all() -> None:
    kept = pool()
    made = [Connection() for _ in range(3)]
    assert [kept.put(one, 1) for one in made] == [None, None, made[2]]
    others = [Connection(KEY._replace(address=f"192.0.2.{number}")) for number in range(2, 5)]
    assert [kept.put(one, 2) for one in others] == [None, None, made[0]]
    assert len(kept) == 4


def test_old_and_idle_connections_are_closed() -> None:
    kept, aged, idle = pool(), Connection(opened_at=-290), Connection(opened_at=0)
    kept.put(idle, 0)
    kept.put(aged, 5)
    assert kept.take(KEY, 15) is idle, "the newer one is too old to be used again"
    assert kept.put(aged, 15) is aged
    kept.put(idle, 20)
    assert kept.outdated(49) == [aged]
    assert kept.take(KEY, 50) is None
    assert kept.outdated(50) == [idle]
    assert len(kept) == 0


def test_an_ended_connection_is_not_reused() -> None:
    kept, one = pool(), Connection()
    kept.put(one, 0)
    kept.drop(one)
    kept.drop(one)
    assert kept.take(KEY, 0) is None


@dataclass(eq=False)
class Item:
    tick: int = 0


def test_deadlines_are_never_early_and_a_tick_late_at_most() -> None:
    deadlines: Deadlines[Item] = Deadlines()
    instants = [100.0, 100.01, 100.049, 100.05, 107.3]
    items = {at: Item() for at in instants}
    assert [deadlines.put(item, at) for at, item in items.items()] == [True, False, False, True, True]
    told: dict[Item, float] = {}
    now = 99.9
    while (first := deadlines.first()) is not None:
        assert deadlines.due(now) == []
        now = first
        told |= dict.fromkeys(deadlines.due(now), now)
    assert all(0 < told[item] - at < 0.051 for at, item in items.items())


def test_deadlines_that_no_longer_hold() -> None:
    deadlines: Deadlines[Item] = Deadlines()
    one, other, third = Item(), Item(), Item()
    for item in (one, other, third):
        deadlines.put(item, 1.0)
    deadlines.remove(one)
    deadlines.remove(one)
    assert deadlines.due(2.0) == [other, third]
    deadlines.remove(other)
    deadlines.put(one, 3.0)
    assert deadlines.take_all() == [one]
    assert deadlines.first() is None


def test_receivers_that_speak_http1_are_remembered_for_a_while() -> None:
    receivers = Http1Receivers()
    receivers.add(TARGET, 0.0)
    assert receivers.has(TARGET, TARGET_SECONDS - 1)
    receivers.add(TARGET, 100.0)
    assert receivers.has(TARGET, TARGET_SECONDS + 99)
    assert not receivers.has(TARGET, TARGET_SECONDS + 100)
    receivers.add(TARGET, 0.0)
    receivers.forget(TARGET)
    receivers.forget(TARGET)
    assert not receivers.has(TARGET, 0.0)


def test_not_too_many_are_remembered() -> None:
    receivers = Http1Receivers()
    targets = [TARGET._replace(host=f"h{number}") for number in range(TARGETS_REMEMBERED + 1)]
    for target in targets[:-1]:
        receivers.add(target, 0.0)
    receivers.add(targets[0], 1.0)
    receivers.add(targets[-1], 2.0)
    assert len(receivers) == TARGETS_REMEMBERED
    assert [receivers.has(targets[at], 3.0) for at in (0, 1, -1)] == [True, False, True]
