"""Heartbeaters under virtual time: births, lapses, deaths, two processes of one node, clocks."""

import asyncio

import pytest

from membership.errors import LifeOver
from membership.heartbeater import DEAD, SUPERSEDED, TAKEN, new_life
from membership.identity import Incarnation, Lane, Life, NodeId
from membership.ports import Heartbeat, LifeRecord, NodeState
from tests.support.membership_store import Fault
from tests.support.virtual_loop import run_virtual
from tests.unit.membership.cluster import Cluster, Process, now, on


def started(*processes: Process) -> bool:
    return all(process.started and process.heartbeater.trusted() for process in processes)


def test_a_life_begins_with_record_beat_and_renewal() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a = cluster.add("a")
        await cluster.advance(1.0, until=lambda: started(a))
        assert cluster.store.lives[a.life] == LifeRecord(a.life, alive=True, renewals=1)
        heartbeat = cluster.store.heartbeats[a.life]
        assert (heartbeat.address, heartbeat.version, heartbeat.capacity_per_minute) == ("a:1", "1", 1_000)
        assert [one.life for one in a.heartbeater.view.members] == []
        await cluster.advance(3.0)
        assert [one.life for one in a.heartbeater.view.members] == [a.life]
        assert a.heartbeater.view.hint_weights() == {"a": 1.0}
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
        assert requests["read_life"] <= 3 * 2 * 7
        assert set(requests) == {"write_heartbeat", "read_heartbeats", "read_life"}
        await cluster.ends()

    run_virtual(scenario)


def test_a_killed_node_is_declared_dead_within_nine_seconds_by_decision() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a, b = cluster.add("a"), cluster.add("b")
        await cluster.advance(5.0)
        await a.kill()
        await cluster.advance(5.5)
        assert a.life not in b.heartbeater.view.free
        await cluster.advance(3.5, until=lambda: a.life in b.heartbeater.view.free)
        assert not cluster.store.lives[a.life].alive
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
        assert not a.heartbeater.trusted(), "beats from before the pause count for nothing"
        await cluster.advance(2.0)
        if seconds < 6.0:
            assert started(a, b)
            assert cluster.store.lives[a.life].renewals == 2
        else:
            assert a.over == DEAD
            assert not a.heartbeater.trusted()
        await cluster.ends()

    run_virtual(scenario)


def test_trust_is_not_regained_after_a_death_was_decided() -> None:
    """The declaration takes effect while the paused life's renewal is on its way."""

    async def scenario() -> None:
        cluster = Cluster({})
        a, b = cluster.add("a"), cluster.add("b")
        await cluster.advance(5.0)
        a.clock.pause()
        b.port.fault = on("declare_dead", Fault.LATE)
        await cluster.advance(20.0, until=lambda: "declare_dead" in cluster.store.requests)
        a.clock.resume()
        await cluster.advance(1.0)
        assert a.heartbeater.trusted(), "its renewal came first"
        await cluster.advance(10.0)
        assert cluster.store.lives[a.life].alive, "the late declaration was conditional on the renewals of before"
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
        assert all(record.alive for record in cluster.store.lives.values())
        assert started(a, b)
        await cluster.ends()

    run_virtual(scenario)


def test_nobody_dies_because_the_store_was_away() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        processes = [cluster.add(name) for name in "abc"]
        await cluster.advance(5.0)
        for process in processes:
            process.port.away = True
        await cluster.advance(20.0)
        assert not any(process.heartbeater.trusted() for process in processes)
        for process in processes:
            process.port.away = False
        await cluster.advance(2.0, until=lambda: started(*processes))
        await cluster.advance(20.0)
        assert all(record.alive for record in cluster.store.lives.values())
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
                assert a.heartbeater.trusted()
        assert cluster.store.lives[a.life].renewals == 1
        await cluster.ends()

    run_virtual(scenario)


def test_an_unknown_renewal_is_read_and_made_anew() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a = cluster.add("a")
        a.port.fault = on("renew_life", Fault.ANSWER_LOST)
        await cluster.advance(0.9)
        assert cluster.store.lives[a.life].renewals == 1
        assert not a.heartbeater.trusted()
        await cluster.advance(3.0, until=lambda: started(a))
        assert cluster.store.lives[a.life].renewals == 2
        await cluster.ends()

    run_virtual(scenario)


def test_two_processes_with_one_node_id() -> None:
    """They began at the same time, so neither saw the other: the older one stops, and leaves after the send margin."""

    async def scenario() -> None:
        cluster = Cluster({})
        older, newer = cluster.add("a"), cluster.add("a")
        await cluster.advance(3.0, until=lambda: older.over is not None)
        ended = now()
        assert older.over == SUPERSEDED
        assert not older.heartbeater.trusted()
        assert cluster.store.heartbeats[older.life].state is not NodeState.LEFT
        await cluster.advance(4.0, until=lambda: cluster.store.heartbeats[older.life].state is NodeState.LEFT)
        assert now() - ended >= cluster.settings.send_margin_seconds - 0.1
        await cluster.advance(10.0)
        assert started(newer)
        assert cluster.store.heartbeats[older.life].state is NodeState.LEFT, "no late beat brings it back"
        await cluster.ends()

    run_virtual(scenario)


def test_a_newcomer_waits_until_the_older_life_of_its_node_is_dead() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        older = cluster.add("a")
        await cluster.advance(5.0)
        newer = cluster.add("a")
        await cluster.advance(20.0)
        assert started(older), "a second process of a living node waits for ever"
        assert newer.life not in cluster.store.lives
        await older.kill()
        await cluster.advance(12.0, until=lambda: started(newer))
        assert not cluster.store.lives[older.life].alive, "nobody else is there: the newcomer itself declared it dead"
        await cluster.ends()

    run_virtual(scenario)


def test_a_newcomer_begins_at_once_when_the_older_life_left() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        older = cluster.add("a")
        await cluster.advance(5.0)
        await older.stop()
        assert cluster.store.heartbeats[older.life].state is NodeState.LEFT
        newer = cluster.add("a")
        await cluster.advance(1.0, until=lambda: started(newer))
        await cluster.ends()

    run_virtual(scenario)


def test_a_life_that_exists_is_not_begun_again() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        first = cluster.add("a", incarnation=5)
        await cluster.advance(3.0)
        cluster.processes.append(second := Process(cluster, first.life))
        with pytest.raises(LifeOver, match="another process began the same life"):
            await second.heartbeater.start()
        assert second.over == TAKEN
        await second.heartbeater.stop()
        assert started(first)
        await cluster.ends()

    run_virtual(scenario)


def test_a_new_life_is_above_all_that_its_node_had_whatever_the_clock_says() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a = cluster.add("a", incarnation=9_000_000_000_000)
        await cluster.advance(3.0)
        port, settings = a.port, cluster.settings
        life = await new_life(node_id=NodeId("a"), store=port, clock=a.clock, settings=settings)
        assert life == Life(NodeId("a"), Incarnation(9_000_000_000_001))
        port.fault = on("read_heartbeats", Fault.REFUSED)
        other = await new_life(node_id=NodeId("b"), store=port, clock=a.clock, settings=settings)
        assert other.incarnation == a.clock.wall_ms()
        await cluster.ends()

    run_virtual(scenario)


def test_vm_resumed_an_hour_ahead() -> None:
    """Its wall clock jumped. Liveness does not care; the node announces itself as draining until it agrees again."""

    async def scenario() -> None:
        cluster = Cluster({"shop": 8})
        a, b, c = (cluster.add(name) for name in "abc")
        await cluster.advance(60.0)
        assert abs(a.heartbeater.view.offset_ms) < 60
        assert a.heartbeater.view.offset_known
        c.clock.skew_ms = 3_600_000
        await cluster.advance(10.0)
        assert abs(c.heartbeater.view.offset_ms - 3_600_000) < 1_500
        assert abs(a.heartbeater.view.offset_ms) < 60
        assert cluster.store.heartbeats[c.life].state is NodeState.DRAINING
        assert not c.host.positions
        assert cluster.owned()
        assert all(record.alive for record in cluster.store.lives.values())
        c.clock.skew_ms = 0
        await cluster.advance(60.0)
        assert cluster.store.heartbeats[c.life].state is NodeState.LIVE
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
        assert not processes[2].heartbeater.view.offset_known
        await cluster.advance(40.0)
        assert abs(processes[2].heartbeater.view.offset_ms - skew_ms) < 60
        assert cluster.store.heartbeats[processes[2].life].state is NodeState.LIVE
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
            assert process.heartbeater.view.offset_known
            assert abs(process.heartbeater.view.offset_ms) < 150
        await cluster.ends()

    run_virtual(scenario)


def test_stop_may_come_at_any_time_and_leaves_nothing() -> None:
    async def scenario() -> None:
        for instant in (None, 0.0, 0.001, 0.003, 0.005, 0.007, 0.009, 0.5, 3.0):
            cluster = Cluster({})
            process = Process(cluster, Life(NodeId("a"), Incarnation(1)))
            outcome: list[str] = []

            async def start(process: Process = process, outcome: list[str] = outcome) -> None:
                try:
                    await process.heartbeater.start()
                    outcome.append("started")
                except LifeOver as error:
                    outcome.append(str(error))

            starting = asyncio.get_running_loop().create_task(start())
            if instant is not None:
                await cluster.advance(instant)
            await asyncio.gather(process.heartbeater.stop(), process.heartbeater.stop())
            await starting
            await process.heartbeater.stop()
            assert not process.tasks
            assert not process.heartbeater.trusted()
            assert process.over is None, "who stops it knows"
            assert outcome == ["started"] or "was stopped" in outcome[0]
            if process.life in cluster.store.heartbeats:
                assert cluster.store.heartbeats[process.life].state is NodeState.LEFT

    run_virtual(scenario)


def test_stop_gives_up_when_the_store_is_away() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a = cluster.add("a")
        await cluster.advance(3.0)
        a.port.away = True
        began = now()
        await a.heartbeater.stop()
        assert now() - began < 10.0
        assert not a.tasks

    run_virtual(scenario)


def test_a_life_ends_when_its_shell_breaks() -> None:
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
        await a.heartbeater.stop()
        assert cluster.store.heartbeats[a.life].state is NodeState.LEFT

    run_virtual(scenario)


def test_a_row_of_a_life_without_record_is_nobodys() -> None:
    async def scenario() -> None:
        cluster = Cluster({"shop": 2})
        ghost = Life(NodeId("ghost"), Incarnation(1))
        cluster.store.write_heartbeat(
            Heartbeat(life=ghost, beat=1, state=NodeState.LIVE, address="", wall_ms=0, version="", floor=None)
        )
        a = cluster.add("a")
        await cluster.advance(3.0)
        assert ghost in a.heartbeater.view.free
        assert cluster.owned()
        assert a.keeper.hint_of(Lane("shop", 0)) == "a"
        await cluster.ends()

    run_virtual(scenario)


def test_left_is_written_by_stopping_only() -> None:
    async def scenario() -> None:
        cluster = Cluster({})
        a = cluster.add("a")
        with pytest.raises(ValueError, match="by being stopped"):
            a.heartbeater.set_state(NodeState.LEFT)
        await cluster.ends()

    run_virtual(scenario)
