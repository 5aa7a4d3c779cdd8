"""The pollers of one client: minutes entered, hinted at, swept and passed."""

import msgspec

from poller_cluster.clients import ServedClient
from scheduler_service.domain.schedules import State
from tests.support.minutes import MINUTE, POLLER, definition
from tests.support.pollers import PollerBench, on_pollers
from tests.unit.poller_cluster import claimed

SWEEP_SECONDS = 70.0


def test_a_row_is_claimed_in_time_and_its_minute_is_passed_after_the_grace() -> None:
    async def scenario(bench: PollerBench) -> None:
        call = definition(30.0)
        await bench.create(call)
        await bench.begin()
        await bench.advance(28.9)
        assert bench.jobs.seen == []
        await bench.advance(0.2)
        assert bench.jobs.keys() == [call.key]
        await bench.advance(0.9)
        bench.jobs.serve()
        await bench.advance(SWEEP_SECONDS - 30.1)
        assert bench.position() == 0
        await bench.advance(0.2)
        assert bench.position() == 1
        assert (await bench.row(call)).state == State.DELIVERED

    on_pollers(scenario)


def test_idle_pollers_cost_reads_of_the_index_only() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.begin()
        await bench.advance(600)
        assert bench.position() == 9
        assert set(bench.schedules.asked) == {"occupied"}
        assert len(bench.schedules.asked) <= 25

    on_pollers(scenario, pollers=20)


def test_a_row_without_hint_is_found_by_the_sweep() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.begin()
        await bench.advance(10)
        call = definition(20.0)
        await bench.create(call)
        await bench.advance(SWEEP_SECONDS - 10.1)
        assert bench.jobs.seen == []
        await bench.advance(0.2)
        assert bench.jobs.keys() == [call.key]
        assert bench.position() == 0
        bench.jobs.serve()
        await bench.advance(1)
        assert bench.position() == 1

    on_pollers(scenario)


def test_a_hint_begins_a_minute_that_had_no_rows() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.begin()
        await bench.advance(10)
        call = definition(10.5)
        await bench.create(call, hinted=True)
        assert bench.jobs.keys() == [call.key]
        other = definition(10.6)
        await bench.create(other, hinted=True)
        assert bench.jobs.keys() == [call.key, other.key]

    on_pollers(scenario)


def test_rows_that_are_not_named_are_found_within_seconds_however_many_hints_come() -> None:
    """The cost of finding them is bounded."""

    async def scenario(bench: PollerBench) -> None:
        await bench.create(definition(50.0))
        await bench.begin()
        await bench.advance(10)
        reads = bench.schedules.asked.count("read_to_call")
        created = []
        for number in range(100):
            call = definition(10.0 + number / 10, tail=2 + number)
            await bench.create(call)
            created.append(call.key)
            bench.pollers.hint(POLLER, MINUTE, None)
            await bench.advance(0.1)
        await bench.advance(2.1)
        assert bench.jobs.keys() == created
        assert 5 <= bench.schedules.asked.count("read_to_call") - reads <= 7

    on_pollers(scenario)


def test_a_minute_without_rows_begins_where_some_are_not_named() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.begin()
        await bench.advance(10)
        call = definition(10.5)
        await bench.create(call)
        bench.pollers.hint(POLLER, MINUTE, None)
        await bench.advance(0.1)
        assert bench.jobs.keys() == [call.key]

    on_pollers(scenario)


def test_hints_of_passed_minutes_and_of_minutes_to_come_begin_nothing() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.begin()
        await bench.advance(SWEEP_SECONDS + 1)
        await bench.create(definition(20.0), definition(30.0, minute=MINUTE + 5), hinted=True)
        await bench.advance(100)
        assert bench.jobs.seen == []

    on_pollers(scenario)


def test_a_poller_that_wants_to_look_ahead_waits_for_its_clients_settings_without_haste() -> None:
    """A deleted client has no settings from its deletion until its pollers are told."""
    known = claimed.client()

    async def scenario(bench: PollerBench) -> None:
        asked = 0

        def deleted() -> ServedClient | None:
            nonlocal asked
            asked += poller.order.wanted
            return known if not poller.order.wanted or asked > 1_000 else None

        await bench.begin()
        poller = bench.pollers.pollers[POLLER]
        bench.client = deleted
        await bench.create(msgspec.structs.replace(definition(2.0), ordering_key="order-17"), hinted=True)
        await bench.advance(12)
        assert poller.order.wanted
        assert 10 <= asked <= 40
        bench.client = lambda: known
        await bench.advance(1)
        assert poller.looked_ahead

    on_pollers(scenario, pollers=1)


def test_nothing_is_passed_without_trust() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.begin()
        bench.is_trusted = False
        await bench.advance(300)
        assert bench.position() <= 0
        bench.is_trusted = True
        await bench.advance(1)
        assert bench.position() == 4

    on_pollers(scenario)


def test_nothing_is_passed_while_the_store_is_away() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.begin()
        await bench.create(definition(20.0))
        bench.schedules.hook = lambda method: "refuse"
        before = len(bench.schedules.asked)
        await bench.advance(300)
        assert bench.position() <= 0
        assert len(bench.schedules.asked) - before < 300 / 0.5 + 10
        bench.schedules.hook = lambda method: None
        await bench.advance(3)
        bench.jobs.serve()
        await bench.advance(1)
        assert bench.position() == 4

    on_pollers(scenario)
