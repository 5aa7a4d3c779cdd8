"""Scenes of work that receivers acknowledge later: each holds one rule of the protocol against the moments at which it
could break."""

import asyncio
from collections.abc import Sequence

from membership.errors import StoreUnavailable
from scheduler_service.domain.acknowledgements import Ack
from scheduler_service.domain.clients import RetrySettings
from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.events import OF_STATE
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.schedules import Row, State
from scheduler_service.usecases.acknowledge import TooEarly
from tests.simulation.acknowledgements import ACK, Words, shop
from tests.simulation.books import check_books
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import INSERTS, FaultPlan
from tests.simulation.sim_clock import SimClock
from tests.simulation.world import World

ONCE = RetrySettings(base_seconds=2, max_attempts=1)


async def row_of(world: World, asked: CreateRecord) -> Row:
    row = await world.row_of(asked)
    assert row is not None
    return row


async def awaiting(world: World, *, ack: Ack = ACK, after: float = 6.0) -> CreateRecord:
    asked = await world.create("shop", world.now_ms() + 3_000, ack=ack)
    await world.advance(after)
    assert (await row_of(world, asked)).shown_state is State.AWAITING
    return asked


async def check(world: World, words: Words, asked: Sequence[CreateRecord], *, within: float = 600.0) -> None:
    """All have ended, as what was said of them, with one dead letter where they failed."""
    await world.settle_down(within=within)
    await world.advance(90)
    for one in asked:
        row = await row_of(world, one)
        words.check(one, row)
        letters = [each for each in world.memory.rows("dead_letters") if each["schedule_id"] == one.schedule_id]
        if len(letters) != (row.state == State.FAILED):
            raise world.violation(f"{one.schedule_id} is {row.state} and has {len(letters)} dead letters")
        told = {each["type"] for each in world.memory.rows("events") if each["schedule_id"] == one.schedule_id}
        if world.clients[ClientId("shop")].settings.event_feed and told != {OF_STATE[State(row.state or "")]}:
            raise world.violation(f"{one.schedule_id} is {row.state}, and {told} was told")


async def around_the_deadline(world: World) -> None:
    """Words from some seconds before a deadline, when its row is claimed already, until after it."""
    words = await shop(world, event_feed=True, retry=ONCE)
    asked = []
    for number, word in enumerate(("done", "failed", "extend") * 12):
        one = await world.create("shop", world.now_ms() + 3_000 + 40 * number, ack=Ack(within_seconds=30))
        asked.append((one, word, (number // 3 - 9.5) / 2))
    await world.advance(8)

    async def say(one: CreateRecord, word: str, apart: float) -> None:
        deadline = (await row_of(world, one)).next_attempt_at
        assert deadline is not None
        await world.api_clock.sleep((deadline - world.now_ms()) / 1000.0 + apart)
        await words.say(one.calls[0], word, within_seconds=40.0 if word == "extend" else None)

    saying = asyncio.gather(*(say(*one) for one in asked))
    await world.advance(40)
    await saying
    for word in ("done", "failed", "extend"):
        assert sum(one.result == word for one in words.taken) > 8
    await check(world, words, [one for one, _, _ in asked])


async def shorter_extension(world: World) -> None:
    """A receiver that asks for less time than it has keeps what it has."""
    words = await shop(world)
    asked = await awaiting(world)
    before = (await row_of(world, asked)).next_attempt_at
    extended = await words.say(asked.calls[0], "extend", within_seconds=1.0)
    assert isinstance(extended, Row)
    assert extended.next_attempt_at == (await row_of(world, asked)).next_attempt_at == before
    await check(world, words, [asked])


async def postponed_and_killed(world: World) -> None:
    """The owner records that a deadline was put off, and dies before it places the row of the new one."""
    words = await shop(world)
    asked = await awaiting(world)
    await world.advance(20)
    assert isinstance(await words.say(asked.calls[0], "extend", within_seconds=90.0), Row)
    await _killed_before_its_inserts(world, after=50)
    await check(world, words, [asked])


async def taken_and_killed(world: World) -> None:
    """The owner records a 202, and dies before it places the row of the deadline."""
    words = await shop(world)
    world.nodes["a"].connection.plan = _no_inserts()
    asked = await world.create("shop", world.now_ms() + 3_000, ack=ACK)
    await world.advance(6)
    assert (await row_of(world, asked)).shown_state is State.AWAITING
    await _killed_before_its_inserts(world, after=0)
    await check(world, words, [asked])
    assert len(asked.calls) == 3


async def _killed_before_its_inserts(world: World, *, after: float) -> None:
    world.nodes["a"].connection.plan = _no_inserts()
    await world.advance(after)
    await world.kill("a")
    world.add_node("b")


def _no_inserts() -> FaultPlan:
    return FaultPlan(hook=lambda kind, items: "refuse" if items[0][0] in INSERTS else None)


async def the_same_instant(world: World) -> None:
    """The receiver of a second attempt asks for time until an instant that was a deadline of the first one, when the
    row of that has been superseded."""
    words = await shop(world)
    asked = await awaiting(world, ack=Ack(within_seconds=10))
    into = world.now_ms() % 60_000 / 1000.0
    extended = await words.say(asked.calls[0], "extend", within_seconds=60.0 - into + 115.0)
    assert isinstance(extended, Row)
    first = extended.next_attempt_at
    assert first is not None
    await world.advance(60.0 - into + 35.0)
    assert isinstance(await words.say(asked.calls[0], "failed"), Row)
    await world.advance(6)
    assert len(asked.calls) == 2
    assert isinstance(await words.say(asked.calls[1], "extend", within_seconds=50.0), Row)
    await world.advance(34)
    assert isinstance(
        await words.say(asked.calls[1], "extend", clock=Stopped(first - 30_000), within_seconds=30.0), Row
    )
    await check(world, words, [asked])
    assert [call.attempt for call in asked.calls] == [1, 2, 3]


async def a_word_at_the_instant_of_its_call(world: World) -> None:
    """The clock of the API shows the instant at which the second attempt was due: that has a row already."""
    words = await shop(world)
    asked = await awaiting(world)
    assert isinstance(await words.say(asked.calls[0], "failed"), Row)
    while (row := await row_of(world, asked)).reason is not None:
        await world.advance(0.1)
    assert row.next_attempt_at is not None
    await world.advance(10)
    assert isinstance(await words.say(asked.calls[1], "done", clock=Stopped(row.next_attempt_at)), Row)
    await check(world, words, [asked])


class Stopped(SimClock):
    """Shows one instant always."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self._at = at

    def wall_ms(self) -> int:
        return self._at


async def made_twice(world: World) -> None:
    """The first node is killed before it records the 202; the next one makes the same attempt under its own fence."""
    words = await shop(world)
    asked = await world.create("shop", world.now_ms() + 3_000, ack=ACK)
    while not asked.calls:
        await world.advance(0.005)
    await world.kill("a")
    world.add_node("b")
    await world.advance(40)
    first, second = asked.calls
    assert (first.attempt, second.attempt) == (1, 1)
    assert first.fence < second.fence
    assert isinstance(await words.say(first, "done"), Conflict)
    assert (await row_of(world, asked)).shown_state is State.AWAITING
    assert isinstance(await words.say(second, "done"), Row)
    await check(world, words, [asked])


async def two_words_at_once(world: World) -> None:
    words = await shop(world)
    asked = await awaiting(world)
    saying = [asyncio.ensure_future(words.say(asked.calls[0], word)) for word in ("done", "failed")]
    await world.advance(3)
    assert sorted(isinstance(said.result(), Row) for said in saying) == [False, True]
    await check(world, words, [asked])


async def the_attempt_before(world: World) -> None:
    """A word about an attempt whose schedule was called again since."""
    words = await shop(world)
    asked = await awaiting(world)
    assert isinstance(await words.say(asked.calls[0], "failed"), Row)
    await world.advance(8)
    assert len(asked.calls) == 2
    assert isinstance(await words.say(asked.calls[0], "done"), Conflict)
    await check(world, words, [asked])


async def after_the_deadline(world: World) -> None:
    """A word that comes when the attempt has failed, and the next one is still to be made."""
    words = await shop(world, retry=RetrySettings(base_seconds=30, max_attempts=2))
    asked = await awaiting(world)
    while (await row_of(world, asked)).last_error != "not-acknowledged":
        await world.advance(1)
    assert isinstance(await words.say(asked.calls[0], "done"), Conflict)
    await check(world, words, [asked])
    assert len(asked.calls) == 2


async def the_same_word_again(world: World) -> None:
    """The word is told, counted and kept once."""
    words = await shop(world, event_feed=True)
    asked = await awaiting(world)
    for number in range(3):
        assert isinstance(await words.say(asked.calls[0], "done", data=b"%d" % number), Row)
    row = await row_of(world, asked)
    assert sum(one["origin_due"] is not None for one in world.memory.rows("schedules")) <= 2, row
    await check(world, words, [asked])
    told = await world.truth.attempts.read_words(asked.client_id, asked.schedule_id)
    assert told[1].data == b"0"


async def at_most_once(world: World) -> None:
    """A lost word is no reason to call again."""
    words = await shop(world, in_doubt="drop")
    asked = [await awaiting(world) for _ in range(2)]
    assert isinstance(await words.say(asked[1].calls[0], "failed"), Row)
    await check(world, words, asked)
    assert [len(one.calls) for one in asked] == [1, 1]


async def without_ack(world: World) -> None:
    """A 202 to a call without `ack` is its end."""
    await shop(world)
    asked = await world.create("shop", world.now_ms() + 3_000)
    await world.advance(6)
    assert (await row_of(world, asked)).state == State.DELIVERED
    await world.settle_down()


async def counted_while_it_waits(world: World) -> None:
    """The books of a settled minute have a schedule that waits as open, once."""
    words = await shop(world)
    asked = [await awaiting(world, ack=Ack(within_seconds=900)) for _ in range(3)]
    await world.advance(200)
    await check_books(world)
    assert isinstance(await words.say(asked[0].calls[0], "done"), Row)
    await world.advance(30)
    await check_books(world)
    for one in asked[1:]:
        await words.insist(one.calls[0], "done")
    await check(world, words, asked)


async def faster_than_its_record(world: World) -> None:
    words = await shop(world)
    world.receiver.latency_seconds = 4.0
    asked = await world.create("shop", world.now_ms() + 3_000, ack=ACK)
    await world.advance(4.0)
    assert isinstance(await words.say(asked.calls[0], "done"), TooEarly)
    assert isinstance(await words.insist(asked.calls[0], "done"), Row)
    await check(world, words, [asked])


async def an_unplaced_word(world: World) -> None:
    """The process that takes a word dies before it places its row; the receiver says no more."""
    words = await shop(world)
    asked = await awaiting(world)
    world.api_connection.plan = _no_inserts()
    assert isinstance(await words.say(asked.calls[0], "done"), StoreUnavailable)
    world.api_connection.plan = FaultPlan()
    await world.advance(10)
    assert (await row_of(world, asked)).shown_state is State.AWAITING
    await check(world, words, [asked])
    assert (await row_of(world, asked)).state == State.DELIVERED
    assert len(asked.calls) == 1


async def behind_its_key(world: World) -> None:
    """Rows behind it wait however long, and look once a minute whether it has ended."""
    words = await shop(world)
    now = world.now_ms()
    first = await world.create("shop", now + 3_000, ack=Ack(within_seconds=3_600), ordering_key="k")
    world.receiver.script = lambda call: 202 if call.schedule_id == str(first.schedule_id) else 200
    behind = [await world.create("shop", now + 4_000 + 10 * n, ordering_key="k") for n in range(3)]
    await world.advance(400)
    assert not any(each.calls for each in behind)
    assert isinstance(await words.say(first.calls[0], "done"), Row)
    await world.advance(70)
    assert all(each.calls for each in behind)
    await check(world, words, [first])
