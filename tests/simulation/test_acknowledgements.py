"""Receivers take calls by 202 and say later what became of them, whatever happens to nodes and APIs meanwhile. More
scenes are in `ack_scenes`, which `test_ack_plants` runs."""

import asyncio

import pytest

from scheduler_service.domain.acknowledgements import Ack
from scheduler_service.domain.clients import ClientState, RetrySettings
from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.schedules import Row, State
from scheduler_service.usecases.cancel_schedules import Cancelled, InFlight
from tests.simulation.ack_scenes import awaiting, row_of
from tests.simulation.acknowledgements import ACK, Words, shop
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import FaultPlan
from tests.simulation.feeds import FeedReader
from tests.simulation.sim_clock import SimClock
from tests.simulation.world import World, simulate


def test_done_delivers_within_a_second_without_another_call() -> None:
    async def scenario(world: World) -> None:
        words = await shop(world)
        asked = await awaiting(world)
        await world.advance(20)
        assert isinstance(await words.say(asked.calls[0], "done", data=b'{"rows":3}'), Row)
        await world.advance(1)
        row = await row_of(world, asked)
        assert (row.state, row.reason, row.attempts) == ("delivered", "acknowledged", 1)
        await world.advance(120)
        await world.settle_down()
        assert len(asked.calls) == 1
        told = await world.truth.attempts.read_words(asked.client_id, asked.schedule_id)
        assert (told[1].result, told[1].data) == ("done", b'{"rows":3}')

    simulate(scenario)


def test_no_word_in_time_is_a_failed_attempt_that_is_called_again() -> None:
    async def scenario(world: World) -> None:
        await shop(world)
        asked = await awaiting(world)
        await world.advance(300)
        await world.settle_down()
        row = await row_of(world, asked)
        assert (row.state, row.reason, row.last_error) == ("failed", "exhausted", "not-acknowledged")
        assert [call.attempt for call in asked.calls] == [1, 2, 3]
        apart = [later.at_ms - earlier.at_ms for earlier, later in zip(asked.calls, asked.calls[1:], strict=False)]
        assert all(60_000 < each < 67_000 for each in apart)

    simulate(scenario)


def test_failed_is_retried_at_once_and_the_word_of_the_attempt_before_is_refused() -> None:
    async def scenario(world: World) -> None:
        words = await shop(world)
        asked = await awaiting(world)
        assert isinstance(await words.say(asked.calls[0], "failed", reason="no disk"), Row)
        await world.advance(8)
        assert [call.attempt for call in asked.calls] == [1, 2]
        assert isinstance(await words.say(asked.calls[0], "done"), Conflict)
        assert isinstance(await words.say(asked.calls[1], "done"), Row)
        await world.advance(90)
        await world.settle_down()
        assert (await row_of(world, asked)).state == "delivered"

    simulate(scenario)


def test_a_receiver_that_asks_for_more_time_is_called_once() -> None:
    async def scenario(world: World) -> None:
        words = await shop(world)
        asked = await awaiting(world)
        for _ in range(6):
            await world.advance(40)
            assert isinstance(await words.say(asked.calls[0], "extend"), Row)
        assert isinstance(await words.say(asked.calls[0], "done"), Row)
        await world.advance(90)
        await world.settle_down()
        assert (await row_of(world, asked)).state == "delivered"
        assert len(asked.calls) == 1

    simulate(scenario)


def test_the_same_word_again_is_taken_and_another_one_is_not() -> None:
    async def scenario(world: World) -> None:
        words = await shop(world)
        asked = await awaiting(world)
        call = asked.calls[0]
        for pause in (0, 0, 5, 100):
            await world.advance(pause)
            assert isinstance(await words.say(call, "done"), Row)
            assert isinstance(await words.say(call, "failed"), Conflict)
            assert isinstance(await words.say(call, "extend"), Conflict)
        await world.settle_down()

    simulate(scenario)


@pytest.mark.parametrize("word", ["done", "failed", None])
def test_at_most_once_is_never_called_twice(word: str | None) -> None:
    async def scenario(world: World) -> None:
        words = await shop(world, in_doubt="drop")
        asked = await awaiting(world)
        if word is not None:
            assert isinstance(await words.say(asked.calls[0], word), Row)
        await world.advance(120)
        await world.settle_down()
        row = await row_of(world, asked)
        assert (row.state, row.reason) == (
            ("delivered", "acknowledged") if word == "done" else ("failed", "at-most-once")
        )

    simulate(scenario)


def test_a_cancel_ends_the_wait_and_words_are_refused() -> None:
    async def scenario(world: World) -> None:
        words = await shop(world)
        asked = await awaiting(world)
        assert isinstance(await world.cancel(asked), Cancelled)
        assert isinstance(await words.say(asked.calls[0], "done"), Conflict)
        await world.advance(90)
        await world.settle_down()

    simulate(scenario)


def test_a_cancel_after_done_was_taken_is_refused_however_long_that_is_not_recorded() -> None:
    async def scenario(world: World) -> None:
        words = await shop(world)
        asked = await awaiting(world)
        await world.kill("a")
        assert isinstance(await words.insist(asked.calls[0], "done"), Row)
        await world.advance(1)
        assert isinstance(await world.cancel(asked), InFlight)
        world.add_node("b")
        await world.settle_down()
        words.check(asked, await row_of(world, asked))

    simulate(scenario)


@pytest.mark.parametrize("before_word", [True, False], ids=["killed-before-the-word", "killed-after-it"])
@pytest.mark.parametrize("word", ["done", "failed", "extend", None])
def test_the_node_that_called_is_killed(word: str | None, before_word: bool) -> None:
    async def scenario(world: World) -> None:
        words = await shop(world, names="a")
        asked = await awaiting(world)
        if before_word:
            await world.kill("a")
        if word is not None:
            assert isinstance(await words.insist(asked.calls[0], word), Row)
        if not before_word:
            await world.kill("a")
        await world.advance(5)
        world.add_node("b")
        await world.advance(30)
        row = await row_of(world, asked)
        assert row.shown_state is {"done": State.DELIVERED}.get(word or "", State.AWAITING)
        await world.advance(100)
        if word in ("failed", None):
            assert asked.calls[1].attempt == 2
            assert asked.calls[1].fence > asked.calls[0].fence
        await world.settle_down(within=600)
        words.check(asked, await row_of(world, asked))

    simulate(scenario)


def test_the_next_owner_keeps_rows_behind_a_deadline_hours_ahead_waiting() -> None:
    """The minute of the first row is settled long ago: only its deadline's row tells of it."""

    async def scenario(world: World) -> None:
        words = await shop(world)
        first = await world.create("shop", world.now_ms() + 3_000, ack=Ack(within_seconds=7_200), ordering_key="k")
        world.receiver.script = lambda call: 202 if call.schedule_id == str(first.schedule_id) else 200
        await world.advance(300)
        await world.kill("a")
        await world.advance(30)
        world.add_node("b")
        await world.advance(60)
        behind = [await world.create("shop", world.now_ms() + 4_000 + 10 * n, ordering_key="k") for n in range(3)]
        await world.advance(400)
        assert not any(each.calls for each in behind)
        assert isinstance(await words.say(first.calls[0], "done"), Row)
        await world.advance(70)
        assert all(each.calls for each in behind)
        await world.settle_down()

    simulate(scenario)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_fails_words_that_were_taken_count(seed: int) -> None:
    async def scenario(world: World) -> None:
        words = await shop(world, names="ab", quota=4)
        rng = world.rng
        asked = [
            await world.create(
                "shop", world.now_ms() + rng.randrange(2_000, 100_000), ack=Ack(within_seconds=rng.choice((5, 20, 60)))
            )
            for _ in range(25)
        ]
        saying = asyncio.create_task(talk(world, words, asked))
        for step in range(12):
            plan = FaultPlan(refuse=0.05, lose_answer=0.05, slow=0.1, late=0.02) if step % 2 else FaultPlan()
            world.api_connection.plan = plan
            for node in world.nodes.values():
                node.connection.plan = plan
            if step in (3, 7):
                name = rng.choice("ab")
                await world.kill(name)
                await world.advance(rng.randrange(15))
                world.add_node(name)
            await world.advance(15)
        world.heal()
        await world.advance(5)
        saying.cancel()
        await world.settle_down(within=900)
        assert words.taken
        for each in asked:
            if (row := await world.row_of(each)) is not None and row.defined:
                words.check(each, row)

    simulate(scenario, seed=seed)


async def talk(world: World, words: Words, asked: list[CreateRecord]) -> None:
    """Receivers that say something now and then about any of their calls."""
    while True:
        await world.api_clock.sleep(world.rng.random() * 2)
        called = [each for each in asked if each.calls]
        if called:
            call = world.rng.choice(world.rng.choice(called).calls)
            word = world.rng.choice(("done", "done", "failed", "extend"))
            within = world.rng.choice((1.0, 10.0, 90.0)) if word == "extend" else None
            await words.say(call, word, within_seconds=within)


def test_a_word_counts_at_once_while_its_client_has_no_room_for_calls() -> None:
    async def scenario(world: World) -> None:
        words = await shop(world, max_in_flight=2)
        asked = await awaiting(world)
        world.receiver.latency_seconds = 25
        for number in range(20):
            await world.create("shop", world.now_ms() + 1_000 + 10 * number)
        await world.advance(8)
        assert isinstance(await words.say(asked.calls[0], "done"), Row)
        await world.advance(1)
        assert (await row_of(world, asked)).state == "delivered"

    simulate(scenario)


@pytest.mark.parametrize("waits", [0, 300], ids=["in-time", "after-the-deadline"])
def test_a_word_to_a_suspended_client_is_recorded_when_it_is_resumed(waits: int) -> None:
    async def scenario(world: World) -> None:
        words = await shop(world)
        asked = await awaiting(world)
        await world.change_client("shop", state=ClientState.SUSPENDED)
        await world.advance(5)
        await world.advance(waits)
        assert isinstance(await words.say(asked.calls[0], "done"), Row)
        await world.advance(600)
        assert (await row_of(world, asked)).shown_state is State.AWAITING
        await world.change_client("shop", state=ClientState.ACTIVE)
        await world.settle_down()
        words.check(asked, await row_of(world, asked))
        assert len(asked.calls) == 1

    simulate(scenario)


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_hours_off_delays_a_word_until_the_deadline_at_most(hours: int) -> None:
    async def scenario(world: World) -> None:
        words = await shop(world)
        asked = await awaiting(world)
        world.api_clock = SimClock(skew_ms=hours * 3_600_000)
        assert isinstance(await words.say(asked.calls[0], "done"), Row)
        await world.advance(65)
        assert (await row_of(world, asked)).state == "delivered"

    simulate(scenario)


BRIEF = RetrySettings(base_seconds=2, max_attempts=3, deadline_seconds=300)


@pytest.mark.parametrize("held", [True, False], ids=["suspended", "nodes-away"])
def test_a_wait_that_is_over_long_before_anybody_may_end_it_has_its_retries_left(held: bool) -> None:
    async def scenario(world: World) -> None:
        await shop(world, retry=BRIEF)
        asked = await awaiting(world)
        if held:
            await world.change_client("shop", state=ClientState.SUSPENDED)
            await world.advance(1_000)
            await world.change_client("shop", state=ClientState.ACTIVE)
        else:
            await world.kill("a")
            await world.advance(1_000)
            world.add_node("b")
        await world.advance(60)
        assert [call.attempt for call in asked.calls] == [1, 2]

    simulate(scenario)


def test_a_first_call_that_an_outage_delays_has_its_retries_left() -> None:
    async def scenario(world: World) -> None:
        await shop(world, retry=BRIEF)
        world.receiver.script = lambda call: 500
        asked = await world.create("shop", world.now_ms() + 30_000, ack=ACK)
        await world.kill("a")
        await world.advance(1_000)
        world.add_node("b")
        await world.advance(60)
        assert [call.attempt for call in asked.calls] == [1, 2, 3]
        assert (await row_of(world, asked)).reason == "exhausted"

    simulate(scenario)


def test_calls_held_back_from_a_receiver_that_only_fails_end_by_their_deadline() -> None:
    async def scenario(world: World) -> None:
        await shop(world, retry=BRIEF)
        world.receiver.script = lambda call: 500
        for number in range(60):
            await world.create("shop", world.now_ms() + 3_000 + 100 * number, ack=ACK)
        await world.advance(900)
        assert world.unfinished() == []

    simulate(scenario)


def test_a_feed_tells_of_ends_that_reached_their_originals() -> None:
    """Of words that race deadlines, of deadlines without a word, and of cancels, each is told as what it ended as."""

    async def scenario(world: World) -> None:
        words = await shop(world, event_feed=True, retry=RetrySettings(base_seconds=2, max_attempts=1))
        reader = FeedReader(world)
        done, silent, late, cancelled = [await awaiting(world) for _ in range(4)]
        await world.cancel(cancelled)
        assert isinstance(await words.say(done.calls[0], "done"), Row)
        assert isinstance(await words.say(late.calls[0], "extend"), Row)
        await world.advance(70)
        said = await words.say(late.calls[0], "done")
        await world.advance(300)
        await world.settle_down()
        await reader.check()
        await reader.stop()
        told = [sorted(reader.seen[str(one.schedule_id)]) for one in (done, silent, cancelled)]
        assert told == [["schedule.delivered"], ["schedule.failed"], ["schedule.cancelled"]]
        end = "delivered" if isinstance(said, Row) else "failed"
        assert reader.seen[str(late.schedule_id)] == {f"schedule.{end}"}

    simulate(scenario)
