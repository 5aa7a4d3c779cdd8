"""Events gather into notices, and none counts as placed before the row that sends it is acknowledged."""

import asyncio
from uuid import UUID

import pytest

from membership.errors import StoreUnavailable
from poller_cluster.clients import ServedClient
from poller_cluster.notices.calls import CLIENT_INACTIVE, DESTINATION_UNKNOWN
from poller_cluster.notices.collector import NoticeCollector
from scheduler_service.domain.events import Event, PlacedEvent, Position
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.notices import EVENTS_CLIENT, NOTICE_BYTES, NOTICE_EVENTS, NoticeContent, decode_notice
from scheduler_service.domain.schedules import Definition
from scheduler_service.domain.subscriptions import EventFilter, Subscription
from scheduler_service.domain.waits import CAUSES
from scheduler_service.runtime.lifecycle import Tasks
from tests.contract.test_clients import client
from tests.simulation.sim_clock import SimClock
from tests.support.node_parts import GivenClients, node_runtime
from tests.support.virtual_loop import run_virtual

SHOP = ClientId("shop")
ALL = {"all": Subscription(destination="book")}


def event(number: int, *, kind: str = "schedule.delivered", data: str = "{}") -> Event:
    return Event(event_id=UUID(int=number), type=kind, at=UnixMillis(1), data=data)


class Bench:
    def __init__(self, subscriptions: dict[str, Subscription] | None = None) -> None:
        self.clock = SimClock()
        self.tasks = Tasks(lambda name, error: None)
        self.rows: list[Definition] = []
        self.refusals = 0
        shop, events = client(SHOP), client(EVENTS_CLIENT, quota=4)
        served = [
            ServedClient(shop, shop.settings, (), subscriptions=ALL if subscriptions is None else subscriptions),
            ServedClient(events, events.settings, ()),
        ]
        self.collector = NoticeCollector(
            clients=GivenClients(lambda: served),
            writer=self,  # type: ignore[arg-type]
            runtime=node_runtime(self.clock, spawn=self.tasks.spawn),
        )

    async def __call__(self, definition: Definition) -> None:
        self.rows.append(definition)
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailable("planted")

    def place(self, seq: int, **told: str) -> asyncio.Task[None]:
        placing = self.collector.place(SHOP, PlacedEvent("0003", Position(7, 0, seq), event(seq, **told)))
        return asyncio.ensure_future(placing)

    @property
    def ranges(self) -> list[tuple[str, int, int]]:
        contents: list[NoticeContent] = [decode_notice(row.body) for row in self.rows]
        return [(one.subscription, one.first, one.last) for one in contents]


def test_events_of_a_second_share_a_row_and_wait_for_it() -> None:
    async def main() -> None:
        bench = Bench()
        placing = [bench.place(seq) for seq in range(3)]
        await bench.clock.sleep(0.9)
        assert not bench.rows
        assert not any(one.done() for one in placing)
        await bench.clock.sleep(0.2)
        assert bench.ranges == [("all", 0, 2)]
        await asyncio.gather(*placing)

    run_virtual(main)


def test_a_full_notice_does_not_wait() -> None:
    async def main() -> None:
        bench = Bench()
        placing = [bench.place(seq) for seq in range(NOTICE_EVENTS + 1)]
        await bench.clock.sleep(0.01)
        assert bench.ranges == [("all", 0, NOTICE_EVENTS - 1)]
        assert [one.done() for one in placing] == [True] * NOTICE_EVENTS + [False]
        await placing[-1]

    run_virtual(main)


def test_large_events_make_a_notice_full() -> None:
    async def main() -> None:
        bench = Bench()
        for seq in range(3):
            bench.place(seq, data="x" * (NOTICE_BYTES // 2))
        await bench.clock.sleep(1.2)
        assert bench.ranges == [("all", 0, 0), ("all", 1, 1), ("all", 2, 2)]

    run_virtual(main)


def test_the_same_row_is_repeated_until_it_is_acknowledged() -> None:
    async def main() -> None:
        bench = Bench()
        bench.refusals = 2
        placing = bench.place(5)
        await bench.clock.sleep(1.05)
        assert not placing.done()
        await placing
        assert len(bench.rows) == 3
        assert bench.rows[0] == bench.rows[1] == bench.rows[2]

    run_virtual(main)


@pytest.mark.parametrize(
    ("asked", "kind", "data", "wanted"),
    [
        (Subscription(destination="b", events=("schedule.failed",)), "schedule.delivered", "{}", False),
        (Subscription(destination="b", events=("schedule.failed",)), "schedule.failed", "{}", True),
        (Subscription(destination="b", filter=EventFilter(label="x")), "schedule.failed", '{"label":"x"}', True),
        (Subscription(destination="b", filter=EventFilter(label="x")), "schedule.failed", '{"label":"y"}', False),
        (Subscription(destination="b", filter=EventFilter(key_prefix="a")), "schedule.failed", '{"key":"ab"}', True),
        (Subscription(destination="b", filter=EventFilter(key_prefix="a")), "schedule.failed", "{}", False),
        (Subscription(destination="b", filter=EventFilter(destination="d")), "x", '{"destination":"d"}', True),
        (Subscription(destination="b", enabled=False), "schedule.failed", "{}", False),
    ],
)
def test_what_a_subscription_does_not_want_waits_for_nothing(
    asked: Subscription, kind: str, data: str, wanted: bool
) -> None:
    async def main() -> None:
        bench = Bench({"one": asked})
        placing = bench.place(1, kind=kind, data=data)
        await bench.clock.sleep(0.5)
        assert placing.done() == (not wanted)
        await bench.clock.sleep(1.0)
        assert len(bench.rows) == wanted

    run_virtual(main)


def test_notices_wait_for_causes_that_stories_know() -> None:
    assert {CLIENT_INACTIVE, DESTINATION_UNKNOWN} <= CAUSES.keys()
