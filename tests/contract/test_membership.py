"""Heartbeats, incarnations and leases."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cql.storage import Storage
from membership.conditional import APPLIED, Applied, Rejected
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from membership.ports import Heartbeat, IncarnationRecord, LeaseChange, LeaseRow, NodeState
from scheduler_service.runtime.clock import SystemClock
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")


def incarnation(names: Names, incarnation: int = 1_700_000_000_000) -> NodeIncarnation:
    return NodeIncarnation(NodeId(names.stem), IncarnationNumber(incarnation))


def heartbeat(
    of: NodeIncarnation, beat: int, *, low_watermark: int | None = 5, system_ms: int | None = 1_700_000_600_123
) -> Heartbeat:
    return Heartbeat(
        incarnation=of,
        beat=beat,
        state=NodeState.DRAINING,
        address="127.0.0.1:7000",
        wall_ms=1_700_000_000_123,
        version="0.1.0",
        low_watermark=low_watermark,
        weight=0.5,
        capacity_per_minute=60_000,
        system_ms=system_ms,
        knows=0 if system_ms is None else 14,
    )


async def heartbeats(storage: Storage, names: Names) -> Sequence[Heartbeat]:
    return [one for one in await storage.members.read_heartbeats() if one.incarnation.node_id == names.stem]


async def test_a_heartbeat_replaces_the_one_before(storage: Storage, names: Names) -> None:
    mine, older = incarnation(names), incarnation(names, 5)
    assert await heartbeats(storage, names) == []
    for one in (heartbeat(mine, 1, low_watermark=None), heartbeat(mine, 2), heartbeat(mine, 2), heartbeat(older, 9)):
        await storage.members.write_heartbeat(one)
    found = await heartbeats(storage, names)
    assert sorted(found, key=lambda one: one.incarnation) == [heartbeat(older, 9), heartbeat(mine, 2)]


async def test_a_later_beat_wins_over_a_late_one(storage: Storage, names: Names) -> None:
    for one in (heartbeat(incarnation(names), 8), heartbeat(incarnation(names), 7, low_watermark=3)):
        await storage.members.write_heartbeat(one)
    assert await heartbeats(storage, names) == [heartbeat(incarnation(names), 8)]


async def test_a_heartbeat_may_have_no_low_watermark(storage: Storage, names: Names) -> None:
    await storage.members.write_heartbeat(heartbeat(incarnation(names), 1, low_watermark=None))
    assert await heartbeats(storage, names) == [heartbeat(incarnation(names), 1, low_watermark=None)]


async def test_a_program_that_does_not_write_its_machines_clock_was_not_stepped(storage: Storage, names: Names) -> None:
    """As in a rolling upgrade."""
    for one in (heartbeat(incarnation(names), 1), heartbeat(incarnation(names, 5), 1, system_ms=None)):
        await storage.members.write_heartbeat(one)
    assert {one.incarnation.number: one.step_ms for one in await heartbeats(storage, names)} == {
        5: 0,
        1_700_000_000_000: 600_000,
    }


async def test_an_incarnation_begins_once(storage: Storage, names: Names) -> None:
    members = storage.members
    assert await members.read_incarnation(incarnation(names)) is None
    assert await members.begin_incarnation(incarnation(names)) == APPLIED
    born = IncarnationRecord(incarnation(names), True, 0)
    assert await members.begin_incarnation(incarnation(names)) == Rejected(born)
    assert await members.read_incarnation(incarnation(names)) == born
    assert await members.read_incarnation(incarnation(names, 2)) is None


async def test_renewal_and_death_exclude_each_other(storage: Storage, names: Names) -> None:
    members, mine = storage.members, incarnation(names)
    assert await members.renew_incarnation(mine, renewals=0) == Rejected(None)
    assert await members.declare_dead(mine, renewals=0) == Rejected(None)
    assert await members.read_incarnation(mine) is None, "a condition on nothing makes nothing"
    await members.begin_incarnation(mine)
    assert await members.renew_incarnation(mine, renewals=0) == APPLIED
    assert await members.declare_dead(mine, renewals=0) == Rejected(IncarnationRecord(mine, True, 1))
    assert await members.renew_incarnation(mine, renewals=0) == Rejected(IncarnationRecord(mine, True, 1))
    assert await members.declare_dead(mine, renewals=1) == APPLIED
    dead = IncarnationRecord(mine, False, 1)
    assert await members.renew_incarnation(mine, renewals=1) == Rejected(dead)
    assert await members.declare_dead(mine, renewals=1) == Rejected(dead)
    assert await members.begin_incarnation(mine) == Rejected(dead)
    assert await members.read_incarnation(mine) == dead


async def test_pollers_are_created_once(storage: Storage, names: Names) -> None:
    client = names.client()
    leases = storage.leases
    assert await leases.read_leases(client) == []
    assert await leases.read_lease(PollerKey(client, 0)) is None
    await leases.create_pollers([PollerKey(client, number) for number in (1, 0, 1)], watermark=7)
    free = [
        LeaseRow(poller=PollerKey(client, number), owner=None, epoch=0, watermark=7, lagging=True) for number in (0, 1)
    ]
    assert await leases.read_leases(client) == free
    taken = replace(free[1], owner=incarnation(names), epoch=1)
    assert await leases.write_lease(expected=free[1], new=taken) == APPLIED
    await leases.create_pollers([PollerKey(client, number) for number in range(3)], watermark=9)
    assert await leases.read_leases(client) == [
        free[0],
        taken,
        replace(free[0], poller=PollerKey(client, 2), watermark=9),
    ]
    assert await leases.read_lease(PollerKey(client, 1)) == taken


async def test_many_pollers_of_several_clients(storage: Storage, names: Names) -> None:
    pollers = [PollerKey(names.client(suffix), number) for number in range(230) for suffix in ("-a", "-b")]
    await storage.leases.create_pollers(pollers, watermark=3)
    for suffix in ("-a", "-b"):
        found = await storage.leases.read_leases(names.client(suffix))
        assert [lease.poller.poller_id for lease in found] == list(range(230))
    await storage.leases.create_pollers([], watermark=3)


async def test_two_processes_create_the_same_pollers(storage: Storage, names: Names) -> None:
    client = names.client()
    pollers = [PollerKey(client, number) for number in range(30)]
    await asyncio.gather(*(storage.leases.create_pollers(pollers[:count], watermark=count) for count in (10, 20, 30)))
    found = await storage.leases.read_leases(client)
    assert [lease.poller for lease in found] == pollers
    assert {lease.epoch for lease in found} == {0}
    assert {lease.watermark for lease in found} <= {10, 20, 30}


async def test_a_lease_changes_only_from_all_that_was_read(storage: Storage, names: Names) -> None:
    poller = PollerKey(names.client(), 0)
    leases = storage.leases
    free = LeaseRow(poller=poller, owner=None, epoch=0, watermark=7, lagging=True)
    mine = replace(free, owner=incarnation(names), epoch=1)
    assert await leases.write_lease(expected=free, new=mine) == Rejected(None)
    await leases.create_pollers([poller], watermark=7)
    for wrong in (
        replace(free, owner=incarnation(names)),
        replace(free, epoch=1),
        replace(free, watermark=8),
        replace(free, lagging=False),
    ):
        assert await leases.write_lease(expected=wrong, new=mine) == Rejected(free)
    assert await leases.write_lease(expected=free, new=mine) == APPLIED
    assert await leases.write_lease(expected=free, new=mine) == Rejected(mine)
    other_incarnation = replace(mine, owner=incarnation(names, 2))
    assert await leases.write_lease(expected=other_incarnation, new=free) == Rejected(mine)
    released = replace(mine, owner=None, watermark=9, lagging=False)
    assert await leases.write_lease(expected=mine, new=released) == APPLIED
    assert await leases.read_lease(poller) == released
    with pytest.raises(ValueError, match="can't become"):
        await leases.write_lease(expected=free, new=replace(free, poller=PollerKey(names.client(), 1)))


async def test_several_leases_change_together_or_not_at_all(storage: Storage, names: Names) -> None:
    client = names.client()
    leases = storage.leases
    await leases.create_pollers([PollerKey(client, number) for number in range(80)], watermark=7)
    free = await leases.read_leases(client)
    mine = [replace(row, owner=incarnation(names), epoch=1) for row in free]
    changes = [LeaseChange(expected=old, new=new) for old, new in zip(free, mine, strict=True)]
    changed = replace(free[5], watermark=8)
    assert await leases.write_lease(expected=free[5], new=changed) == APPLIED
    assert await leases.write_leases(changes) == Rejected(None)
    assert await leases.read_leases(client) == [*free[:5], changed, *free[6:]]
    assert await leases.write_leases([*changes[:5], *changes[6:]]) == APPLIED
    assert await leases.read_leases(client) == [*mine[:5], changed, *mine[6:]]


async def test_one_of_concurrent_lease_takers_wins(storage: Storage, names: Names) -> None:
    poller = PollerKey(names.client(), 0)
    await storage.leases.create_pollers([poller], watermark=7)
    free = LeaseRow(poller=poller, owner=None, epoch=0, watermark=7, lagging=True)
    takers = [replace(free, owner=incarnation(names, number), epoch=1) for number in range(4)]
    answers = await asyncio.gather(*(storage.leases.write_lease(expected=free, new=one) for one in takers))
    winners = [taker for taker, answer in zip(takers, answers, strict=True) if isinstance(answer, Applied)]
    # Unknown is a correct answer under contention; a second winner is not.
    assert len(winners) <= 1
    settled = await storage.leases.read_lease(poller)
    if winners:
        assert settled == winners[0]
    assert all(answer.current in takers for answer in answers if isinstance(answer, Rejected))


async def test_a_server_tells_its_name_and_its_time(storage: Storage) -> None:
    clock = SystemClock()
    before = clock.system_ms()
    told = [await storage.members.read_server_clock() for _ in range(3)]
    assert len({one.server for one in told}) == 1, "there is one server"
    assert before <= told[0].wall_ms <= told[-1].wall_ms <= clock.system_ms()
