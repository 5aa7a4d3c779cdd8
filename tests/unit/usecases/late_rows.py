"""The schedule writer and external updates over a store in memory, with an actor between two requests and lost
answers.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cql.connection import AnswerRows, Consistency, Item, Parameters
from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.conditional import Answer, Applied, Unknown
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from membership.ports import LeaseRow
from scheduler_service.domain.ids import MINUTE_MS, ClientId, UnixMillis
from scheduler_service.domain.retry_rows import retry_row_of
from scheduler_service.domain.schedules import Definition, Outcome, Row, RowWrite, State
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_writer import LATE_AFTER_MS, ScheduleWriter
from tests.contract.builders import MINUTE, START, commit, definition
from tests.support.api import ManualClock, RecordedHints, SeededRandomness

CLIENT = ClientId("shop")
END = START + MINUTE_MS
LATE = END + LATE_AFTER_MS + 1
"""The first instant at which a row of the minute no longer relies on the sweep."""
T1 = UnixMillis(LATE + 5 * MINUTE_MS)
T2 = UnixMillis(LATE + 10 * MINUTE_MS)

Act = Callable[[], Awaitable[object]]


class Meddled(InMemoryConnection):
    """`before` acts once before the next request of that name. `lost` updates are applied without an answer, `refused`
    ones are not applied. `written` records every write that took effect, `batches` the first name and size of plain
    batches, `longest` the bytes of bodies that one read returned.
    """

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, Act] = {}
        self.lost = 0
        self.refused = 0
        self.written: list[str] = []
        self.batches: list[tuple[str, int]] = []
        self.longest = 0

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[Any, ...]]:
        await self._meddle(name)
        rows = await super().select(name, parameters, serial=serial, consistency=consistency)
        bodies = sum(len(value) for values in rows for value in values if isinstance(value, bytes))
        self.longest = max(self.longest, bodies)
        return rows

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        await super().write(name, parameters, consistency=consistency)
        self.written.append(name)
        await self._meddle(name)

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        await super().write_batch(items, consistency=consistency)
        self.written += [name for name, _ in items]
        self.batches.append((items[0][0], len(items)))
        await self._meddle(items[0][0])

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        name = items[0][0]
        await self._meddle(name)
        if name.startswith("schedules.update") and self.refused:
            self.refused -= 1
            return Unknown("refused")
        answer = await super().conditional(items)
        if isinstance(answer, Applied):
            self.written.append(name)
        if name.startswith("schedules.update") and self.lost:
            self.lost -= 1
            return Unknown("lost")
        return answer

    async def _meddle(self, name: str) -> None:
        act = self.before.pop(name, None)
        if act is not None:
            await act()


class LateWorld:
    """The use cases; the clock begins where rows of the minute are late. A late retry row is one of T1 at T1 + two
    minutes or more.
    """

    def __init__(self) -> None:
        self.clock = ManualClock(LATE)
        self.hints = RecordedHints()
        self.connection = Meddled()
        randomness = SeededRandomness()
        # Pauses after unknown answers don't move the clock that the use cases see.
        self.storage = Storage.over(self.connection, clock=ManualClock(LATE), randomness=randomness)
        self.store = Storage.over(self.connection).schedules
        """The store of another process, which acts between a request of the use cases and its answer."""
        schedules = self.storage.schedules
        self.writer = ScheduleWriter(
            schedules=schedules,
            keys=self.storage.schedule_keys,
            leases=self.storage.leases,
            clock=self.clock,
            randomness=randomness,
            hints=self.hints,
        )
        self.elsewhere = ScheduleWriter(
            schedules=self.store,
            keys=self.storage.schedule_keys,
            leases=self.storage.leases,
            clock=self.clock,
            randomness=randomness,
            hints=self.hints,
        )
        """The schedule writer of that other process."""
        self.resolve = ResolveSchedule(schedules=schedules, writer=self.writer)
        self.cancel = CancelSchedules(
            schedules=schedules, writer=self.writer, clock=self.clock, has_feed=lambda client_id: False
        )

    async def lease(self, epoch: int) -> None:
        """A node holds the poller under `epoch`."""
        poller = PollerKey(CLIENT, 0)
        incarnation = NodeIncarnation(NodeId("node-1"), IncarnationNumber(7))
        await self.storage.leases.create_pollers([poller], watermark=MINUTE)
        free = await self.storage.leases.read_lease(poller)
        assert free is not None
        held = LeaseRow(poller=poller, owner=incarnation, epoch=epoch, watermark=MINUTE, lagging=False)
        assert isinstance(await self.storage.leases.write_lease(expected=free, new=held), Applied)

    async def record(self, of: Definition, *outcomes: Outcome, in_flight: bool = False, epoch: int = 1) -> None:
        """The owner's commit, the first of this partition: these outcomes, and whether the row is claimed."""
        answer = await self.store.commit(
            commit(
                of.partition,
                epoch=epoch,
                expect_epoch=None,
                in_flight=frozenset({of.schedule_id} if in_flight else ()),
                writes=tuple(RowWrite(key=of.key, outcome=outcome) for outcome in outcomes),
            )
        )
        assert isinstance(answer, Applied)

    async def retrying(self, of: Definition, at: UnixMillis) -> None:
        """Store `of`, attempted once, pointing to the retry row of `at`."""
        await self.store.insert(of)
        await self.record(of, pointer(at))

    async def row(self, of: Definition) -> Row | None:
        return (await self.store.read_rows(of.partition, [of.key]))[1].get(of.key)

    async def found(self, of: Definition) -> Row:
        row = await self.row(of)
        assert row is not None
        return row

    def rows(self) -> list[tuple[int, str | None]]:
        """Due, in ms after the end of the minute, and state of every row with a definition."""
        rows = self.connection.rows("schedules")
        return sorted((_instant(row["due"]) - END, row["state"]) for row in rows if row["created_at"] is not None)


def _instant(value: Any) -> int:
    assert isinstance(value, int)
    return value


def pointer(at: UnixMillis, attempts: int = 1) -> Outcome:
    return Outcome(state=State.RETRYING, attempts=attempts, next_attempt_at=at, last_error="timeout")


def ended(state: State) -> Outcome:
    return Outcome(state=state, attempts=1, finished_at=UnixMillis(END), last_status=200)


def original() -> Definition:
    return definition(CLIENT)


def first_retry_row() -> Definition:
    return retry_row_of(original(), at=T1, attempts=1)


def second_retry_row() -> Definition:
    return retry_row_of(original(), at=T2, attempts=2)
