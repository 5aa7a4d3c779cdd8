"""What a node keeps of its clients, and which pollers it tells of rows that it places."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

from poller_cluster.clients import ServedClient
from poller_cluster.node_pollers import NodePollers
from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId, RowKey, compose_schedule_id
from tests.support.node_parts import GivenClients
from tests.unit.poller_cluster.builders import at
from tests.unit.poller_cluster.claimed import client

SHOP = ClientId("shop")
KEY = RowKey(at(5), compose_schedule_id(due=at(5), poller_id=0, tail=1))


class Pollers:
    """Replaces a client's pollers; `leaving` are those that are being handed over."""

    client_id = SHOP

    def __init__(self, *held: int, leaving: Collection[int] = ()) -> None:
        self.pollers = {PollerId(one): SimpleNamespace(leaving=one in leaving) for one in held}
        self.told: list[Any] = []

    def grant(self, poller_id: PollerId, *, epoch: int, start: Minute) -> None:
        self.pollers[poller_id] = SimpleNamespace(leaving=False)

    def revoke(self, poller_id: PollerId) -> None:
        del self.pollers[poller_id]

    def suspend(self) -> None:
        self.told.append("suspend")

    def resume(self) -> None:
        self.told.append("resume")

    def wake(self) -> None:
        self.told.append("wake")

    def hint(self, poller_id: PollerId, minute: Minute, keys: list[RowKey] | None) -> None:
        self.told.append((poller_id, keys))


class Bench:
    def __init__(self, pollers: Pollers, *, quota: int = 4, alone: bool = False) -> None:
        self.clients: list[ServedClient] = [client(quota=quota)]
        self.draining = False
        self.elsewhere: list[tuple[Partition, RowKey]] = []
        self.node = NodePollers(
            clients=GivenClients(lambda: self.clients),
            elsewhere=None if alone else self,
            draining=lambda: self.draining,
        )
        self.pollers: Any = pollers
        self.node.begin(self.pollers)

    def hint(self, partition: Partition, key: RowKey) -> None:
        self.elsewhere.append((partition, key))


def test_the_share_is_that_of_the_quotas_pollers() -> None:
    bench = Bench(Pollers(0, 3))
    assert bench.node.share(SHOP) == 0.5
    bench.node.revoke(SHOP, PollerId(3))
    assert bench.node.share(SHOP) == 0.25
    for poller_id in (1, 2):
        bench.node.grant(SHOP, PollerId(poller_id), epoch=1, start=Minute(0))
    assert bench.node.share(SHOP) == 0.75
    bench.clients = [client(quota=2)]
    bench.node.clients_changed()
    assert bench.node.share(SHOP) == 1.0


def test_pollers_beyond_a_lowered_quota_are_the_share_of_one() -> None:
    assert Bench(Pollers(2, 3), quota=2).node.share(SHOP) == 0.5
    assert Bench(Pollers(0, 2, 3), quota=1).node.share(SHOP) == 1.0


def test_a_client_of_which_nothing_is_known_has_no_narrower_limit() -> None:
    bench = Bench(Pollers(0))
    assert bench.node.share(ClientId("bank")) == 1.0
    bench.clients = []
    assert bench.node.share(SHOP) == 1.0


def test_a_node_keeps_the_pollers_that_it_does_not_hand_over() -> None:
    bench = Bench(Pollers(0, 1, 2, leaving=[1]))
    assert set(bench.node.kept(SHOP)) == {0, 2}
    assert set(bench.node.kept(ClientId("bank"))) == set()
    bench.draining = True
    assert set(bench.node.kept(SHOP)) == set()


def test_a_row_of_a_held_poller_is_read_here_and_others_are_hinted() -> None:
    bench = Bench(Pollers(0))
    bench.pollers.told.clear()
    here, there = Partition(SHOP, PollerId(0), Minute(1)), Partition(SHOP, PollerId(1), Minute(1))
    bench.node.hint(here, KEY)
    bench.node.hint(there, KEY)
    assert bench.pollers.told == [(0, [KEY])]
    assert bench.elsewhere == [(there, KEY)]
    bench.node.hinted([(here, None)])
    assert bench.pollers.told[1:] == [(0, None)]
    Bench(Pollers(0), alone=True).node.hint(there, KEY)


def test_pollers_follow_the_state_of_their_client() -> None:
    bench = Bench(Pollers(0))
    assert bench.pollers.told == ["resume", "wake"]
    bench.clients = [client(state=ClientState.SUSPENDED)]
    bench.node.clients_changed()
    assert bench.pollers.told[2:] == ["suspend"]
    bench.clients = []
    bench.node.clients_changed()
    assert bench.pollers.told[3:] == ["suspend"]
