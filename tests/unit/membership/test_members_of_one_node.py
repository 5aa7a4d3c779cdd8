"""Several processes under one node id: which waits, which stops, which starts."""

import pytest

from membership.errors import IncarnationOver
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from membership.membership_agent import SUPERSEDED, TAKEN, new_incarnation
from membership.ports import NodeState
from tests.support.membership_store import Fault
from tests.support.virtual_loop import run_virtual
from tests.unit.membership.cluster import Cluster, Process, now, on


def started(*processes: Process) -> bool:
    return all(process.started and process.membership_agent.trusted() for process in processes)


def test_two_processes_with_one_node_id() -> None:
    """They began at the same time, so neither saw the other: the older one stops, and leaves after the send margin."""

    async def scenario() -> None:
        cluster = Cluster({})
        older, newer = cluster.add("a"), cluster.add("a")
        await cluster.advance(3.0, until=lambda: older.over is not None)
        ended = now()
        assert older.over == SUPERSEDED
        assert not older.membership_agent.trusted()
        assert cluster.store.heartbeats[older.incarnation].state is not NodeState.LEFT
        await cluster.advance(4.0, until=lambda: cluster.store.heartbeats[older.incarnation].state is NodeState.LEFT)
        assert now() - ended >= cluster.settings.send_margin_seconds - 0.1
        await cluster.advance(10.0)
        assert started(newer)
        assert cluster.store.heartbeats[older.incarnation].state is NodeState.LEFT, "no late beat brings it back"
        await cluster.ends()

    run_virtual(scenario)


def test_a_newcomer_waits_until_the_older_incarnation_of_its_node_is_dead() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        older = cluster.add("a")
        await cluster.advance(5.0)
        newer = cluster.add("a")
        await cluster.advance(20.0)
        assert started(older), "a second process of a living node waits for ever"
        assert newer.incarnation not in cluster.store.incarnations
        await older.kill()
        await cluster.advance(12.0, until=lambda: started(newer))
        assert not cluster.store.incarnations[older.incarnation].alive, (
            "nobody else is there: the newcomer itself declared it dead"
        )
        await cluster.ends()

    run_virtual(scenario)


def test_a_newcomer_begins_at_once_when_the_older_incarnation_left() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        older = cluster.add("a")
        await cluster.advance(5.0)
        await older.stop()
        assert cluster.store.heartbeats[older.incarnation].state is NodeState.LEFT
        newer = cluster.add("a")
        await cluster.advance(1.0, until=lambda: started(newer))
        await cluster.ends()

    run_virtual(scenario)


def test_an_incarnation_that_exists_is_not_begun_again() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        first = cluster.add("a", incarnation=5)
        await cluster.advance(3.0)
        cluster.processes.append(second := Process(cluster, first.incarnation))
        with pytest.raises(IncarnationOver, match="another process began the same incarnation"):
            await second.membership_agent.start()
        assert second.over == TAKEN
        await second.membership_agent.stop()
        assert started(first)
        await cluster.ends()

    run_virtual(scenario)


def test_a_new_incarnation_is_above_all_that_its_node_had_whatever_the_clock_says() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a = cluster.add("a", incarnation=9_000_000_000_000)
        await cluster.advance(3.0)
        port, settings = a.port, cluster.settings
        incarnation = await new_incarnation(node_id=NodeId("a"), store=port, clock=a.clock, settings=settings)
        assert incarnation == NodeIncarnation(NodeId("a"), IncarnationNumber(9_000_000_000_001))
        port.fault = on("read_heartbeats", Fault.REFUSED)
        other = await new_incarnation(node_id=NodeId("b"), store=port, clock=a.clock, settings=settings)
        assert other.number == a.clock.wall_ms()
        await cluster.ends()

    run_virtual(scenario)
