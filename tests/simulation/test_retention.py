"""Whole partitions are deleted when their time has come, and never while anything in them is open."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest

from cql.memory.connection import InMemoryConnection
from membership.conditional import Applied
from poller_cluster.clients import ServedClient
from poller_cluster.retention import Retention
from scheduler_service.domain.archives import ArchivedDay, day_of
from scheduler_service.domain.clients import ClientSettings, ClientState, RetrySettings
from scheduler_service.domain.ids import ClientId, PollerId, UnixMillis, minute_of, partition_of
from scheduler_service.domain.schedules import ExternalUpdate, Outcome, RowWrite, State
from scheduler_service.usecases.cancel_schedules import Cancelled
from tests.simulation.creates import CreateRecord
from tests.simulation.world import World, simulate
from tests.support.node_parts import GivenPollers, node_runtime

DAY_SECONDS = 86_400.0
Strand = Callable[[World], Awaitable[CreateRecord]]


def retention_of(world: World, *, archiving: bool = False) -> Retention:
    node = world.nodes["a"]
    return Retention(
        schedules=world.truth.schedules,
        clients=node.node.clients,
        pollers=node.node.pollers,
        runtime=node_runtime(world.api_clock, randomness=world.api_randomness),
        archives=world.api_storage.archives if archiving else None,
    )


def client_of(world: World) -> ServedClient:
    client = world.clients["shop"]
    return ServedClient(client, client.settings, ())


def later(world: World, *, days: float) -> None:
    world.api_clock.step(days * DAY_SECONDS * 1000)
    world.api_clock.discipline().accept()


async def one_schedule(world: World, retry: RetrySettings | None = None) -> CreateRecord:
    """Due in ten seconds, of a client that keeps its schedules for a day, with one node."""
    settings = ClientSettings(retention_days=1) if retry is None else ClientSettings(retention_days=1, retry=retry)
    await world.add_client("shop", settings=settings)
    world.add_node("a")
    await world.advance(5)
    return await world.create("shop", world.now_ms() + 10_000)


def deleted_by_retention(world: World, asked: CreateRecord) -> None:
    """Forget a schedule that retention deletes, so that the scenario's end does not look for it."""
    asked.end = None
    del world.asked[str(asked.schedule_id)]


def watch_reads(patched: pytest.MonkeyPatch) -> list[str]:
    """Collect the names of the reads from here on."""
    asked: list[str] = []
    select = InMemoryConnection.select

    async def watched(self: InMemoryConnection, name: str, *args: Any, **arguments: Any) -> Any:
        asked.append(name)
        return await select(self, name, *args, **arguments)

    patched.setattr(InMemoryConnection, "select", watched)
    return asked


def test_settled_partitions_go_after_the_clients_retention() -> None:
    async def scenario(world: World) -> None:
        old = await one_schedule(world)
        await world.advance(200)
        retention = retention_of(world)
        assert await retention.sweep(client_of(world)) == 0
        assert await world.row_of(old) is not None
        deleted_by_retention(world, old)
        later(world, days=2)
        assert await retention.sweep(client_of(world)) == 1
        assert await world.row_of(old) is None
        occupied = await world.truth.schedules.occupied(
            ClientId("shop"), first=minute_of(old.due), last=minute_of(old.due)
        )
        assert not occupied
        assert await retention.sweep(client_of(world)) == 0

    simulate(scenario)


@pytest.mark.parametrize("before", [(1,), (0, 1)], ids=["taken-over", "back-again"])
def test_a_poller_that_is_taken_over_is_searched_from_its_beginning(before: Sequence[int]) -> None:
    """Its last owner may have left partitions in the range that this node's sweeps have passed."""

    async def scenario(world: World) -> None:
        old = await one_schedule(world)
        await world.advance(200)
        retention, client = retention_of(world), client_of(world)
        here = retention._pollers.positions(client.client_id)[PollerId(0)]
        pollers = retention._pollers = GivenPollers(dict.fromkeys(map(PollerId, before), here))
        assert await retention.sweep(client) == 0
        deleted_by_retention(world, old)
        later(world, days=2)
        pollers.held = {PollerId(1): here}
        assert await retention.sweep(client) == 0
        pollers.held = {PollerId(0): here, PollerId(1): here}
        assert await retention.sweep(client) == 1
        assert await world.row_of(old) is None

    simulate(scenario)


def test_no_hour_is_searched_twice_while_the_pollers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        old = await one_schedule(world)
        await world.advance(200)
        deleted_by_retention(world, old)
        later(world, days=3)
        retention, client = retention_of(world), client_of(world)
        with monkeypatch.context() as patched:
            asked, counts = watch_reads(patched), []
            for _ in range(2):
                await retention.sweep(client)
                counts.append(asked.count("occupied_minutes.read"))
                asked.clear()
        assert counts[0] > 40
        assert counts[1] <= 1

    simulate(scenario)


def test_a_partition_with_an_open_row_stays() -> None:
    async def scenario(world: World) -> None:
        world.receiver.script = lambda call: 500
        asked = await one_schedule(world, RetrySettings(base_seconds=3_600, cap_seconds=3_600))
        await world.advance(200)
        row = await world.row_of(asked)
        assert row is not None
        assert row.state == State.RETRYING
        later(world, days=2)
        client = msgspec.structs.replace(client_of(world).record, revision=2)
        assert await retention_of(world).sweep(ServedClient(client, client.settings, ())) == 0
        assert await world.row_of(asked) is not None

    simulate(scenario)


def test_no_content_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition may hold a thousand bodies."""
    asked: list[str] = []

    async def scenario(world: World) -> None:
        nonlocal asked
        old = await one_schedule(world)
        await world.advance(200)
        deleted_by_retention(world, old)
        later(world, days=2)
        with monkeypatch.context() as patched:
            asked = watch_reads(patched)
            assert await retention_of(world).sweep(client_of(world)) == 1

    simulate(scenario)
    assert {name for name in asked if name.startswith("schedules.")} == {
        "schedules.read_first_lean_page",
        "schedules.read_header",
    }


RUN = UUID(int=1)


async def archive(world: World, asked: CreateRecord, **other: Any) -> None:
    """Mark the day as archived now."""
    store = world.truth.archives
    shop = ClientId("shop")
    await store.take(shop, RUN, expected=await store.read_run(shop))
    given = {"as_of": UnixMillis(world.api_clock.wall_ms()), "rows": 1, "digest": "1", "place": "file:/there"}
    await store.mark(ArchivedDay(client_id=shop, day=day_of(asked.due), **{**given, **other}), run=RUN)


async def is_stale(world: World, asked: CreateRecord) -> bool:
    day = day_of(asked.due)
    (one,) = await world.truth.archives.read(ClientId("shop"), first=day, last=day)
    return one.stale


def test_retention_waits_for_the_archive() -> None:
    async def scenario(world: World) -> None:
        old = await one_schedule(world)
        await world.advance(200)
        deleted_by_retention(world, old)
        later(world, days=3)
        retention = retention_of(world, archiving=True)
        assert await retention.sweep(client_of(world)) == 0
        assert await world.row_of(old) is not None
        await archive(world, old)
        assert await retention.sweep(client_of(world)) == 1
        assert await world.row_of(old) is None
        assert not await is_stale(world, old)

    simulate(scenario)


def test_what_ended_after_its_day_was_archived_stays_until_it_is_archived_again() -> None:
    async def scenario(world: World) -> None:
        old = await one_schedule(world)
        await world.advance(20)
        row = await world.row_of(old)
        assert row is not None
        assert row.finished_at is not None
        await archive(world, old, as_of=row.finished_at)
        await world.advance(200)
        deleted_by_retention(world, old)
        later(world, days=3)
        retention = retention_of(world, archiving=True)
        assert await retention.sweep(client_of(world)) == 0
        assert await is_stale(world, old)
        assert await world.row_of(old) is not None
        await archive(world, old, as_of=UnixMillis(row.finished_at + 1))
        assert await retention.sweep(client_of(world)) == 1
        assert await world.row_of(old) is None

    simulate(scenario)


def test_the_archive_is_read_once_a_sweep() -> None:
    async def scenario(world: World) -> None:
        asked = [await one_schedule(world)]
        asked += [await world.create("shop", asked[0].due + minute * 60_000) for minute in range(1, 5)]
        await world.advance(600)
        world.asked.clear()
        later(world, days=3)
        retention = retention_of(world, archiving=True)
        reads = []
        read = world.api_storage.archives.read

        class Counted:
            async def read(self, client_id: ClientId, **span: Any) -> Any:
                reads.append(span)
                return await read(client_id, **span)

        retention._archives = Counted()  # type: ignore[assignment]
        await archive(world, asked[0])
        assert await retention.sweep(client_of(world)) == 5
        assert len(reads) == 1

    simulate(scenario)


def test_a_retry_row_that_was_left_behind_keeps_nothing() -> None:
    async def scenario(world: World) -> None:
        world.receiver.script = lambda call: 500
        old = await one_schedule(world, RetrySettings(base_seconds=100, cap_seconds=100, max_attempts=4))
        await world.advance(900)
        row = await world.row_of(old)
        assert row is not None
        assert row.state == State.FAILED
        deleted_by_retention(world, old)
        later(world, days=3)
        assert await retention_of(world).sweep(client_of(world)) == 4
        assert not world.memory.rows("schedules")

    simulate(scenario)


async def stranded_create(world: World) -> CreateRecord:
    """A create that was never answered and took effect after its minute was settled."""
    await one_schedule(world)
    asked, definition = world.define("shop", world.now_ms() + 10_000)
    await world.advance(900)
    await world.truth.schedules.insert(definition)
    return asked


async def stranded_redelivery(world: World) -> CreateRecord:
    """A redelivery whose caller died after its pointer was written."""
    asked = await one_schedule(world)
    await world.advance(900)
    row = await world.row_of(asked)
    assert row is not None
    asked.end = None
    at = UnixMillis(world.now_ms())
    outcome = Outcome(state=State.RETRYING, attempts=1, next_attempt_at=at, redelivered_at=at, redelivered_after=1)
    write = RowWrite(key=row.key, outcome=outcome, expect_state=State.DELIVERED, expect_finished_at=row.finished_at)
    update = ExternalUpdate(
        partition=partition_of(asked.client_id, asked.schedule_id),
        edits=UUID(int=7),
        version=None,
        version_known=False,
        writes=(write,),
    )
    assert isinstance(await world.truth.schedules.update(update), Applied)
    return asked


def test_a_redelivery_that_was_cancelled_before_its_retry_row_was_placed_keeps_nothing() -> None:
    """Only its cancel writes into the retry row's minute, which holds no other row."""

    async def scenario(world: World) -> None:
        asked = await stranded_redelivery(world)
        assert isinstance(await world.cancel_schedules.one(asked.client_id, asked.schedule_id), Cancelled)
        await world.advance(200)
        deleted_by_retention(world, asked)
        later(world, days=3)
        assert await retention_of(world).sweep(client_of(world)) == 2
        assert not world.memory.rows("schedules")

    simulate(scenario)


STRANDED = pytest.mark.parametrize("strand", [stranded_create, stranded_redelivery], ids=["create", "redelivery"])


@STRANDED
@pytest.mark.parametrize("archiving", [False, True], ids=["at-once", "archived"])
def test_stranded_rows_keep_no_partition_past_retention(strand: Strand, archiving: bool) -> None:
    async def scenario(world: World) -> None:
        asked = await strand(world)
        client, retention = client_of(world), retention_of(world, archiving=archiving)
        assert await retention.sweep(client) == 0
        row = await world.row_of(asked)
        assert row is not None
        assert not row.ended
        calls = len(asked.calls)
        await world.advance(200)
        later(world, days=3)
        await retention.sweep(client)
        row = await world.row_of(asked)
        assert row is not None
        assert (row.state, row.reason) == (State.CANCELLED, "expired")
        if archiving:
            assert await retention.sweep(client) == 0
            await archive(world, asked)
        assert await retention.sweep(client) >= 1
        assert await world.row_of(asked) is None
        assert len(asked.calls) == calls
        world.asked.clear()

    simulate(scenario)


@STRANDED
def test_a_read_of_a_stranded_row_gets_it_called(strand: Strand) -> None:
    async def scenario(world: World) -> None:
        asked = await strand(world)
        await world.advance(600)
        calls = len(asked.calls)
        assert await world.resolve_schedule(asked.client_id, asked.schedule_id) is not None
        asked.acknowledged = True
        await world.advance(10)
        await world.settle_down()
        assert len(asked.calls) == calls + 1

    simulate(scenario)


def test_what_waits_for_its_poller_is_left_alone() -> None:
    """A suspended client's schedules are late, and somebody reads one."""

    async def scenario(world: World) -> None:
        asked = await one_schedule(world)
        await world.change_client("shop", state=ClientState.SUSPENDED)
        await world.advance(3_600)
        resolved = await world.resolve_schedule(asked.client_id, asked.schedule_id)
        assert resolved is not None
        assert resolved.row.state is None
        await world.change_client("shop", state=ClientState.ACTIVE)
        await world.settle_down()
        assert len(asked.calls) == 1

    simulate(scenario)
