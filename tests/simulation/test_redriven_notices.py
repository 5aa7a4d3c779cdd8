"""Notices that failed for good are redriven: each is sent again, as its client's, until it is told."""

from collections import Counter

import pytest

from poller_cluster.notices import calls
from scheduler_service.domain.books import LetterKey
from scheduler_service.domain.ids import ScheduleId, UnixMillis
from scheduler_service.domain.options import ScheduleOptions
from scheduler_service.usecases.authenticate import Catalog
from scheduler_service.usecases.cancel_schedules import NoSuchSchedule
from scheduler_service.usecases.dead_letters import ListDeadLetters, RedriveDeadLetters, Redriven
from scheduler_service.usecases.redeliver import Redelivering, RedeliverSchedule
from scheduler_service.usecases.redeliver_notices import RedeliverNotice
from tests.simulation import test_end_notices as ends
from tests.simulation import test_notices as subscriptions
from tests.simulation.notice_scenes import load
from tests.simulation.notices import BOOK
from tests.simulation.plants import Plant
from tests.simulation.receivers import Call
from tests.simulation.world import Violation, World, simulate


async def redrive(world: World, client: str) -> Redriven:
    """All letters of the client `shop`, asked for as this client."""
    storage, clock = world.api_storage, world.api_clock
    redeliver = RedeliverSchedule(
        schedules=storage.schedules, attempts=storage.attempts, writer=world.writer, clock=clock
    )
    verb = RedriveDeadLetters(
        letters=ListDeadLetters(letters=storage.dead_letters, schedules=storage.schedules),
        redeliver=redeliver,
        redeliver_notice=RedeliverNotice(
            schedules=storage.schedules,
            events=storage.events,
            redeliver=redeliver,
            catalog=Catalog(store=storage.clients, clock=clock),
        ),
    )
    letters = [
        LetterKey(UnixMillis(row["failed_at"]), ScheduleId(row["schedule_id"]))
        for row in world.memory.rows("dead_letters")
    ]
    assert letters
    return await verb.listed(world.clients[client], letters)


class Book:
    """The receiver of notices: it fails until it is `mended`, and then once more for some of those `sent_again`.
    Others, which wait behind its breaker, may have one attempt left."""

    def __init__(self) -> None:
        self.mended = False
        self.sent_again = set[str]()
        self.failed = Counter[str]()

    def __call__(self, call: Call) -> int:
        if not call.url.startswith(BOOK):
            return 200
        if not self.mended:
            return 503
        self.failed[call.schedule_id] += 1
        fails = call.schedule_id in self.sent_again and int(call.schedule_id[-1], 16) % 4 == 0
        return 503 if fails and self.failed[call.schedule_id] == 1 else 200


async def redriven(world: World, book: Book) -> None:
    await world.add_client("thief", quota=2)
    assert {type(result) for _, result in (await redrive(world, "thief")).results} == {NoSuchSchedule}
    book.mended = True
    book.sent_again = {str(row["schedule_id"]) for row in world.memory.rows("dead_letters")}
    assert {type(result) for _, result in (await redrive(world, "shop")).results} == {Redelivering}
    await world.kill(sorted(world.nodes)[0])


async def subscribed(world: World) -> None:
    world.faults_planted = True
    await subscriptions.subscribed(world)
    world.receiver.script = book = Book()
    asked = await load(world, 20, seconds=5)
    await world.advance(400.0)
    assert not world.notices.got
    await redriven(world, book)
    await subscriptions.all_told(world, asked)


async def own(world: World) -> None:
    world.faults_planted = True
    await ends.told_world(world)
    world.receiver.script = book = Book()
    asked = await ends.load(world, 10, seconds=5)
    await world.advance(400.0)
    await redriven(world, book)
    unheard = set[str]()
    for _ in range(360):
        told = {call.schedule_id for call in world.notices.calls if call.answer == 200}
        unheard = {end for end in ends.wanted(world, asked) if world.notices.told[end][0][0] not in told}
        if not unheard:
            return
        await world.advance(10.0)
    raise world.violation(f"nobody was told of {unheard}")


def test_notices_of_subscriptions_are_sent_again() -> None:
    simulate(subscribed)


def test_notices_of_schedules_own_are_sent_again() -> None:
    simulate(own)


def retries_do_not_begin_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(calls, "decode_options", lambda text: ScheduleOptions())


@pytest.mark.parametrize("plant", [retries_do_not_begin_again])
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(monkeypatch)
    with pytest.raises(Violation):
        simulate(own)
