"""Whole partitions go when their time has come, and nothing that is open ever does."""

import msgspec

from poller_cluster.retention import Retention
from poller_cluster.tenants import Tenant
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.ids import ClientId, Minute, PollerId, minute_of
from scheduler_service.domain.schedules import State
from tests.simulation.world import World, simulate

DAY_SECONDS = 86_400.0


def retention_of(world: World) -> Retention:
    node = world.nodes["a"]
    return Retention(
        schedules=world.truth.schedules,
        clock=world.api_clock,
        tenants=list,
        positions=lambda client_id: {PollerId(0): Minute(node.node._clients[ClientId("shop")].position(PollerId(0)))},
        trusted=lambda: True,
    )


def tenant_of(world: World) -> Tenant:
    client = world.clients["shop"]
    return Tenant(client, client.settings, ())


def test_settled_partitions_go_after_the_clients_retention() -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop", settings=ClientSettings(retention_days=1))
        world.add_node("a")
        await world.advance(5)
        old = await world.create("shop", world.now_ms() + 10_000)
        await world.advance(200)
        retention = retention_of(world)
        assert await retention.sweep(tenant_of(world)) == 0
        assert await world.row_of(old) is not None
        old.end = None
        del world.asked[str(old.schedule_id)]
        world.api_clock.step(2 * DAY_SECONDS * 1000)
        world.api_clock.discipline().accept()
        assert await retention.sweep(tenant_of(world)) == 1
        assert await world.row_of(old) is None
        occupied = await world.truth.schedules.occupied(
            ClientId("shop"), first=minute_of(old.due), last=minute_of(old.due)
        )
        assert not occupied
        assert await retention.sweep(tenant_of(world)) == 0

    simulate(scenario)


def test_a_partition_with_an_open_row_stays() -> None:
    async def scenario(world: World) -> None:
        retry = RetrySettings(base_seconds=3_600, cap_seconds=3_600)
        await world.add_client("shop", settings=ClientSettings(retention_days=1, retry=retry))
        world.add_node("a")
        world.receiver.script = lambda call: 500
        await world.advance(5)
        asked = await world.create("shop", world.now_ms() + 10_000)
        await world.advance(200)
        row = await world.row_of(asked)
        assert row is not None
        assert row.state == State.RETRYING
        world.api_clock.step(2 * DAY_SECONDS * 1000)
        world.api_clock.discipline().accept()
        tenant = msgspec.structs.replace(tenant_of(world).client, revision=2)
        assert await retention_of(world).sweep(Tenant(tenant, tenant.settings, ())) == 0
        assert await world.row_of(asked) is not None

    simulate(scenario)
