"""Random operations on one partition: the in-memory tables give exactly the answers of the real server."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from cql.memory.connection import InMemoryConnection
from cql.migrate import migrate
from cql.storage import Storage, open_storage
from membership.conditional import Unknown
from scheduler_service.domain.ids import ClientId, Minute, UnixMillis
from scheduler_service.domain.schedules import Definition, Kind, Outcome, PartitionHeader, RowWrite, State
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from tests.contract.builders import MINUTE, START, commit, definition, partition, update, write
from tests.contract.conftest import real_settings
from tests.support.cassandra import SuiteCassandra

pytestmark = pytest.mark.cassandra

ROWS = 3
EPOCHS = st.sampled_from([1, 2])
MAYBE_EPOCHS = st.sampled_from([None, 1, 2])
VERSIONS = st.sampled_from([None, 1, 2])
EDITS = st.sampled_from([None, UUID(int=1), UUID(int=2)])
INDEXES = st.integers(0, ROWS)
INSTANTS = st.sampled_from([UnixMillis(START + 30_000), UnixMillis(START + 40_000)])
DELIVERED = Outcome(
    state=State.DELIVERED,
    attempts=1,
    first_attempt_at=UnixMillis(START),
    finished_at=UnixMillis(START + 5),
    last_status=204,
    fired_by="node-1@7",
    fired_epoch=1,
)
OUTCOMES = st.just(DELIVERED) | st.builds(
    Outcome,
    state=st.sampled_from([state for state in State if state is not State.SCHEDULED]),
    attempts=st.integers(0, 2),
    next_attempt_at=st.none() | INSTANTS,
    finished_at=st.none() | INSTANTS,
    last_error=st.none() | st.just("timeout"),
    rescheduled_to=st.none() | st.just(UUID(int=9)),
)


@dataclass(frozen=True)
class Write:
    """`expect_read`: test the state that the row has, instead of `expect`."""

    index: int
    outcome: Outcome
    expect: State | None
    expect_read: bool
    expect_next: UnixMillis | None


WRITES = st.builds(
    Write,
    index=INDEXES,
    outcome=OUTCOMES,
    expect=st.none() | st.sampled_from(State),
    expect_read=st.booleans(),
    expect_next=st.none() | INSTANTS,
)
UNIQUE_WRITES = st.lists(WRITES, max_size=3, unique_by=lambda one: one.index)
OPERATIONS = st.one_of(
    st.tuples(st.just("insert"), INDEXES, st.booleans()),
    st.tuples(st.just("open"), EPOCHS, MAYBE_EPOCHS, st.booleans()),
    st.tuples(
        st.just("advance"),
        st.tuples(EPOCHS, MAYBE_EPOCHS, VERSIONS, EDITS),
        st.booleans(),
        st.booleans(),
        st.sets(INDEXES, max_size=2),
        UNIQUE_WRITES,
        st.booleans(),
        st.booleans(),
    ),
    st.tuples(st.just("edit"), EDITS, VERSIONS, st.booleans(), st.booleans(), UNIQUE_WRITES),
    st.tuples(st.just("page"), st.none() | INDEXES, st.integers(1, 4), st.booleans()),
    st.tuples(st.just("to call"), st.none() | INDEXES, st.integers(1, 4)),
    st.tuples(st.just("swept"), st.none() | INDEXES, st.integers(1, 4)),
    st.tuples(st.just("rows"), st.sets(INDEXES), st.booleans()),
    st.tuples(st.just("found"), st.sets(INDEXES), st.booleans()),
    st.tuples(st.just("content"), st.sets(INDEXES)),
    st.tuples(st.just("delete")),
)


class Pair:
    """Both stores, one client, and the translation of operations into calls."""

    def __init__(self, real: Storage, client: ClientId) -> None:
        self.memory = Storage.over(InMemoryConnection())
        self.real = real
        self.where = partition(client)
        self.rows = [definition(client, offset=number, tail=number) for number in range(ROWS)]
        retry_row = definition(
            client, offset=20_000, schedule_id=self.rows[0].schedule_id, kind=Kind.RETRY_ROW, attempt_base=1
        )
        self.rows.append(retry_row)

    async def step(self, operation: tuple[Any, ...]) -> None:
        page = await self.memory.schedules.read_page(self.where)
        states = {row.key: None if row.state is None else State(row.state) for row in page.rows}
        answers = [await self.call(storage, operation, page.header, states) for storage in (self.memory, self.real)]
        if isinstance(answers[1], Unknown):
            reject()
        assert answers[0] == answers[1], operation

    async def call(
        self, storage: Storage, operation: tuple[Any, ...], now: PartitionHeader, states: dict[Any, Any]
    ) -> object:
        schedules = storage.schedules
        match operation:
            case ("insert", index, packs):
                schedules.packs = lambda: packs
                await schedules.insert(self.rows[index])
                return None
            case ("open", epoch, expect, as_read):
                expected = now.claim_epoch if as_read else expect
                return await schedules.open(self.where, epoch=epoch, expect_epoch=expected)
            case (
                "advance",
                (epoch, expect, version, edits),
                as_read,
                edits_known,
                claimed,
                writes,
                with_retry_row,
                packs,
            ):
                schedules.packs = lambda: packs
                if as_read:
                    expect, version, edits = now.claim_epoch, now.version, now.edits
                change = commit(
                    self.where,
                    epoch=epoch,
                    expect_epoch=expect,
                    version=version,
                    edits=edits,
                    edits_known=edits_known,
                    in_flight=frozenset(self.rows[index].schedule_id for index in claimed),
                    writes=tuple(self.write(one, states) for one in writes),
                    retry_rows=(self.rows[ROWS],) if with_retry_row else (),
                )
                return await schedules.commit(change)
            case ("edit", edits, version, as_read, known, writes):
                tested = [one for one in (self.write(each, states) for each in writes) if one.expect_state]
                if not tested or edits is None:
                    return None
                version = now.version if as_read else version
                return await schedules.update(update(self.where, edits.int, *tested, version=version, known=known))
            case ("page", after, limit, lean):
                key = None if after is None else self.rows[after].key
                return await schedules.read_page(self.where, after=key, limit=limit, lean=lean)
            case ("to call", after, limit):
                key = None if after is None else self.rows[after].key
                return await schedules.read_to_call(self.where, after=key, limit=limit)
            case ("swept", after, limit):
                key = None if after is None else self.rows[after].key
                return await schedules.sweep_page(self.where, after=key, limit=limit)
            case ("rows", indexes, serial):
                return await schedules.read_rows(self.where, [self.rows[one].key for one in indexes], serial=serial)
            case ("found", indexes, serial):
                keys = [self.rows[one].key for one in indexes]
                return await schedules.find_rows(self.where, keys, serial=serial, lean=True)
            case ("content", indexes):
                return await schedules.read_content(self.where, [self.rows[one].key for one in indexes])
            case ("delete",):
                await schedules.delete_partition(self.where)
                return None
            case _:
                raise AssertionError(operation)

    def write(self, one: Write, states: dict[Any, Any]) -> RowWrite:
        row: Definition = self.rows[one.index]
        expect = one.expect
        if one.expect_read:
            expect = states.get(row.key) or State.SCHEDULED
        # A test of the instant needs a test of the state.
        return write(row, one.outcome, expect=expect, expect_next=None if expect is None else one.expect_next)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def real(cassandra: SuiteCassandra, runner: asyncio.Runner) -> Iterator[Storage]:
    randomness = SystemRandomness()
    configuration = real_settings(cassandra, f"same_{randomness.bits(32):08x}")
    runner.run(migrate(configuration, clock=SystemClock(), randomness=randomness))
    storage = runner.run(open_storage(configuration))
    yield storage
    runner.run(storage.close())


@settings(max_examples=60)
@given(operations=st.lists(OPERATIONS, min_size=4, max_size=25))
def test_both_answer_alike(real: Storage, runner: asyncio.Runner, operations: list[tuple[Any, ...]]) -> None:
    client = ClientId(f"c{SystemRandomness().bits(64):016x}")

    async def run() -> None:
        pair = Pair(real, client)
        for operation in operations:
            await pair.step(operation)
            await pair.step(("page", None, 10, False))
        occupied = [
            await storage.schedules.occupied(client, first=Minute(MINUTE), last=Minute(MINUTE))
            for storage in (pair.memory, pair.real)
        ]
        # An index row may survive its partition's delete and rewrite, because writers remember that they wrote it.
        assert bool(occupied[0]) == bool(occupied[1])
        await pair.memory.close()

    runner.run(run())
