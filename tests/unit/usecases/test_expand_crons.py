"""Expansion by any process, however often, interrupted anywhere; a cron that cannot be expanded affects no other."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from membership.conditional import Applied
from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.crons.expansion import MAX_CHILDREN
from scheduler_service.domain.crons.row import Cron, CronState
from scheduler_service.domain.errors import ContentTooLarge
from scheduler_service.domain.ids import MINUTE_MS, ClientId, CronId, UnixMillis
from scheduler_service.domain.schedules import Definition, State
from scheduler_service.usecases.expand_crons import CHANGED, EXPANDED_AT_ONCE, LEAST_AT_ONCE, MISSED
from scheduler_service.usecases.reading_steps import FIRST_STEP_ROWS, MAX_BYTES
from tests.support.api import NOW
from tests.unit.usecases.cron_world import CALLBACK, DAY_MS, SHOP, TICK, CronWorld, draft

TOCK = CronId("tock")


@pytest.fixture
async def world() -> AsyncIterator[CronWorld]:
    made = CronWorld()
    yield made
    await made.close()


async def assert_every_fire_has_one_row(world: CronWorld, cron_id: str = TICK, *, since: int = NOW) -> None:
    cron = await world.cron(cron_id)
    rows = await world.rows(cron_id)
    minutes = range(since + MINUTE_MS, cron.expanded_through + 1, MINUTE_MS)
    assert sorted(rows) == list(minutes)
    stored = [row for row in world.connection.rows("schedules") if row["cron_id"] == cron_id and row["kind"] == "call"]
    assert len(stored) == len(rows)


async def test_an_expansion_places_children_runs_and_the_next_wake_up(world: CronWorld) -> None:
    client = await world.begin()
    await world.change.put(client, TICK, draft())
    await world.expand(SHOP, [TICK, TICK])
    cron = await world.cron()
    assert (cron.expanded_through, cron.fires, cron.swept) == (NOW + 10 * MINUTE_MS, 10, 1)
    assert world.wake_ups() == [NOW, cron.wake_at]
    assert (world.expand.crons_expanded, world.expand.children_placed) == (1, 10)
    await assert_every_fire_has_one_row(world)
    assert [(fire.due, began, ended) for fire, began, ended in world.placed] == [
        (NOW + number * MINUTE_MS, NOW, NOW) for number in range(1, 11)
    ]
    await world.expand(SHOP, [TICK])
    assert world.expand.crons_expanded == 1, "it is not due"
    assert len(world.placed) == 10


async def test_others_have_their_turn_before_a_rule_whose_search_may_take_long(
    world: CronWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await world.begin()
    turns: list[float] = []

    async def sleep(seconds: float) -> None:
        turns.append(seconds)

    monkeypatch.setattr(world.clock, "sleep", sleep)
    compound = '{"any":["* * * * *"],"excluding":["30 * * * *"]}'
    for cron_id, text in ((TICK, "* * * * *"), (TOCK, compound), (CronId("tuck"), compound)):
        await world.change.put(client, cron_id, draft(text))
    await world.expand(SHOP, [TICK, TOCK, CronId("tuck")])
    assert world.expand.crons_expanded == 3
    assert turns == [0, 0]


REQUESTS = ("clients", "crons.read", "cron_runs.read", "cron_runs.insert", "schedules.insert", "crons.advance")


@pytest.mark.parametrize("fault", ["refuse", "lose"])
@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("request_name", REQUESTS)
async def test_at_every_step_the_store_may_fail(world: CronWorld, request_name: str, turn: int, fault: str) -> None:
    client = await world.begin()
    for cron_id in (TICK, TOCK):
        await world.change.put(client, cron_id, draft())
    world.connection.faults[request_name] = [""] * turn + [fault]
    for _ in range(2):
        try:
            await world.expand(SHOP, [TICK, TOCK])
            break
        except StoreUnavailable:
            world.clock.advance(65)
    world.connection.faults.clear()
    for cron_id in (TICK, TOCK):
        await assert_every_fire_has_one_row(world, cron_id)
        cron = await world.cron(cron_id)
        assert cron.expanded_through >= NOW + 10 * MINUTE_MS
        assert cron.wake_at in world.wake_ups(cron_id)
    assert world.faults == []


async def test_an_edit_withdraws_unclaimed_fires(world: CronWorld) -> None:
    client = await world.begin()
    await world.change.put(client, TICK, draft())
    await world.expand(SHOP, [TICK])
    owners = (await world.rows())[NOW + 3 * MINUTE_MS]
    await world.cancel.one(SHOP, owners.schedule_id)
    world.clock.advance(30)
    await world.change.put(client, TICK, draft("*/2 * * * *"))
    old = await world.runs()
    await world.expand(SHOP, [TICK])
    rows = [await world.row(run) for run in old]
    reasons = {row.nominal_due: row.reason for row in rows if row is not None and row.state == State.CANCELLED}
    assert reasons == {NOW + n * MINUTE_MS: None if n == 3 else CHANGED for n in range(1, 11)}
    open_ones = [nominal for nominal, row in (await world.rows()).items() if row.state is None]
    assert open_ones == [NOW + n * MINUTE_MS for n in (2, 4, 6, 8, 10)]
    assert (await world.cron()).fires == 6, "the one that its owner cancelled counts"


@pytest.mark.parametrize("meddler", ["expands", "pauses", "edits"])
async def test_a_rejected_batch_leaves_the_others_their_progress(world: CronWorld, meddler: str) -> None:
    client = await world.begin()
    for cron_id in (TICK, TOCK):
        await world.change.put(client, cron_id, draft())

    async def meddle() -> None:
        match meddler:
            case "expands":
                await world.others_expand(SHOP, [TICK])
            case "pauses":
                await world.others_change.pause(SHOP, TICK)
            case _:
                await world.others_change.put(client, TICK, draft(label="edited"))

    world.connection.before["crons.advance"] = meddle
    await world.expand(SHOP, [TICK, TOCK])
    assert (await world.cron(TOCK)).fires == 10
    tick = await world.cron()
    if meddler == "expands":
        assert tick.fires == 10
        await assert_every_fire_has_one_row(world)
    else:
        assert (tick.revision, tick.swept, tick.wake_at) == (2, 0, NOW)
        await world.expand(SHOP, [TICK])
        assert (await world.cron()).fires == (0 if meddler == "pauses" else 10)


async def test_a_cron_that_makes_no_sense_delays_no_other(world: CronWorld) -> None:
    client = await world.begin()
    for cron_id in (TICK, TOCK):
        await world.change.put(client, cron_id, draft())
    cron = await world.cron()
    strange = msgspec.structs.replace(cron, expression="every other day", revision=2)
    assert isinstance(await world.storage.crons.write(strange, expected_revision=1), Applied)
    await world.expand(SHOP, [TICK, TOCK])
    assert (await world.cron(TOCK)).fires == 10
    assert (await world.cron()).expanded_through == NOW
    assert world.faults == ["cron shop/tick"]


async def test_a_cron_whose_children_can_t_be_stored_delays_no_other(
    world: CronWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await world.begin()
    for cron_id in (TICK, TOCK):
        await world.change.put(client, cron_id, draft())
    many = world.writer.many

    async def too_large(definitions: list[Definition]) -> list[Any]:
        errors = await many(definitions)
        return [
            ContentTooLarge("no") if row.cron_id == TICK else error
            for row, error in zip(definitions, errors, strict=True)
        ]

    monkeypatch.setattr(world.writer, "many", too_large)
    await world.expand(SHOP, [TICK, TOCK])
    assert (await world.cron(TOCK)).fires == 10
    assert (await world.cron()).expanded_through == NOW
    assert world.faults == ["cron shop/tick"]


@pytest.mark.parametrize("held", [{"state": ClientState.SUSPENDED}, {"paused": True}], ids=["suspended", "paused"])
async def test_nothing_is_done_for_a_held_client_but_for_one_that_only_memory_says_is(
    world: CronWorld, held: dict[str, Any]
) -> None:
    client = await world.begin()
    await world.change.put(client, TICK, draft())
    world.remembered[SHOP] = msgspec.structs.replace(client, **held)
    await world.expand(SHOP, [TICK])
    assert (await world.cron()).fires == 10
    del world.remembered[SHOP]
    world.clock.advance(900)
    await world.changed(client, **held)
    await world.expand(SHOP, [TICK])
    assert (await world.cron()).fires == 10
    await world.expand(SHOP, [CronId("unheard-of")])


async def test_without_the_built_in_client_it_is_asked_again(world: CronWorld) -> None:
    await world.add_client(SHOP, quota=1)
    with pytest.raises(StoreUnavailable):
        await world.expand(SHOP, [TICK])


async def test_a_long_absence_is_made_up_for_in_turns(world: CronWorld) -> None:
    """The catch-up runs, the rest is recorded as missed, and fires older than the client's retention are not made."""
    client = await world.begin()
    await world.change.put(client, TICK, draft(catch_up_seconds=1800))
    world.clock.advance(DAY_MS / 1000)
    turns = 0
    while (wake_at := (await world.cron()).wake_at) is not None and wake_at <= world.clock.now:
        await world.expand(SHOP, [TICK])
        turns += 1
    assert turns == 1440 // MAX_CHILDREN + 1
    await assert_every_fire_has_one_row(world)
    states = [(row.state, row.reason) for _, row in sorted((await world.rows()).items())]
    missed = 1440 - 31
    assert states[:missed] == [(State.SKIPPED, MISSED)] * missed
    assert {state for state, _ in states[missed:]} <= {None, State.RETRYING}, "retrying: placed where it is looked at"


async def put_many(world: CronWorld, count: int, *, length: int = 0) -> list[CronId]:
    """Crons of two fires each within the window, whose callbacks have bodies of that length."""
    client = await world.begin()
    ids = [CronId(f"c{number}") for number in range(count)]
    long = msgspec.structs.replace(CALLBACK, body=bytes(length))
    for cron_id in ids:
        await world.change.put(client, cron_id, draft("*/5 * * * *")._replace(callback=long))
    world.connection.asked.clear()
    return ids


def watch_reads(
    world: CronWorld, monkeypatch: pytest.MonkeyPatch, *, most: int = EXPANDED_AT_ONCE
) -> list[tuple[int, int]]:
    """For each serial read of crons: how many were read, and the size of their callbacks. Reads of more than `most`
    time out.
    """
    reads: list[tuple[int, int]] = []
    read = world.storage.crons.read

    async def watched(
        client_id: ClientId, cron_ids: Sequence[CronId], *, serial: bool = False
    ) -> Mapping[CronId, Cron]:
        found = await read(client_id, cron_ids, serial=serial)
        reads.append((len(cron_ids), sum(cron.callback.size for cron in found.values())))
        if len(cron_ids) > most:
            raise StoreUnavailable("not in time")
        return found

    monkeypatch.setattr(world.storage.crons, "read", watched)
    return reads


async def test_crons_with_long_callbacks_are_read_and_placed_a_few_at_a_time(
    world: CronWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await put_many(world, 30, length=500_000)
    reads, placed = watch_reads(world, monkeypatch), []
    many = world.writer.many

    async def watched(definitions: Sequence[Definition]) -> Any:
        placed.append(sum(one.content.size for one in definitions))
        return await many(definitions)

    monkeypatch.setattr(world.writer, "many", watched)
    await world.expand(SHOP, ids)
    assert reads[0][0] == FIRST_STEP_ROWS
    assert max(size for _, size in reads[1:]) <= MAX_BYTES
    assert sum(count for count, _ in reads) == 30
    assert max(placed) <= MAX_BYTES + 100_000
    assert world.expand.crons_expanded == 30


async def test_many_short_crons_share_requests(world: CronWorld) -> None:
    ids = await put_many(world, EXPANDED_AT_ONCE)
    await world.expand(SHOP, ids)
    assert world.expand.crons_expanded == EXPANDED_AT_ONCE
    assert world.connection.asked.count("crons.read") <= 3
    assert world.connection.asked.count("crons.advance") == 1


async def test_crons_that_are_not_read_in_time_are_read_in_smaller_groups(
    world: CronWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await put_many(world, 20)
    with monkeypatch.context() as patched:
        reads = watch_reads(world, patched, most=LEAST_AT_ONCE)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await world.expand(SHOP, ids)
        await world.expand(SHOP, ids)
    assert [count for count, _ in reads] == [16, 8, *[LEAST_AT_ONCE] * 5]
    assert world.expand.crons_expanded == 20
    reads = watch_reads(world, monkeypatch)
    await world.expand(SHOP, ids)
    assert [count for count, _ in reads] == [16, 4]


async def test_an_edit_after_an_absence_of_years_is_expanded(world: CronWorld) -> None:
    client = await world.begin()
    await world.change.put(client, TICK, draft("0 0 1 * *"))
    await world.expand(SHOP, [TICK])
    old = msgspec.structs.replace(
        await world.cron(), revision=2, expanded_through=UnixMillis(NOW - 800 * DAY_MS), wake_at=UnixMillis(NOW)
    )
    assert isinstance(await world.storage.crons.write(old, expected_revision=1), Applied)
    await world.expand(SHOP, [TICK])
    assert world.faults == []
    cron = await world.cron()
    assert (cron.swept, cron.state) == (2, CronState.ACTIVE)
    assert cron.expanded_through > NOW - 40 * DAY_MS
