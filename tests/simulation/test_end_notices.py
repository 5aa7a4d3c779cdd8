"""`on_success` and `on_failure`: every end is told to its schedule's own receiver, whatever happens to nodes."""

import random
from collections.abc import Sequence

import pytest

from poller_cluster.minute import follow_ups
from poller_cluster.minute.follow_ups import FollowUps
from poller_cluster.notices import ends
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.destinations import named_url
from scheduler_service.domain.end_notices import EndNotice
from scheduler_service.domain.ids import ScheduleId, key_of, partition_of
from scheduler_service.domain.notices import EVENTS_CLIENT, decode_notice
from scheduler_service.domain.schedules import State
from tests.simulation import notice_scenes as scenes
from tests.simulation.cluster import three_nodes
from tests.simulation.creates import CreateRecord
from tests.simulation.notices import BOOK
from tests.simulation.plants import Plant
from tests.simulation.world import Scene, Violation, World, simulate

SETTINGS = ClientSettings(retry=RetrySettings(max_attempts=3, base_seconds=1.0, cap_seconds=2.0))
ON = {State.DELIVERED: "success", State.FAILED: "failure"}
TOLD = named_url("book", "")


def told_of(number: int) -> str | None:
    """Whom the ends of the schedule with this number are told: nobody those of every fourth."""
    return None if number % 4 == 3 else TOLD


async def told_world(world: World) -> None:
    await three_nodes(world, quota=3, settings=SETTINGS)
    await world.add_client(EVENTS_CLIENT, quota=4)
    await world.destinations.put("book", url=BOOK)
    await world.advance(15.0)
    world.receiver.script = scenes.fails_some


async def load(world: World, number: int, *, seconds: int = 60) -> list[CreateRecord]:
    return await scenes.load(world, number, seconds=seconds, told=told_of)


def wanted(world: World, asked: Sequence[CreateRecord]) -> set[str]:
    """What must be told: the ends of acknowledged schedules that ask for it."""
    return {
        f"{one.schedule_id} {ON[State(state)]}"
        for number, one in enumerate(asked)
        if told_of(number) and one.acknowledged and (state := world.state_of(one)) in ON
    }


async def all_told(world: World, asked: Sequence[CreateRecord]) -> None:
    await scenes.until_told(world, lambda: wanted(world, asked) - world.notices.told.keys())
    for end, notices in world.notices.told.items():
        if len({schedule_id for schedule_id, _ in notices}) != 1:
            raise world.violation(f"{end} was told under several ids")
        for _, body in notices:
            answer = body["answer"]
            if answer is not None and (answer["body"] != end.split()[0] or not body["answer_known"]):
                raise world.violation(f"{end} was told with another's answer")


async def told_once(world: World) -> None:
    await told_world(world)
    asked = await load(world, 60)
    await all_told(world, asked)
    await world.advance(120.0)
    assert world.notices.told.keys() == wanted(world, asked)
    assert {len(notices) for notices in world.notices.told.values()} == {1}
    assert all(body["answer"] is not None for [(_, body)] in world.notices.told.values())
    statuses = {end.split()[1]: body["answer"]["status"] for end, [(_, body)] in world.notices.told.items()}
    assert statuses == {"success": 200, "failure": 500}
    assert not world.memory.rows("events")
    assert all(node.node.ends.kept_bytes == 0 for node in world.nodes.values())


def test_every_end_is_told_once_with_its_answer_where_nothing_goes_wrong() -> None:
    simulate(told_once)


@pytest.mark.parametrize("seed", range(8))
def test_every_end_is_told_through_deaths_and_lost_answers(seed: int) -> None:
    simulate(tortured, seed=seed)


async def tortured(world: World) -> None:
    world.faults_planted = True
    await told_world(world)
    asked = await load(world, 50, seconds=90)
    await scenes.trouble(world, random.Random(world.rng.random()), turns=12)
    await all_told(world, asked)


async def held_up(world: World) -> None:
    """Storage takes no row of `$events` for minutes, then all nodes die: the answers die with them."""
    world.faults_planted = True
    await told_world(world)
    asked = await load(world, 20, seconds=5)
    scenes.refuse_notices(world)
    await world.advance(150.0)
    await scenes.replace_nodes(world)
    await all_told(world, asked)
    bodies = [body for notices in world.notices.told.values() for _, body in notices]
    assert {(body["answer"], body["answer_known"]) for body in bodies} == {(None, False)}


def test_an_answer_that_died_with_its_node_is_said_to_be_unknown() -> None:
    simulate(held_up)


async def handed_on(world: World) -> None:
    """All nodes die in the minute whose ends they have recorded and not told; its sweep is the next owners'."""
    world.faults_planted = True
    await told_world(world)
    await world.advance(60.0 - world.now_ms() % 60_000 / 1000.0)
    asked = [await world.create("shop", world.now_ms() + 1_000 + 100 * number, told=TOLD) for number in range(20)]
    scenes.refuse_notices(world)
    await world.advance(5.0)
    await scenes.replace_nodes(world)
    await all_told(world, asked)


def test_the_next_owner_of_a_running_minute_tells_what_had_ended_in_it() -> None:
    simulate(handed_on)


async def crowded(world: World) -> None:
    """More answers wait for their rows than are kept."""
    world.faults_planted = True
    await told_world(world)
    scenes.refuse_notices(world)
    asked = await load(world, 40, seconds=5)
    await world.advance(60.0)
    kept = [node.node.ends.kept_bytes for node in world.nodes.values()]
    assert all(size <= ends.ANSWERS_BYTES for size in kept)
    assert any(kept)
    for node in world.nodes.values():
        node.connection.plan.hook = None
    await all_told(world, asked)
    known = [body["answer_known"] for notices in world.notices.told.values() for _, body in notices]
    assert {True, False} == set(known)


def test_answers_beyond_the_bound_are_dropped_and_their_notices_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "ANSWERS_BYTES", 1_000)
    simulate(crowded)


async def unheard(world: World) -> None:
    """The receiver of the notices only fails: its failures are told to nobody."""
    await told_world(world)
    world.receiver.script = scenes.fails_notices
    asked = await load(world, 20, seconds=5)
    await world.advance(400.0)
    ends = wanted(world, asked)

    async def unlettered() -> set[str]:
        return ends - {await end_of(world, row["schedule_id"]) for row in world.memory.rows("dead_letters")}

    # Behind an open breaker a notice waits for its turn as a probe, and may have a dead letter without an attempt.
    for _ in range(240):
        if not await unlettered():
            break
        await world.advance(30.0)
    letters = world.memory.rows("dead_letters")
    assert {(row["client_id"], row["label"]) for row in letters} == {("shop", f"{EVENTS_CLIENT}/on_success")}
    assert not await unlettered()
    assert len(letters) == len(ends)
    assert world.notices.told.keys() <= ends


async def end_of(world: World, schedule_id: ScheduleId) -> str:
    """The end that this row of `$events` tells."""
    key = key_of(schedule_id)
    row = (await world.truth.schedules.find_rows(partition_of(EVENTS_CLIENT, schedule_id), [key]))[key]
    content = decode_notice(row.body)
    assert isinstance(content, EndNotice)
    return f"{content.event.schedule_id} {content.on}"


@pytest.mark.parametrize("seed", range(3))
def test_what_gets_no_answer_is_a_dead_letter_and_leads_to_no_notice(seed: int) -> None:
    simulate(unheard, seed=seed)


def sweeps_overlook_them(patch: pytest.MonkeyPatch) -> None:
    told = FollowUps.told
    patch.setattr(FollowUps, "told", lambda self, key, kind=None: told(self, key))


def an_owner_tells_only_what_it_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(follow_ups, "_tells", lambda row, outcome: row.state is None and row.kind is not None)


def retries_forget_them(patch: pytest.MonkeyPatch) -> None:
    tells = follow_ups._tells
    patch.setattr(follow_ups, "_tells", lambda row, outcome: not row.is_retry_row and tells(row, outcome))


@pytest.mark.parametrize(
    ("plant", "scene"),
    [(sweeps_overlook_them, handed_on), (an_owner_tells_only_what_it_ends, held_up), (retries_forget_them, told_once)],
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant, scene: Scene) -> None:
    plant(monkeypatch)
    with pytest.raises((Violation, AssertionError)):
        simulate(scene)
