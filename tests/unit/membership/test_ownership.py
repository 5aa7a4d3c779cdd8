"""Lease balancers under virtual time: pollers find their owners and move in good order."""

import pytest

from membership.identity import PollerKey
from membership.ports import NodeState
from tests.support.virtual_loop import run_virtual
from tests.unit.membership.cluster import MARK_SECONDS, Cluster, now

POLLERS = {"shop": 12, "blog": 5, "$cron": 3}


def test_every_poller_finds_the_node_it_is_hinted_to() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        processes = [cluster.add(name) for name in "abc"]
        await cluster.advance(10.0, until=cluster.owned)
        assert sum(len(process.balancer.leases()) for process in processes) == 20
        for process in processes:
            assert process.host.positions, "each has a share"
            for poller, epoch in process.balancer.leases().items():
                assert process.balancer.leases().get(poller) == epoch
                assert process.balancer.leases().get(poller) != epoch - 1
                assert cluster.store.leases[poller].owner == process.incarnation
        await cluster.ends()

    run_virtual(scenario)


def test_nothing_is_read_or_written_for_pollers_that_stay() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        for name in "abc":
            cluster.add(name)
        await cluster.advance(40.0)
        cluster.store.requests.clear()
        low_watermarks = [beat.low_watermark for beat in cluster.store.heartbeats.values()]
        await cluster.advance(60.0)
        assert set(cluster.store.requests) == {
            *("write_heartbeat", "read_heartbeats", "read_incarnation", "read_server_clock")
        }
        for old, beat in zip(low_watermarks, cluster.store.heartbeats.values(), strict=True):
            assert old is not None
            assert beat.low_watermark is not None
            assert beat.low_watermark > old, "the low watermarks speak for the pollers"
        await cluster.ends()

    run_virtual(scenario)


def test_a_killed_nodes_pollers_are_acted_for_again_within_ten_seconds_from_its_low_watermark() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        a, b, c = (cluster.add(name) for name in "abc")
        await cluster.advance(120.0)
        pollers = list(a.host.positions)
        at = int(now() // MARK_SECONDS)
        await a.kill()
        await cluster.advance(10.0, until=cluster.owned)
        for poller in pollers:
            row = cluster.store.leases[poller]
            assert row.owner in (b.incarnation, c.incarnation)
            assert row.watermark >= at - 2, "it started from the floor, not from where the poller was taken long ago"
        await cluster.ends()

    run_virtual(scenario)


def test_a_lagging_poller_is_not_skipped_by_a_low_watermark() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        a, _ = cluster.add("a"), cluster.add("b")
        await cluster.advance(30.0, until=cluster.owned)
        await cluster.advance(30.0)
        stuck = next(iter(a.host.positions))
        cluster.stuck[stuck] = None
        position = a.host.positions[stuck]
        await cluster.advance(60.0)
        assert cluster.store.leases[stuck].lagging
        assert cluster.store.leases[stuck].watermark == position
        low_watermark = cluster.store.heartbeats[a.incarnation].low_watermark
        assert low_watermark is not None
        assert low_watermark > position, "it does not hold the others back"
        await a.kill()
        await cluster.advance(12.0, until=cluster.owned)
        assert cluster.store.leases[stuck].watermark == position
        await cluster.ends()

    run_virtual(scenario)


def test_no_watermark_is_written_that_is_ahead_of_what_is_credible() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        a = cluster.add("a")
        await cluster.advance(40.0)
        stuck = PollerKey("shop", 0)
        cluster.stuck[stuck] = None
        position = a.host.positions[stuck]
        a.host.latest_credible = position - 3
        await cluster.advance(40.0)
        row = cluster.store.leases[stuck]
        assert row.lagging
        assert row.watermark == position - 3
        await cluster.ends()

    run_virtual(scenario)


def test_the_host_is_told_which_pollers_it_has_lost() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        a = cluster.add("a")
        await cluster.advance(20.0)
        cluster.add("b")
        await cluster.advance(20.0)
        moved = set(cluster.all_pollers) - set(a.host.positions)
        assert set(a.host.gone_pollers) == moved
        assert moved
        await cluster.ends()

    run_virtual(scenario)


def test_a_poller_that_caught_up_counts_again() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        a = cluster.add("a")
        await cluster.advance(20.0)
        stuck = PollerKey("shop", 0)
        cluster.stuck[stuck] = None
        await cluster.advance(40.0)
        assert cluster.store.leases[stuck].lagging
        del cluster.stuck[stuck]
        await cluster.advance(20.0)
        assert not cluster.store.leases[stuck].lagging
        assert a.balancer.leases().get(stuck) == 1
        await cluster.ends()

    run_virtual(scenario)


def test_a_long_walk_writes_its_watermark_now_and_then() -> None:
    """A poller far behind that is catching up need not start again after a crash."""

    async def scenario() -> None:
        cluster = Cluster({"shop": 5})
        cluster.add("a")
        await cluster.advance(20.0)
        walking = PollerKey("shop", 3)
        host = cluster.processes[0].host
        cluster.stuck[walking] = None
        begun = host.positions[walking]
        await cluster.advance(100.0)
        for _ in range(8):
            host.positions[walking] += 1
            cluster.reached[walking] = host.positions[walking]
            await cluster.advance(5.0)
        row = cluster.store.leases[walking]
        assert row.lagging
        assert begun + 3 <= row.watermark <= begun + 8
        await cluster.ends()

    run_virtual(scenario)


def test_a_planned_stop_hands_over_without_waiting_for_a_death() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        a, b, c = (cluster.add(name) for name in "abc")
        await cluster.advance(30.0)
        pollers = list(a.host.positions)
        a.host.drain_seconds = 0.5
        a.spawn(a.stop(), name="stop")
        await cluster.advance(3.0, until=lambda: cluster.owned() and not a.host.positions)
        assert {cluster.store.leases[poller].owner for poller in pollers} <= {b.incarnation, c.incarnation}
        await cluster.advance(1.0, until=lambda: cluster.store.heartbeats[a.incarnation].state is NodeState.LEFT)
        assert cluster.store.incarnations[a.incarnation].alive
        for poller in pollers:
            assert [what for what, which in a.host.story if which == poller] == ["granted", "drain", "revoked"]
        assert not a.tasks
        await cluster.ends()

    run_virtual(scenario)


def test_a_joining_node_gets_its_share_and_others_keep_theirs() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        a, b = cluster.add("a"), cluster.add("b")
        await cluster.advance(20.0)
        before = {poller: cluster.store.leases[poller] for poller in cluster.all_pollers}
        c = cluster.add("c")
        await cluster.advance(5.0, until=lambda: c.started and bool(c.host.positions) and cluster.owned())
        for poller, row in before.items():
            now_row = cluster.store.leases[poller]
            assert now_row.owner == c.incarnation or (now_row.owner, now_row.epoch) == (row.owner, row.epoch)
        assert all(process.host.positions for process in (a, b, c))
        await cluster.ends()

    run_virtual(scenario)


def test_draining_by_order_empties_a_node_that_stays() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        a, b = cluster.add("a"), cluster.add("b")
        await cluster.advance(20.0)
        a.drain()
        await cluster.advance(5.0, until=lambda: not a.host.positions and cluster.owned())
        await cluster.advance(20.0)
        assert a.membership_agent.trusted()
        a.balancer.take_again()
        await cluster.advance(5.0, until=lambda: bool(a.host.positions) and cluster.owned())
        assert b.host.positions
        await cluster.ends()

    run_virtual(scenario)


def test_a_node_that_says_it_drains_keeps_its_pollers_until_it_releases_them() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        a, _ = cluster.add("a"), cluster.add("b")
        await cluster.advance(20.0)
        held = a.balancer.leases()
        a.membership_agent.set_state(NodeState.DRAINING)
        await cluster.advance(10.0)
        assert a.membership_agent.view.heartbeats[a.incarnation].state is NodeState.DRAINING
        assert a.balancer.leases() == held
        await cluster.ends()

    run_virtual(scenario)


def test_more_and_fewer_pollers() -> None:
    async def scenario() -> None:
        cluster = Cluster({"shop": 6})
        processes = [cluster.add(name) for name in "ab"]
        await cluster.advance(10.0)

        async def told(pollers: dict[str, int]) -> None:
            cluster.pollers = pollers
            cluster.store.create_pollers(cluster.all_pollers, watermark=0)
            for process in processes:
                process.balancer.set_pollers(pollers)
            await cluster.advance(5.0, until=cluster.owned)
            await cluster.advance(2.0)
            held = [poller for process in processes for poller in process.balancer.leases()]
            assert sorted(held) == sorted(cluster.all_pollers)

        await told({"shop": 9, "blog": 2})
        await told({"shop": 4})
        assert processes[0].balancer.hint_of(PollerKey("blog", 0)) is None
        await told({"shop": 9})
        await cluster.ends()

    run_virtual(scenario)


def test_a_poller_without_row_is_not_served_and_found_when_it_comes(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        cluster = Cluster({"shop": 3})
        cluster.pollers = {"shop": 4}
        a = cluster.add("a")
        await cluster.advance(30.0)
        assert sorted(poller.poller_id for poller in a.host.positions) == [0, 1, 2]
        assert "shop/3 has no lease row" in caplog.text
        assert caplog.text.count("shop/3 has no lease row") == 1
        cluster.store.create_pollers([PollerKey("shop", 3)], watermark=0)
        await cluster.advance(7.0)
        assert len(a.host.positions) == 4
        await cluster.ends()

    run_virtual(scenario)


def test_what_is_looked_for_in_vain_is_looked_for_more_rarely() -> None:
    async def scenario() -> None:
        cluster = Cluster({"shop": 3})
        cluster.pollers = {"shop": 4}
        cluster.add("a")
        await cluster.advance(60.0)
        cluster.store.requests.clear()
        await cluster.advance(60.0)
        assert 10 <= cluster.store.requests["read_leases"] <= 13
        await cluster.ends()

    run_virtual(scenario)


def test_all_nodes_down_for_hours() -> None:
    async def scenario() -> None:
        cluster = Cluster(POLLERS)
        processes = [cluster.add(name) for name in "ab"]
        await cluster.advance(60.0)
        for process in processes:
            await process.kill()
        marks = dict(cluster.reached)
        await cluster.advance(7_200.0 / 100)
        for name in "ab":
            cluster.add(name)
        await cluster.advance(12.0, until=lambda: cluster.owned())
        for poller, row in cluster.store.leases.items():
            assert row.watermark <= marks[poller], "they begin where it ended, not now"
            assert row.watermark >= marks[poller] - 2
        await cluster.ends()

    run_virtual(scenario)
