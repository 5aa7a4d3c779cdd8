"""Membership agents under virtual time: wrong wall clocks, and every way to stop."""

import asyncio

import pytest

from membership.errors import IncarnationOver
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from membership.ports import NodeState
from tests.support.membership_store import Fault
from tests.support.virtual_loop import run_virtual
from tests.unit.membership.cluster import Cluster, Process, now


def started(*processes: Process) -> bool:
    return all(process.started and process.membership_agent.trusted() for process in processes)


def test_vm_resumed_an_hour_ahead() -> None:
    """Its wall clock jumped. Its liveness is not affected; it announces itself as draining until the clocks agree
    again.
    """

    async def scenario() -> None:
        cluster = Cluster({"shop": 8})
        a, b, c = (cluster.add(name) for name in "abc")
        await cluster.advance(60.0)
        assert abs(a.membership_agent.view.offset_ms) < 60
        assert a.membership_agent.view.offset_known
        c.clock.skew_ms = 3_600_000
        await cluster.advance(10.0)
        assert abs(c.membership_agent.view.offset_ms - 3_600_000) < 1_500
        assert abs(a.membership_agent.view.offset_ms) < 60
        assert cluster.store.heartbeats[c.incarnation].state is NodeState.DRAINING
        assert not c.host.positions
        assert cluster.owned()
        assert all(record.alive for record in cluster.store.incarnations.values())
        c.clock.skew_ms = 0
        await cluster.advance(60.0)
        assert cluster.store.heartbeats[c.incarnation].state is NodeState.LIVE
        assert started(a, b, c)
        assert c.host.positions
        await cluster.ends()

    run_virtual(scenario)


@pytest.mark.parametrize("skew_ms", [300, -300])
def test_offsets_are_known_to_within_a_few_hundredths_after_a_while(skew_ms: int) -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        processes = [cluster.add("a"), cluster.add("b"), cluster.add("c", skew_ms=skew_ms)]
        await cluster.advance(20.0)
        assert not processes[2].membership_agent.view.offset_known
        await cluster.advance(40.0)
        assert abs(processes[2].membership_agent.view.offset_ms - skew_ms) < 60
        assert cluster.store.heartbeats[processes[2].incarnation].state is NodeState.LIVE
        await cluster.ends()

    run_virtual(scenario)


def test_a_slow_store_makes_no_clock_look_wrong() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        processes = [cluster.add(name) for name in "ab"]
        for process in processes:
            process.port.travel_seconds = 0.7
        await cluster.advance(90.0)
        for process in processes:
            assert process.membership_agent.view.offset_known
            assert abs(process.membership_agent.view.offset_ms) < 150
        await cluster.ends()

    run_virtual(scenario)


def test_stop_may_come_at_any_time_and_leaves_nothing() -> None:
    async def scenario() -> None:
        for instant in (None, 0.0, 0.001, 0.003, 0.005, 0.007, 0.009, 0.5, 3.0):
            cluster = Cluster({})
            process = Process(cluster, NodeIncarnation(NodeId("a"), IncarnationNumber(1)))
            outcome: list[str] = []

            async def start(process: Process = process, outcome: list[str] = outcome) -> None:
                try:
                    await process.membership_agent.start()
                    outcome.append("started")
                except IncarnationOver as error:
                    outcome.append(str(error))

            starting = asyncio.get_running_loop().create_task(start())
            if instant is not None:
                await cluster.advance(instant)
            await asyncio.gather(process.membership_agent.stop(), process.membership_agent.stop())
            await starting
            await process.membership_agent.stop()
            assert not process.tasks
            assert not process.membership_agent.trusted()
            assert process.over is None, "who stops it knows"
            assert outcome == ["started"] or "was stopped" in outcome[0]
            if process.incarnation in cluster.store.heartbeats:
                assert cluster.store.heartbeats[process.incarnation].state is NodeState.LEFT

    run_virtual(scenario)


def test_stop_gives_up_when_the_store_is_away() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a = cluster.add("a")
        await cluster.advance(3.0)
        a.port.away = True
        began = now()
        await a.membership_agent.stop()
        assert now() - began < 10.0
        assert not a.tasks

    run_virtual(scenario)


def test_an_incarnation_ends_when_its_shell_breaks() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a = cluster.add("a")
        await cluster.advance(3.0)

        def broken(name: str, subject: object) -> Fault | None:
            if name == "read_heartbeats":
                raise ZeroDivisionError
            return None

        a.port.fault = broken
        with pytest.raises(ZeroDivisionError):
            await cluster.advance(3.0)
        assert a.over == "failed"
        cluster.errors.clear()
        await a.membership_agent.stop()
        assert cluster.store.heartbeats[a.incarnation].state is NodeState.LEFT

    run_virtual(scenario)


def test_an_agent_enters_state_left_only_by_being_stopped() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a = cluster.add("a")
        with pytest.raises(ValueError, match="by being stopped"):
            a.membership_agent.set_state(NodeState.LEFT)
        await cluster.ends()

    run_virtual(scenario)
