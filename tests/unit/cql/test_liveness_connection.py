"""Heartbeats, members and own leases use a connection of their own, so that no other request queues before them."""

from collections.abc import Sequence
from typing import Any

import pytest

from cql.connection import Item, Parameters
from cql.memory.connection import InMemoryConnection
from cql.settings import StorageSettings
from cql.storage import Storage
from membership.conditional import APPLIED
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from membership.ports import Heartbeat, LeaseRow, NodeState
from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId

INCARNATION = NodeIncarnation(NodeId("one"), IncarnationNumber(1))
POLLER = PollerKey("shop", 0)


class Counted(InMemoryConnection):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.closed = False

    async def select(self, name: str, parameters: Parameters, **named: Any) -> list[tuple[Any, ...]]:
        self.asked.append(name)
        return await super().select(name, parameters, **named)

    async def write(self, name: str, parameters: Parameters, **named: Any) -> None:
        self.asked.append(name)
        await super().write(name, parameters, **named)

    async def conditional(self, items: Sequence[Item]) -> Any:
        self.asked.append(items[0][0])
        return await super().conditional(items)

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def data() -> Counted:
    return Counted()


@pytest.fixture
def liveness() -> Counted:
    return Counted()


@pytest.fixture
def storage(data: Counted, liveness: Counted) -> Storage:
    return Storage.over(data, liveness=liveness)


async def test_liveness_requests_use_a_connection_of_their_own(
    storage: Storage, data: Counted, liveness: Counted
) -> None:
    await storage.members.write_heartbeat(
        Heartbeat(
            incarnation=INCARNATION,
            beat=1,
            state=NodeState.LIVE,
            address="",
            wall_ms=1,
            version="",
            low_watermark=None,
            weight=1.0,
            capacity_per_minute=1,
        )
    )
    await storage.members.read_heartbeats()
    assert await storage.members.begin_incarnation(INCARNATION) == APPLIED
    assert await storage.members.renew_incarnation(INCARNATION, renewals=0) == APPLIED
    await storage.members.read_incarnation(INCARNATION)
    await storage.own_leases.create_pollers([POLLER], watermark=3)
    (free,) = await storage.own_leases.read_leases(POLLER.client_id)
    taken = LeaseRow(poller=POLLER, owner=INCARNATION, epoch=1, watermark=3, lagging=True)
    assert await storage.own_leases.write_lease(expected=free, new=taken) == APPLIED
    assert data.asked == []
    assert {name.partition(".")[0] for name in liveness.asked} == {"nodes", "lives", "pollers"}


async def test_other_requests_stay_off_the_liveness_connection(
    storage: Storage, data: Counted, liveness: Counted
) -> None:
    await storage.schedules.read_page(Partition(ClientId("shop"), PollerId(0), Minute(7)), after=None, limit=1)
    await storage.leases.read_lease(POLLER)
    await storage.clients.read_client(ClientId("shop"))
    assert len(data.asked) == 3
    assert liveness.asked == []


async def test_both_are_measured_together_and_closed_together(
    storage: Storage, data: Counted, liveness: Counted
) -> None:
    await storage.members.read_heartbeats()
    await storage.leases.read_lease(POLLER)
    assert storage.metrics.requests.seconds.keys() == {"nodes.read", "pollers.read"}
    await storage.close()
    assert data.closed
    assert liveness.closed


def test_it_waits_longer_for_answers_than_others() -> None:
    """A heartbeat acknowledged after 3 s still gives a second of trust."""
    settings = StorageSettings()
    assert settings.for_liveness().request_timeout_seconds == settings.liveness_timeout_seconds == 3.5
    assert settings.request_timeout_seconds == 2.0
