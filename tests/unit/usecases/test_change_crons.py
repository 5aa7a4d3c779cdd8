"""Every change of a cron in every state, with concurrent changes, and with a store that does not answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

import msgspec
import pytest

from membership.conditional import Applied
from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import Client, ClientSettings
from scheduler_service.domain.crons import rule
from scheduler_service.domain.crons.expansion import offset_ms
from scheduler_service.domain.crons.row import CronState
from scheduler_service.domain.crons.zones import read_zone
from scheduler_service.domain.errors import Conflict, NotFound
from scheduler_service.domain.ids import MINUTE_MS, CronId, UnixMillis
from scheduler_service.usecases.crons import MAX_CRON_TURNS, Changed
from scheduler_service.usecases.expand_crons import CHANGED
from tests.support.api import NOW
from tests.support.zone_files import zone_file
from tests.unit.usecases.cron_world import SHOP, TICK, CronWorld, draft

STATES = (None, *CronState)


@pytest.fixture
async def world() -> AsyncIterator[CronWorld]:
    made = CronWorld()
    yield made
    await made.close()


async def in_state(world: CronWorld, state: CronState | None) -> Client:
    """A cron that has reached this state and was examined since, a minute ago."""
    client = await world.begin()
    if state is None:
        return client
    await world.change.put(client, TICK, draft(max_fires=1 if state is CronState.FINISHED else None))
    await world.expand(SHOP, [TICK])
    match state:
        case CronState.PAUSED:
            await world.change.pause(SHOP, TICK)
        case CronState.DELETED:
            await world.change.delete(SHOP, TICK)
        case _:
            world.clock.advance(60.1)
    await world.expand(SHOP, [TICK])
    assert (await world.cron()).state is state
    world.clock.advance(60)
    return client


CHANGES: dict[str, Callable[[CronWorld, Client], Awaitable[object]]] = {
    "put": lambda world, client: world.change.put(client, TICK, draft("*/5 * * * *")),
    "pause": lambda world, client: world.change.pause(SHOP, TICK),
    "resume": lambda world, client: world.change.resume(SHOP, TICK),
    "delete": lambda world, client: world.change.delete(SHOP, TICK),
    "trigger": lambda world, client: world.trigger(client, TICK),
    "put-as-before": lambda world, client: world.change.put(client, TICK, draft()),
}
BECOMES: dict[tuple[str, CronState | None], CronState | type[Exception]] = {
    ("put", None): CronState.ACTIVE,
    ("put", CronState.ACTIVE): CronState.ACTIVE,
    ("put", CronState.PAUSED): CronState.PAUSED,
    ("put", CronState.FINISHED): CronState.ACTIVE,
    ("put", CronState.DELETED): CronState.ACTIVE,
    ("pause", None): NotFound,
    ("pause", CronState.ACTIVE): CronState.PAUSED,
    ("pause", CronState.PAUSED): CronState.PAUSED,
    ("pause", CronState.FINISHED): Conflict,
    ("pause", CronState.DELETED): NotFound,
    ("resume", None): NotFound,
    ("resume", CronState.ACTIVE): CronState.ACTIVE,
    ("resume", CronState.PAUSED): CronState.ACTIVE,
    ("resume", CronState.FINISHED): CronState.FINISHED,
    ("resume", CronState.DELETED): NotFound,
    ("delete", None): NotFound,
    ("delete", CronState.ACTIVE): CronState.DELETED,
    ("delete", CronState.PAUSED): CronState.DELETED,
    ("delete", CronState.FINISHED): CronState.DELETED,
    ("delete", CronState.DELETED): CronState.DELETED,
    ("trigger", None): NotFound,
    ("trigger", CronState.ACTIVE): CronState.ACTIVE,
    ("trigger", CronState.PAUSED): CronState.PAUSED,
    ("trigger", CronState.FINISHED): CronState.FINISHED,
    ("trigger", CronState.DELETED): NotFound,
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("change", [change for change in CHANGES if change != "put-as-before"])
async def test_every_change_in_every_state(world: CronWorld, change: str, state: CronState | None) -> None:
    client = await in_state(world, state)
    before = None if state is None else await world.cron()
    becomes = BECOMES[change, state]
    if not isinstance(becomes, CronState):
        with pytest.raises(becomes):
            await CHANGES[change](world, client)
        return
    wake_ups = world.wake_ups()
    await CHANGES[change](world, client)
    after = await world.cron()
    assert after.state is becomes
    untouched = change == "trigger" or (change != "put" and state is becomes)
    if untouched:
        assert before is not None
        confirmed = before.confirmations + (change != "trigger")
        assert after == msgspec.structs.replace(before, confirmations=confirmed)
        assert world.wake_ups() == wake_ups
    else:
        assert after.revision == (1 if before is None else before.revision + 1)
        assert (after.swept, after.wake_at, after.changed_at) == (after.revision - 1, world.clock.now, world.clock.now)
        assert [at for at in world.wake_ups() if at not in wake_ups] == [world.clock.now]


async def test_the_same_rule_again_changes_nothing(world: CronWorld) -> None:
    client = await in_state(world, CronState.ACTIVE)
    before, wake_ups = await world.cron(), world.wake_ups()
    assert await world.change.put(client, TICK, draft()) == (before, False)
    assert (await world.cron(), world.wake_ups()) == (msgspec.structs.replace(before, confirmations=1), wake_ups)


async def test_identical_concurrent_requests_all_succeed(world: CronWorld) -> None:
    client = await in_state(world, CronState.ACTIVE)
    before = await world.cron()
    asked = [world.change.put(client, TICK, draft()) for _ in range(2 * MAX_CRON_TURNS)]
    answers = await asyncio.gather(*asked)
    assert {(answer.cron.revision, answer.created) for answer in answers} == {(before.revision, False)}


async def test_making_and_deleting_crons_counts_them_once(world: CronWorld) -> None:
    client = await world.begin()
    for number in range(20):
        cron_id = CronId(f"c{number}")
        await world.change.put(client, cron_id, draft())
        await world.change.delete(SHOP, cron_id)
        await world.change.delete(SHOP, cron_id)
    assert world.connection.asked.count("crons.read_marks") == 1


@pytest.mark.parametrize("most", [1, 4, 50])
async def test_crons_that_are_made_at_once_are_bounded_too(world: CronWorld, most: int) -> None:
    client = await world.begin()
    client = msgspec.structs.replace(client, settings=ClientSettings(max_crons=most))
    puts = [world.change.put(client, CronId(f"c{number}"), draft()) for number in range(100)]
    done = await asyncio.gather(*puts, return_exceptions=True)
    assert sum(isinstance(each, Changed) for each in done) == most
    assert sum(isinstance(each, Conflict) for each in done) == 100 - most
    assert world.connection.asked.count("crons.read_marks") <= 20


async def test_a_deletion_makes_room_once_when_it_is_asked_for_again(world: CronWorld) -> None:
    client = await world.begin()
    client = msgspec.structs.replace(client, settings=ClientSettings(max_crons=2))
    for cron_id in (CronId("a"), CronId("b")):
        await world.change.put(client, cron_id, draft())
    with pytest.raises(Conflict):
        await world.change.put(client, CronId("c"), draft())
    # Another caller changes it in between: it is read and decided twice.
    world.connection.before["crons.write"] = lambda: world.others_change.pause(SHOP, CronId("a"))
    for _ in range(3):
        await world.change.delete(SHOP, CronId("a"))
    await world.change.put(client, CronId("c"), draft())
    with pytest.raises(Conflict):
        await world.change.put(client, CronId("a"), draft())


async def test_made_again_after_its_deletion_it_goes_on_counting_revisions(world: CronWorld) -> None:
    client = await in_state(world, CronState.DELETED)
    changed = await world.change.put(client, TICK, draft())
    assert changed.created
    assert (changed.cron.revision, changed.cron.fires, changed.cron.expanded_through) == (3, 0, world.clock.now)


@pytest.mark.parametrize("change", ["put", "pause", "delete"])
@pytest.mark.parametrize("fault", ["refuse", "lose"])
async def test_without_an_answer_it_is_asked_again_and_woken_all_the_same(
    world: CronWorld, change: str, fault: str
) -> None:
    client = await in_state(world, CronState.ACTIVE)
    before = await world.cron()
    world.connection.faults["crons.write"] = [fault]
    with pytest.raises(StoreUnavailable):
        await CHANGES[change](world, client)
    known = world.wake_ups()
    world.clock.advance(1)
    await CHANGES[change](world, client)
    assert (await world.cron()).revision == before.revision + 1, "it was changed once"
    assert [at for at in world.wake_ups() if at not in known] == [world.clock.now]


@pytest.mark.parametrize(
    ("state", "unanswered", "answered", "stays"),
    [
        (CronState.ACTIVE, "pause", "resume", CronState.ACTIVE),
        (CronState.PAUSED, "resume", "pause", CronState.PAUSED),
        (CronState.ACTIVE, "put", "put-as-before", CronState.ACTIVE),
        (CronState.DELETED, "put-as-before", "delete", CronState.DELETED),
    ],
)
@pytest.mark.parametrize("where", ["accepted", "queued"])
async def test_an_answered_change_wins_over_an_earlier_unanswered_one(
    world: CronWorld, state: CronState, unanswered: str, answered: str, stays: CronState, where: str
) -> None:
    client = await in_state(world, state)
    world.connection.faults["crons.write"] = [where]
    with pytest.raises(StoreUnavailable):
        await CHANGES[unanswered](world, client)
    await CHANGES[answered](world, client)
    await world.connection.arrive()
    cron = await world.cron()
    assert (cron.state, cron.expression) == (stays, "* * * * *")


async def test_a_cron_that_servers_have_accepted_is_found_by_its_deletion(world: CronWorld) -> None:
    client = await world.begin()
    world.connection.faults["crons.write"] = ["accepted"]
    with pytest.raises(StoreUnavailable):
        await world.change.put(client, TICK, draft())
    assert (await world.change.delete(SHOP, TICK)).state is CronState.DELETED
    assert (await world.cron()).state is CronState.DELETED


async def test_a_cron_whose_last_fire_is_not_over_for_its_servers_is_not_refused(world: CronWorld) -> None:
    client = await in_state(world, CronState.FINISHED)
    world.connection.faults["crons.write"] = ["accepted"]
    with pytest.raises(StoreUnavailable):
        await world.change.put(client, TICK, draft())
    assert (await world.change.pause(SHOP, TICK)).state is CronState.PAUSED


async def test_a_change_whose_wake_up_is_not_placed_leaves_the_cron_due(world: CronWorld) -> None:
    client = await in_state(world, CronState.ACTIVE)
    world.connection.faults["schedules.insert"] = ["refuse"]
    with pytest.raises(StoreUnavailable):
        await CHANGES["put"](world, client)
    cron = await world.cron()
    assert (cron.revision, cron.wake_at, cron.swept) == (2, world.clock.now, 1)


async def test_concurrent_changes_of_a_cron_both_take_effect(world: CronWorld) -> None:
    client = await in_state(world, CronState.ACTIVE)
    world.connection.before["crons.write"] = lambda: world.others_change.pause(SHOP, TICK)
    await world.change.put(client, TICK, draft("*/5 * * * *"))
    cron = await world.cron()
    assert (cron.state, cron.expression, cron.revision) == (CronState.PAUSED, "*/5 * * * *", 3)


async def test_an_edit_after_a_deletion_creates_the_cron_again(world: CronWorld) -> None:
    client = await in_state(world, CronState.ACTIVE)
    world.connection.before["crons.write"] = lambda: world.others_change.delete(SHOP, TICK)
    changed = await world.change.put(client, TICK, draft("*/5 * * * *"))
    assert changed.created
    assert (changed.cron.state, changed.cron.revision) == (CronState.ACTIVE, 3)


async def test_a_change_gives_up_while_others_keep_changing(world: CronWorld) -> None:
    client = await in_state(world, CronState.ACTIVE)
    turns = 0

    async def meddle() -> None:
        nonlocal turns
        turns += 1
        cron = await world.cron()
        later = msgspec.structs.replace(cron, revision=cron.revision + 1)
        await world.others.crons.write(later, expected_revision=cron.revision)
        world.connection.before["crons.write"] = meddle

    world.connection.before["crons.write"] = meddle
    with pytest.raises(StoreUnavailable, match="keep changing"):
        await world.change.put(client, TICK, draft("*/5 * * * *"))
    assert turns == MAX_CRON_TURNS


async def test_a_concurrent_expansion_does_not_prevent_a_change(world: CronWorld) -> None:
    client = await in_state(world, CronState.ACTIVE)
    world.clock.advance(600)
    world.connection.before["crons.write"] = lambda: world.others_expand(SHOP, [TICK])
    await world.change.put(client, TICK, draft("*/5 * * * *"))
    await world.expand(SHOP, [TICK])
    rows = await world.rows()
    later = {nominal: row for nominal, row in rows.items() if nominal > world.clock.now and row.state is None}
    assert later
    assert [nominal for nominal in later if nominal % (5 * MINUTE_MS)] == []


async def test_the_fires_to_come_are_not_counted_over_an_edit(world: CronWorld) -> None:
    client = await in_state(world, CronState.ACTIVE)
    assert (await world.cron()).fires == 10
    past = await world.change.put(client, TICK, draft("*/5 * * * *"))
    assert past.cron.fires == 2, "two of the ten are due by now"
    assert past.cron.expanded_through == world.clock.now


@pytest.mark.parametrize("before", [0, 3600])
@pytest.mark.parametrize("after", [0, 3600])
async def test_a_change_begins_with_what_is_not_yet_due_and_never_before_the_cron(
    world: CronWorld, before: int, after: int
) -> None:
    client = await world.begin()
    made = await world.change.put(client, TICK, draft(spread_seconds=before))
    await world.expand(SHOP, [TICK])
    world.clock.advance(300)
    changed = (await world.change.put(client, TICK, draft("*/5 * * * *", spread_seconds=after))).cron
    assert changed.expanded_through == max(made.cron.created_at, world.clock.now - offset_ms(made.cron))
    assert changed.fires == (0 if before else 5)
    world.clock.advance(100_000)
    await world.expand(SHOP, [TICK])
    paused = await world.change.pause(SHOP, TICK)
    assert paused.expanded_through <= world.clock.now - offset_ms(changed)


async def test_a_rule_from_a_newer_program_can_be_replaced_and_stopped(world: CronWorld) -> None:
    client = await in_state(world, CronState.ACTIVE)
    cron = await world.cron()
    strange = msgspec.structs.replace(
        cron, expression="every other day", revision=7, expanded_through=UnixMillis(world.clock.now + MINUTE_MS)
    )
    assert isinstance(await world.storage.crons.write(strange, expected_revision=cron.revision), Applied)
    assert (await world.change.pause(SHOP, TICK)).state is CronState.PAUSED
    assert (await world.change.put(client, TICK, draft())).cron.expression == "* * * * *"


async def test_each_of_many_triggers_of_one_instant_is_a_run(world: CronWorld) -> None:
    client = await in_state(world, CronState.ACTIVE)
    world.clock.now += 990 - world.clock.now % 1000
    made = [await world.trigger(client, TICK) for _ in range(20)]
    runs = [run for run in await world.runs() if run.triggered]
    assert [run.schedule_id for run in runs] == [row.schedule_id for row in made]
    assert len(runs) == 20


async def test_triggers_of_one_instant_by_two_processes_are_one_run(world: CronWorld) -> None:
    client = await in_state(world, CronState.ACTIVE)
    one, other = await world.trigger(client, TICK), await world.others_trigger(client, TICK)
    assert one == other
    assert [run.schedule_id for run in await world.runs() if run.triggered] == [one.schedule_id]
    assert [row["schedule_id"] for row in world.connection.rows("schedules") if row["due"] == one.due] == [
        one.schedule_id
    ]


async def test_triggered_runs_are_beside_the_rule(world: CronWorld) -> None:
    client = await in_state(world, CronState.ACTIVE)
    fires = {run.nominal_due for run in await world.runs()}
    world.clock.now -= world.clock.now % 1000
    row = await world.trigger(client, TICK)
    triggered = [run for run in await world.runs() if run.triggered]
    assert [run.schedule_id for run in triggered] == [row.schedule_id]
    assert {run.nominal_due for run in await world.runs() if not run.triggered} == fires
    await world.change.put(client, TICK, draft("*/5 * * * *"))
    await world.expand(SHOP, [TICK])
    assert (await world.rows())[row.due].state is None, "no edit withdraws it"


def by_zone(monkeypatch: pytest.MonkeyPatch, offset_minutes: float) -> None:
    """From here on clocks are so far ahead of UTC, as by another release of the zone data."""
    zone = read_zone(zone_file(offset_minutes / 60), "Etc/UTC")
    monkeypatch.setattr(rule, "load_zone", lambda name: zone)


async def test_expanded_again_its_fires_are_where_new_zone_data_has_them(
    world: CronWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await world.begin()
    by_zone(monkeypatch, 0)
    fire = datetime.fromtimestamp((NOW + 5 * MINUTE_MS) // MINUTE_MS * 60, UTC)
    at = UnixMillis(int(fire.timestamp()) * 1000)
    await world.change.put(client, TICK, draft(f"{fire.minute} {fire.hour} * * *", max_fires=1))
    await world.expand(SHOP, [TICK])
    assert ((await world.cron()).fires, list(await world.rows())) == (1, [at])
    by_zone(monkeypatch, -3)
    again = await world.change.expand_again(SHOP, TICK)
    assert (again.revision, again.fires, again.wake_at) == (2, 0, world.clock.now)
    await world.expand(SHOP, [TICK])
    rows = await world.rows()
    assert {due - at: row.reason for due, row in rows.items()} == {0: CHANGED, 3 * MINUTE_MS: None}
    assert (await world.cron()).fires == 1, "the fire that was withdrawn does not count"


async def test_a_fire_that_new_zone_data_puts_before_the_wake_up_is_made(
    world: CronWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await world.begin()
    by_zone(monkeypatch, 0)
    fire = datetime.fromtimestamp((NOW + 60 * MINUTE_MS) // MINUTE_MS * 60, UTC)
    await world.change.put(client, TICK, draft(f"{fire.minute} {fire.hour} * * *"))
    await world.expand(SHOP, [TICK])
    assert await world.rows() == {}
    by_zone(monkeypatch, 55)
    await world.expand(SHOP, [TICK])
    assert await world.rows() == {}, "it sleeps"
    await world.change.expand_again(SHOP, TICK)
    await world.expand(SHOP, [TICK])
    assert list(await world.rows()) == [int(fire.timestamp()) * 1000 - 55 * MINUTE_MS]


@pytest.mark.parametrize("state", [None, CronState.PAUSED, CronState.FINISHED, CronState.DELETED])
async def test_only_active_crons_are_expanded_again(world: CronWorld, state: CronState | None) -> None:
    await in_state(world, state)
    if state in (None, CronState.DELETED):
        with pytest.raises(NotFound):
            await world.change.expand_again(SHOP, TICK)
        return
    before, wake_ups = await world.cron(), world.wake_ups()
    assert (await world.change.expand_again(SHOP, TICK)).revision == before.revision
    assert ((await world.cron()).revision, world.wake_ups()) == (before.revision, wake_ups)
