"""The protocol's own reads and writes keep their consistency, whatever consistency a client asks for."""

from cql.connection import Consistency
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.schedules import State
from tests.simulation.crons import SHOP, with_crons
from tests.simulation.faults import INSERTS
from tests.simulation.receivers import Call
from tests.simulation.redeliveries import Redeliveries
from tests.simulation.world import World, simulate

ASKED = ClientSettings(
    retry=RetrySettings(base_seconds=3.0, max_attempts=3),
    read_consistency="LOCAL_ONE",
    write_consistency="EACH_QUORUM",
)
DEFINITIONS: set[tuple[str, Consistency]] = {(name, "EACH_QUORUM") for name in INSERTS}
INDEX: tuple[str, Consistency] = ("occupied_minutes.insert", "EACH_QUORUM")


def test_retries_takeovers_late_creates_redeliveries_and_crons_never_use_a_clients_consistency() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world)
        await world.change_client("shop", settings=ASKED)
        await world.advance(5.0)
        failing: set[str] = set()

        def script(call: Call) -> int:
            if call.url == "http://receiver.test/" and call.schedule_id not in failing:
                failing.add(call.schedule_id)
                return 503
            return 200

        world.receiver.script = script
        await crons.put("tick", "* * * * *")
        asked = [await world.create("shop", world.now_ms() + 4_000 * number) for number in range(1, 20)]
        await world.advance(20.0)
        await world.kill("a")
        late = [await world.create("shop", world.now_ms() - 75_000) for _ in range(2)]
        await world.cancel(asked[-1])
        world.add_node("c")
        await world.advance(300.0)
        redelivery = await Redeliveries(world).answered(asked[0])
        assert redelivery is not None
        await world.settle_down()
        await crons.check()
        states = {row.state for one in asked if (row := await world.row_of(one)) is not None}
        assert states == {State.DELIVERED, State.CANCELLED}
        assert failing >= {str(one.schedule_id) for one in asked[:-1]}, "every call was retried"
        assert len([row for row in world.memory.rows("schedules") if row["client_id"] == SHOP]) > 2 * len(asked)
        unusual = world.memory.unusual
        assert sum(map(unusual.count, DEFINITIONS)) == len(asked) + len(late), "each create, and nothing else"
        assert set(unusual) == {*DEFINITIONS, INDEX}

    simulate(scenario)
