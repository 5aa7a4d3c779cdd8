"""The backlog beside the truth: during an outage of all nodes, and while nodes work through it."""

from collections.abc import Sequence

import pytest

from membership.settings import MembershipSettings
from scheduler_service.domain.backlogs import ClientBacklog, HeldBy
from scheduler_service.domain.clients import ClientSettings, LatePolicy
from scheduler_service.domain.ids import ClientId, minute_of
from scheduler_service.usecases import open_minutes
from scheduler_service.usecases.backlog import ShowBacklog
from scheduler_service.usecases.members import WatchMembers
from scheduler_service.usecases.minute_loads import KeepMinuteLoads
from scheduler_service.usecases.open_minutes import FindOpenMinutes
from tests.simulation.cluster import SHOP
from tests.simulation.world import World, simulate

OUTAGE_MINUTES = 60
CALLS = 240


class Watched:
    """The backlog of `shop`, as an API that looks at the members every second shows it."""

    def __init__(self, world: World) -> None:
        self.world, storage = world, world.truth
        self.members = WatchMembers(
            store=storage.members,
            clock=world.api_clock,
            settings=MembershipSettings(),
            on_crash=lambda name, error: None,
        )
        self.show = ShowBacklog(
            members=self.members,
            clients=storage.clients,
            open_minutes=FindOpenMinutes(members=self.members, leases=storage.leases, schedules=storage.schedules),
            balances=storage.balances,
            loads=storage.minute_loads,
            destinations=storage.destinations,
            held_back=self.held_back,
            clock=world.api_clock,
        )

    async def held_back(self, client_ids: Sequence[ClientId]) -> set[ClientId]:
        return {one for node in self.world.nodes.values() for one in node.node.destinations.held_back()}

    async def advance(self, seconds: int) -> None:
        for _ in range(seconds):
            await self.world.advance(1.0)
            await self.members.look()

    async def look(self) -> tuple[ClientBacklog, int]:
        """What it says, and how many rows are overdue."""
        found = await self.show.of_client(self.world.clients[SHOP])
        now = self.world.api_clock.wall_ms()
        rows = self.world.memory.columns("schedules", "client_id", "due", "created_at", "state")
        return found, sum(
            client_id == SHOP and due <= now and created_at is not None and state is None
            for client_id, due, created_at, state in rows
        )


async def outage(world: World, settings: ClientSettings | None = None) -> Watched:
    """A call every fifteen seconds of an hour, and of ten minutes after it, by nobody."""
    await world.add_client(SHOP, quota=2, settings=settings)
    start = world.now_ms() + 5_000
    for number in range(CALLS + 40):
        await world.create(SHOP, start + 15_000 * number)
    watched = Watched(world)
    await world.advance(OUTAGE_MINUTES * 60)
    await watched.advance(5)
    return watched


def test_it_is_exact_where_all_of_it_is_counted() -> None:
    async def scenario(world: World) -> None:
        watched = await outage(world)
        found, overdue = await watched.look()
        assert (found.overdue.rows, found.overdue.exact) == (overdue, True)
        assert abs(overdue - CALLS) <= 2
        assert found.held_by == (HeldBy.NO_OWNER,)
        assert found.overdue.oldest == minute_of(min(one.due for one in world.asked.values()))
        everybody = await watched.show.of_all(after=None, limit=10)
        assert (everybody.overdue.rows, everybody.drain_seconds) == (overdue, None)
        for name in "ab":
            world.add_node(name)
        seen = []
        for _ in range(90):
            await watched.advance(1)
            found, overdue = await watched.look()
            assert (found.overdue.rows, found.overdue.exact) == (overdue, True)
            seen.append(overdue)
        assert seen[0] > CALLS / 2
        assert seen[-1] <= 1
        assert found.behind == 0
        await world.settle_down(within=900)

    simulate(scenario)


def test_an_estimate_lacks_nothing_and_ends_with_the_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        watched = await outage(world)
        monkeypatch.setattr(open_minutes, "MAX_COUNTED", 8)
        await KeepMinuteLoads(store=world.api_storage.minute_loads, clock=world.api_clock, reads=True).write()
        found, overdue = await watched.look()
        assert not found.overdue.exact
        assert abs(found.overdue.rows - overdue) <= overdue // 10
        for name in "ab":
            world.add_node(name)
        for _ in range(120):
            await watched.advance(1)
            found, overdue = await watched.look()
            assert found.overdue.rows >= 0.9 * overdue, "it is rather too high: what was called is not known at once"
        assert (found.overdue.rows, found.behind) == (overdue, 0)
        await world.settle_down(within=900)

    simulate(scenario)


def test_what_the_late_policy_will_skip_is_what_it_skips() -> None:
    async def scenario(world: World) -> None:
        policy = LatePolicy(kind="skip", after_seconds=600)
        watched = await outage(world, ClientSettings(late_policy=policy))
        found, _ = await watched.look()
        for name in "ab":
            world.add_node(name)
        await world.settle_down(within=900)
        rows = [await world.row_of(one) for one in world.asked.values()]
        skipped = sum(row is not None and row.state == "skipped" for row in rows)
        assert skipped > CALLS / 2
        assert abs(found.to_skip - skipped) <= 8, "ages are by whole minutes of four calls, and nodes need some seconds"

    simulate(scenario)
