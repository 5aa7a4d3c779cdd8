"""A schedule with a success deadline has a row that watches it, and a look at that deadline finds what became of it."""

from typing import Any

import msgspec
import pytest
import pytest_asyncio

from cql.storage import Storage
from membership.conditional import Applied
from poller_cluster.notices.success_deadlines import Looked, SuccessDeadlines
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.events import Event
from scheduler_service.domain.ids import ClientId, PollerId, UnixMillis
from scheduler_service.domain.notices import DeadlineContent, deadline_row, decode_notice
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.domain.schedules import Content, Definition, Outcome, OwnerCommit, RowRevision, RowWrite, State
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.contract.builders import START, definition
from tests.contract.conftest import Names
from tests.support.api import ManualClock

pytestmark = pytest.mark.asyncio(loop_scope="session")


class _NoHints:
    def hint(self, partition: Any, key: Any) -> None: ...


class Watched:
    """A client with a feed, its schedule of a success deadline of a minute, and what is appended."""

    def __init__(self, storage: Storage, client_id: ClientId) -> None:
        self.storage, self.clock = storage, ManualClock(START - 60_000)
        self.told: list[Event] = []
        self.writer = ScheduleWriter(
            schedules=storage.schedules,
            keys=storage.schedule_keys,
            leases=storage.leases,
            clock=self.clock,
            randomness=SystemRandomness(),
            hints=_NoHints(),
        )
        self.deadlines = SuccessDeadlines(
            resolve=ResolveSchedule(schedules=storage.schedules, writer=self.writer),
            clients=storage.clients,
            destinations=storage.destinations,
            append=self._append,
            clock=self.clock,
        )
        options = encode_options(ScheduleOptions(succeed_within_seconds=60.0))
        self.one: Definition = msgspec.structs.replace(definition(client_id, offset=700), options=options)
        self.by = UnixMillis(self.one.due + 60_000)

    async def _append(self, poller_id: PollerId, client_id: ClientId, event: Event) -> None:
        assert client_id == self.one.client_id
        self.told.append(event)

    async def look(self, *, again: bool = False) -> Looked:
        deadline = DeadlineContent(client_id=self.one.client_id, schedule_id=self.one.schedule_id, by=self.by)
        return await self.deadlines.look(PollerId(0), deadline, again=again)

    async def record(self, state: State, at: int) -> None:
        outcome = Outcome(state=state, attempts=1, finished_at=UnixMillis(at))
        answer = await self.storage.schedules.commit(
            OwnerCommit(
                partition=self.one.partition,
                epoch=1,
                expect_epoch=None,
                version=None,
                edits=None,
                edits_known=True,
                in_flight=frozenset(),
                writes=(RowWrite(key=self.one.key, outcome=outcome),),
            )
        )
        assert isinstance(answer, Applied)


@pytest_asyncio.fixture(loop_scope="session")
async def watched(storage: Storage, names: Names) -> Watched:
    client_id = names.client()
    made = Watched(storage, client_id)
    await storage.clients.create_client(
        Client(
            client_id=client_id,
            poller_quota=1,
            poller_ceiling=1,
            state=ClientState.SUSPENDED,
            settings=ClientSettings(event_feed=True),
            revision=1,
            created_at=UnixMillis(START),
        )
    )
    return made


@pytest.mark.parametrize("together", [False, True])
async def test_both_rows_are_placed(watched: Watched, together: bool) -> None:
    if together:
        assert await watched.writer.many([watched.one]) == [None]
    else:
        await watched.writer(watched.one)
    watch = deadline_row(watched.one)
    assert watch is not None
    found = await watched.storage.schedules.find_rows(watch.partition, [watch.key])
    assert decode_notice(found[watch.key].body) == DeadlineContent(
        client_id=watched.one.client_id, schedule_id=watched.one.schedule_id, by=watched.by
    )
    assert watched.one.key in await watched.storage.schedules.find_rows(watched.one.partition, [watched.one.key])


async def test_what_has_no_outcome_is_told_also_of_a_suspended_client(watched: Watched) -> None:
    await watched.writer(watched.one)
    assert await watched.look() is Looked.TOLD
    assert [event.type for event in watched.told] == ["schedule.overdue"]
    assert msgspec.json.decode(watched.told[0].data)["reason"] == "client-suspended"


@pytest.mark.parametrize(
    ("state", "after_ms", "looked"),
    [
        (State.DELIVERED, 0, Looked.MET),
        (State.DELIVERED, 1, Looked.TOLD),
        (State.CANCELLED, 1, Looked.MET),
        (State.FAILED, -1, Looked.TOLD),
        (State.SKIPPED, -1, Looked.TOLD),
    ],
)
async def test_ends_are_judged(watched: Watched, state: State, after_ms: int, looked: Looked) -> None:
    await watched.writer(watched.one)
    await watched.record(state, watched.by + after_ms)
    assert await watched.look() is looked
    assert len(watched.told) == (looked is Looked.TOLD)


async def test_a_schedule_that_is_not_there_is_looked_for_again(watched: Watched) -> None:
    assert await watched.look() is Looked.AGAIN
    assert await watched.look(again=True) is Looked.NO_SCHEDULE
    await watched.writer(watched.one)
    assert await watched.look(again=True) is Looked.TOLD


async def test_another_deadline_has_a_row_of_its_own(watched: Watched) -> None:
    await watched.writer(watched.one)
    later = encode_options(ScheduleOptions(succeed_within_seconds=90.0))
    content: Content = msgspec.structs.replace(watched.one.content, options=later, revision="1 x")
    header, _ = await watched.storage.schedules.read_rows(watched.one.partition, [watched.one.key], serial=True)
    revision = RowRevision(key=watched.one.key, content=content, revision="1 x", expect_revision=None)
    answer = await watched.writer.revise(watched.one.partition, revision, header=header)
    assert isinstance(answer, Applied)
    assert await watched.look() is Looked.MOVED
    watch = deadline_row(msgspec.structs.replace(watched.one, options=later))
    assert watch is not None
    assert watch.key in await watched.storage.schedules.find_rows(watch.partition, [watch.key])
    watched.by = UnixMillis(watched.one.due + 90_000)
    assert await watched.look() is Looked.TOLD
