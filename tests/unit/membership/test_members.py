"""Membership agents under virtual time: births, lapses, deaths, and a store that does not answer."""

import pytest

from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from membership.membership_agent import DEAD
from membership.ports import Heartbeat, IncarnationRecord, NodeState
from tests.support.membership_store import Fault
from tests.support.virtual_loop import run_virtual
from tests.unit.membership.cluster import Cluster, Process, on


def started(*processes: Process) -> bool:
    return all(process.started and process.membership_agent.trusted() for process in processes)


def test_an_incarnation_begins_with_record_beat_and_renewal() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a = cluster.add("a")
        await cluster.advance(1.0, until=lambda: started(a))
        assert cluster.store.incarnations[a.incarnation] == IncarnationRecord(a.incarnation, alive=True, renewals=1)
        heartbeat = cluster.store.heartbeats[a.incarnation]
        assert (heartbeat.address, heartbeat.version, heartbeat.capacity_per_minute) == ("a:1", "1", 1_000)
        assert [one.incarnation for one in a.membership_agent.view.members] == []
        await cluster.advance(3.0)
        assert [one.incarnation for one in a.membership_agent.view.members] == [a.incarnation]
        assert a.membership_agent.view.hint_weights() == {"a": 1.0}
        await cluster.ends()

    run_virtual(scenario)


def test_it_beats_and_reads_once_a_second() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        for name in "abc":
            cluster.add(name)
        await cluster.advance(20.0)
        cluster.store.requests.clear()
        await cluster.advance(60.0)
        requests = cluster.store.requests
        assert requests["write_heartbeat"] == 180
        assert 180 <= requests["read_heartbeats"] <= 192
        assert requests["read_incarnation"] <= 3 * 2 * 7
        assert 88 <= requests["read_server_clock"] <= 92
        assert set(requests) == {"write_heartbeat", "read_heartbeats", "read_incarnation", "read_server_clock"}
        await cluster.ends()

    run_virtual(scenario)


def test_a_killed_node_is_declared_dead_within_nine_seconds_by_decision() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a, b = cluster.add("a"), cluster.add("b")
        await cluster.advance(5.0)
        await a.kill()
        await cluster.advance(5.5)
        assert a.incarnation not in b.membership_agent.view.free
        await cluster.advance(3.5, until=lambda: a.incarnation in b.membership_agent.view.free)
        assert not cluster.store.incarnations[a.incarnation].alive
        await cluster.ends()

    run_virtual(scenario)


@pytest.mark.parametrize("seconds", [5.0, 9.0, 20.0])
def test_a_paused_process_acts_no_more_until_it_knows(seconds: float) -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a, b = cluster.add("a"), cluster.add("b")
        await cluster.advance(5.0)
        a.clock.pause()
        await cluster.advance(seconds)
        a.clock.resume()
        assert not a.membership_agent.trusted(), "beats from before the pause count for nothing"
        await cluster.advance(2.0)
        if seconds < 6.0:
            assert started(a, b)
            assert cluster.store.incarnations[a.incarnation].renewals == 2
        else:
            assert a.over == DEAD
            assert not a.membership_agent.trusted()
        await cluster.ends()

    run_virtual(scenario)


def test_trust_is_not_regained_after_a_death_was_decided() -> None:
    """The declaration takes effect while the paused incarnation's renewal is on its way."""

    async def scenario() -> None:
        cluster = Cluster({})
        a, b = cluster.add("a"), cluster.add("b")
        await cluster.advance(5.0)
        a.clock.pause()
        b.port.fault = on("declare_dead", Fault.LATE)
        await cluster.advance(20.0, until=lambda: "declare_dead" in cluster.store.requests)
        a.clock.resume()
        await cluster.advance(1.0)
        assert a.membership_agent.trusted(), "its renewal came first"
        await cluster.advance(10.0)
        assert cluster.store.incarnations[a.incarnation].alive, (
            "the late declaration was conditional on the renewals of before"
        )
        assert started(a, b)
        await cluster.ends()

    run_virtual(scenario)


def test_everyone_looks_dead_to_a_process_that_slept() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a, b = cluster.add("a"), cluster.add("b")
        await cluster.advance(5.0)
        a.clock.pause()
        b.clock.pause()
        await cluster.advance(3600.0)
        a.clock.resume()
        await cluster.advance(3.0)
        b.clock.resume()
        await cluster.advance(10.0)
        assert all(record.alive for record in cluster.store.incarnations.values())
        assert started(a, b)
        await cluster.ends()

    run_virtual(scenario)


def test_no_incarnation_dies_by_an_outage_of_the_store() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        processes = [cluster.add(name) for name in "abc"]
        await cluster.advance(5.0)
        for process in processes:
            process.port.away = True
        await cluster.advance(20.0)
        assert not any(process.membership_agent.trusted() for process in processes)
        for process in processes:
            process.port.away = False
        await cluster.advance(2.0, until=lambda: started(*processes))
        await cluster.advance(20.0)
        assert all(record.alive for record in cluster.store.incarnations.values())
        await cluster.ends()

    run_virtual(scenario)


def test_one_lost_or_hanging_beat_costs_no_trust() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a = cluster.add("a")
        await cluster.advance(5.0)
        for fault in (Fault.ANSWER_LOST, Fault.HANGS, Fault.REFUSED):
            a.port.fault = on("write_heartbeat", fault)
            for _ in range(60):
                await cluster.advance(0.1)
                assert a.membership_agent.trusted()
        assert cluster.store.incarnations[a.incarnation].renewals == 1
        await cluster.ends()

    run_virtual(scenario)


def test_an_unknown_renewal_is_read_and_made_again() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a = cluster.add("a")
        a.port.fault = on("renew_incarnation", Fault.ANSWER_LOST)
        await cluster.advance(0.9)
        assert cluster.store.incarnations[a.incarnation].renewals == 1
        assert not a.membership_agent.trusted()
        await cluster.advance(3.0, until=lambda: started(a))
        assert cluster.store.incarnations[a.incarnation].renewals == 2
        await cluster.ends()

    run_virtual(scenario)


def test_a_row_of_an_incarnation_without_record_is_no_member() -> None:
    async def scenario() -> None:
        cluster = Cluster({"shop": 2})
        ghost = NodeIncarnation(NodeId("ghost"), IncarnationNumber(1))
        cluster.store.write_heartbeat(
            Heartbeat(
                incarnation=ghost, beat=1, state=NodeState.LIVE, address="", wall_ms=0, version="", low_watermark=None
            )
        )
        a = cluster.add("a")
        await cluster.advance(3.0)
        assert ghost in a.membership_agent.view.free
        assert cluster.owned()
        assert a.balancer.hint_of(PollerKey("shop", 0)) == "a"
        await cluster.ends()

    run_virtual(scenario)
