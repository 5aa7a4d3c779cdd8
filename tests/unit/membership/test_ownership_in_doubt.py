"""Lease balancers under virtual time: lost answers, lost trust, endless drains, and stops."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from membership.conditional import Answer
from membership.identity import PollerKey
from membership.ports import LeaseChange, LeaseRow
from membership.settings import MembershipSettings
from tests.support.membership_store import Fault
from tests.support.virtual_loop import run_virtual
from tests.unit.membership.cluster import Cluster, Process, now, on

POLLERS = {"shop": 12, "blog": 5, "$cron": 3}


def test_a_drain_that_never_ends_is_cut_off() -> None:
    async def scenario() -> None:
        cluster = Cluster({"shop": 4}, settings=MembershipSettings(drain_seconds=2.0))
        a = cluster.add("a")
        await cluster.advance(10.0)
        a.host.drain_seconds = 1e9
        began = now()
        await a.stop()
        assert now() - began < 5.0
        assert {row.owner for row in cluster.store.leases.values()} == {None}
        assert not a.tasks

    run_virtual(scenario)


def test_a_host_that_fails_to_drain_keeps_no_poller() -> None:
    async def scenario() -> None:
        cluster = Cluster({"shop": 2})
        a = cluster.add("a")
        await cluster.advance(10.0)

        async def broken(poller: PollerKey) -> None:
            raise ZeroDivisionError

        a.host.drain = broken  # type: ignore[method-assign]
        await a.stop()
        assert {row.owner for row in cluster.store.leases.values()} == {None}

    run_virtual(scenario)


def nth_lease_write(fault: Fault, kind: Callable[[LeaseRow], bool]) -> Callable[[str, object], Fault | None]:
    """A hook for the nth write of that kind."""
    left = [1]

    def hook(name: str, subject: object) -> Fault | None:
        if name == "write_lease" and isinstance(subject, LeaseRow) and kind(subject) and left[0]:
            left[0] = 0
            return fault
        return None

    return hook


KINDS: dict[str, Callable[[LeaseRow], bool]] = {
    "take": lambda row: row.owner is not None and row.lagging,
    "clear": lambda row: row.owner is not None and not row.lagging,
    "release": lambda row: row.owner is None,
}
LOST = [Fault.ANSWER_LOST, Fault.LATE, Fault.REFUSED, Fault.HANGS]


@pytest.mark.parametrize("fault", LOST)
@pytest.mark.parametrize("kind", ["take", "clear"])
def test_an_unknown_write_is_settled_by_a_new_epoch(kind: str, fault: Fault) -> None:
    async def scenario() -> None:
        cluster = Cluster({"shop": 1})
        poller = PollerKey("shop", 0)
        a = cluster.add("a")
        a.port.fault = nth_lease_write(fault, KINDS[kind])
        await cluster.advance(40.0)
        epoch = cluster.store.leases[poller].epoch
        assert a.balancer.leases().get(poller) == epoch
        if kind == "clear" or fault is Fault.ANSWER_LOST:
            assert epoch == 2
        assert not cluster.store.leases[poller].lagging
        story = [what for what, _ in a.host.story]
        expected = ["granted"] if kind == "take" else ["granted", "drain", "revoked", "granted"]
        assert story == expected, "nobody acts under an epoch about which an answer was lost"
        await cluster.ends()

    run_virtual(scenario)


@pytest.mark.parametrize("fault", LOST)
def test_an_unknown_release_is_released_or_taken_under_a_new_epoch(fault: Fault) -> None:
    """`unsure` pollers are read until that is settled, wherever rendezvous hashing places them."""

    async def scenario() -> None:
        cluster = Cluster({"shop": 4})
        a = cluster.add("a")
        await cluster.advance(20.0)
        a.port.fault = nth_lease_write(fault, KINDS["release"])
        cluster.add("b")
        await cluster.advance(15.0, until=lambda: cluster.owned() and len(a.host.positions) < 4)
        await cluster.advance(10.0)
        assert cluster.owned()
        await cluster.ends()

    run_virtual(scenario)


@pytest.mark.parametrize("fault", LOST)
def test_a_take_unknown_when_the_hint_moves_away_is_not_forgotten(fault: Fault) -> None:
    async def scenario() -> None:
        cluster = Cluster({"shop": 6})
        a, b = cluster.add("a"), cluster.add("b")
        a.port.fault = on("write_lease", fault, times=100)
        await cluster.advance(2.5)
        a.drain()
        a.port.fault = lambda name, subject: None
        await cluster.advance(20.0, until=lambda: len(b.host.positions) == 6)
        assert not a.host.positions
        await cluster.ends()

    run_virtual(scenario)


def test_a_paused_owner_whose_incarnation_was_ended_revokes_everything() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        a, b = cluster.add("a"), cluster.add("b")
        await cluster.advance(20.0)
        held = len(a.host.positions)
        a.clock.pause()
        await cluster.advance(15.0, until=lambda: len(b.host.positions) == 20)
        a.clock.resume()
        await cluster.advance(2.0)
        assert a.over == "dead"
        assert [what for what, _ in a.host.story].count("revoked") == held
        assert a.balancer.leases() == {}
        await cluster.ends()

    run_virtual(scenario)


def test_a_short_outage_changes_no_ownership() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        processes = [cluster.add(name) for name in "abc"]
        await cluster.advance(30.0)
        before = {poller: row.epoch for poller, row in cluster.store.leases.items()}
        for process in processes:
            process.port.away = True
        await cluster.advance(25.0)
        for process in processes:
            process.port.away = False
        await cluster.advance(5.0, until=cluster.owned)
        assert {poller: row.epoch for poller, row in cluster.store.leases.items()} == before
        await cluster.ends()

    run_virtual(scenario)


def test_a_suspected_poller_is_settled_under_a_new_epoch() -> None:
    async def scenario() -> None:
        cluster = Cluster({"shop": 2})
        a = cluster.add("a")
        await cluster.advance(20.0)
        poller = PollerKey("shop", 1)
        a.balancer.suspect(poller, epoch=99)
        await cluster.advance(3.0)
        assert a.balancer.leases().get(poller) == 1
        a.balancer.suspect(poller, epoch=1)
        a.balancer.suspect(poller, epoch=1)
        await cluster.advance(3.0)
        assert a.balancer.leases().get(poller) == 2
        await cluster.ends()

    run_virtual(scenario)


def test_takes_are_bounded_in_number_and_size_and_one_a_client() -> None:
    async def scenario() -> None:
        settings = MembershipSettings(max_concurrent_lease_writes=7, pollers_per_lease_write=10)
        cluster = Cluster({f"shop{number}": 25 for number in range(12)}, settings=settings)
        a = cluster.add("a")
        real = a.port.write_leases
        under_way: list[str] = []
        peak = 0
        sizes: list[int] = []

        async def counted(changes: Sequence[LeaseChange]) -> Answer[None]:
            nonlocal peak
            (client_id,) = {change.new.poller.client_id for change in changes}
            assert client_id not in under_way
            under_way.append(client_id)
            peak = max(peak, len(under_way))
            sizes.append(len(changes))
            try:
                return await real(changes)
            finally:
                under_way.remove(client_id)

        a.balancer._lease_table._store = type("Counting", (), {"write_leases": staticmethod(counted)})()  # type: ignore[assignment]
        await cluster.advance(3.0, until=lambda: len(a.host.positions) == 300)
        assert peak == 7
        assert sorted(sizes) == [5] * 12 + [10] * 24
        await cluster.ends()

    run_virtual(scenario)


def test_a_poller_that_fails_a_shared_write_stops_only_itself() -> None:
    """A write applies to all or none; after a rejection each poller is written alone, and only the changed one is read
    again.
    """

    async def scenario() -> None:
        cluster = Cluster({"shop": 6})
        moved = PollerKey("shop", 3)
        a = cluster.add("a")

        def move_once(name: str, subject: object) -> Fault | None:
            row = cluster.store.leases[moved]
            if name == "write_lease" and row.epoch == 0:
                cluster.store.leases[moved] = replace(row, epoch=8)
            return None

        a.port.fault = move_once
        await cluster.advance(5.0, until=lambda: len(a.host.positions) == 6)
        epochs = {poller.poller_id: row.epoch for poller, row in cluster.store.leases.items()}
        assert epochs == {0: 1, 1: 1, 2: 1, 3: 9, 4: 1, 5: 1}
        await cluster.ends()

    run_virtual(scenario)


@pytest.mark.parametrize("fault", LOST)
def test_an_unknown_write_of_many_leaves_all_of_them_in_doubt(fault: Fault) -> None:
    async def scenario() -> None:
        cluster = Cluster({"shop": 6})
        a = cluster.add("a")
        a.port.fault = nth_lease_write(fault, KINDS["take"])
        await cluster.advance(20.0, until=lambda: len(a.host.positions) == 6)
        epochs = {row.epoch for row in cluster.store.leases.values()}
        assert epochs == ({2} if fault is Fault.ANSWER_LOST else {1}) or fault is Fault.LATE
        assert [what for what, _ in a.host.story] == ["granted"] * 6
        await cluster.ends()

    run_virtual(scenario)


def test_stopping_with_pollers_waits_out_what_was_started() -> None:
    async def scenario() -> None:
        cluster = Cluster({"shop": 2})
        a = cluster.add("a")
        await cluster.advance(10.0)
        began = now()
        await a.balancer.stop()
        assert now() - began >= cluster.settings.send_margin_seconds
        assert not a.host.positions
        await a.balancer.stop()
        await a.membership_agent.stop()
        assert not a.tasks
        cluster.add("b")
        await cluster.advance(5.0, until=cluster.owned)
        await cluster.ends()

    run_virtual(scenario)


def stopped_before_it_started(process: Process) -> bool:
    return not process.tasks and not process.host.positions


def test_a_lease_balancer_may_be_stopped_before_it_started() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        a = cluster.add("a")
        await a.stop()
        await a.kill()
        assert stopped_before_it_started(a)

    run_virtual(scenario)
