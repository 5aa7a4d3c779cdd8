"""One poller minute's machine over a store in memory, driven step by step."""

from collections.abc import Iterable
from typing import Any

from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.conditional import Answer, Unknown
from poller_cluster.dispatch.job import Claim
from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.steps import (
    CheckRows,
    OpenPartition,
    ReadHinted,
    ReadPage,
    ReadStrays,
    RecheckRows,
    Step,
    Stop,
    SweepPage,
    Wait,
    WriteBalance,
    WriteCommit,
)
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.ids import (
    ClientId,
    Minute,
    Partition,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
    compose_schedule_id,
    key_of,
    minute_end,
    minute_of,
    minute_start,
    partition_of,
)
from scheduler_service.domain.retry_rows import retry_row_of
from scheduler_service.domain.schedules import (
    Definition,
    ExternalUpdate,
    Outcome,
    OwnerCommit,
    PartitionHeader,
    Row,
    RowWrite,
    State,
)
from tests.support.admit_all import AdmitAll

CLIENT = ClientId("shop")
POLLER = PollerId(3)
MINUTE = Minute(29_916_667)
START = minute_start(MINUTE)
END = minute_end(MINUTE)
SWEEP = UnixMillis(END + 10_000)
PARTITION = Partition(CLIENT, POLLER, MINUTE)
DELIVERED = Outcome(state=State.DELIVERED, attempts=1, first_attempt_at=START, finished_at=START, last_status=200)


def definition(seconds: float = 30.0, *, tail: int = 1, minute: int = MINUTE, poller: int = POLLER) -> Definition:
    """A schedule due `seconds` into the minute."""
    due = UnixMillis(minute_start(minute) + round(seconds * 1000))
    return Definition(
        client_id=CLIENT,
        poller_id=PollerId(poller),
        due=due,
        schedule_id=compose_schedule_id(due=due, poller_id=poller, tail=tail),
        method="POST",
        url="http://receiver.test/",
        headers="[]",
        body=b"",
        options="{}",
        created_at=UnixMillis(START - 600_000),
    )


def retry_row(original: Definition, at: int, *, attempts: int = 1) -> Definition:
    return retry_row_of(original, at=UnixMillis(at), attempts=attempts)


def retrying(at: int, *, attempts: int = 1) -> Outcome:
    return Outcome(state=State.RETRYING, attempts=attempts, next_attempt_at=UnixMillis(at))


class MinuteBench:
    """`now` and `headroom` are the machine's inputs. `step` does the machine's steps; `Wait` and `Stop` do nothing."""

    def __init__(
        self,
        *,
        storage: Storage | None = None,
        epoch: int = 1,
        page_rows: int = 1000,
        settings: MinuteSettings | None = None,
        minute: int = MINUTE,
    ) -> None:
        self.storage = storage or Storage.over(InMemoryConnection())
        self.schedules = self.storage.schedules
        self.partition = Partition(CLIENT, POLLER, Minute(minute))
        self.machine = PollerMinute(
            partition=self.partition, epoch=epoch, settings=settings or MinuteSettings(), admission=AdmitAll()
        )
        self.now: int = minute_start(minute) - 5_000
        self.headroom = 100
        self.trusted = True
        self.page_rows = page_rows
        self.claims: list[Claim] = []
        self.balances = 0

    def peek(self) -> Step:
        return self.machine.step(self.now, self.headroom)

    async def step(self, *, answer: Answer[Any] | None = None, effect: bool = True) -> Step:
        """Do the next step. `answer` replaces the answer to a write; without `effect` the write is not done."""
        machine, store, step = self.machine, self.schedules, self.peek()
        match step:
            case ReadPage(after=after, whole=whole):
                read = store.read_page if whole else store.read_to_call
                page = await read(self.partition, after=after, limit=self.page_rows)
                machine.page_read(page, trusted=self.trusted)
            case SweepPage(after=after):
                swept = await store.sweep_page(self.partition, after=after, limit=self.page_rows)
                machine.page_swept(swept, trusted=self.trusted)
            case ReadStrays(keys=keys):
                rows = await store.find_rows(self.partition, keys, serial=True)
                machine.strays_read(keys, rows, trusted=self.trusted)
            case ReadHinted(keys=keys):
                rows = await store.find_rows(self.partition, keys)
                machine.hinted_read(keys, rows, trusted=self.trusted)
            case RecheckRows(keys=keys):
                rows = await store.find_rows(self.partition, keys, serial=True)
                machine.rechecked(rows)
            case CheckRows(rows=rows):
                machine.rows_checked(rows, await self._originals(rows), {})
            case OpenPartition(expect_epoch=expect):
                opened: Answer[Any] = Unknown("not done")
                if effect:
                    opened = await store.open(self.partition, epoch=machine.epoch, expect_epoch=expect)
                machine.opened(answer or opened)
            case WriteCommit(commit=commit):
                committed: Answer[Any] = await store.commit(commit) if effect else Unknown("not done")
                machine.committed(answer or committed)
            case WriteBalance():
                self.balances += 1
                machine.settled()
            case Wait() | Stop():
                pass
        self.claims.extend(machine.take_claims())
        return step

    async def run(self, *, most: int = 50) -> list[str]:
        """Do steps until none is left at this instant; returns their names."""
        names: list[str] = []
        while not isinstance(step := await self.step(), Wait | Stop):
            names.append(type(step).__name__)
            assert len(names) < most, names
        return names

    async def at(self, now: int) -> list[str]:
        self.now = now
        return await self.run()

    def ended(self, claim: Claim, outcome: Outcome = DELIVERED) -> None:
        self.machine.attempt_ended(claim.row.key, outcome, now=self.now)

    async def _originals(self, retry_rows: Iterable[Row]) -> dict[ScheduleId, Row]:
        found: dict[ScheduleId, Row] = {}
        for one in retry_rows:
            key = key_of(one.schedule_id)
            _, rows = await self.schedules.read_rows(partition_of(CLIENT, one.schedule_id), [key])
            found.update((row.schedule_id, row) for row in rows.values())
        return found

    # The store as other processes see and change it.

    async def create(self, *definitions: Definition) -> None:
        for one in definitions:
            await self.schedules.insert(one)

    async def edit(self, *writes: RowWrite, tail: int = 1, version_known: bool = True) -> Answer[Any]:
        """Make an external update, decided by the stored values."""
        header = await self.header()
        return await self.schedules.update(
            ExternalUpdate(
                partition=self.partition,
                edits=compose_schedule_id(due=START, poller_id=0, tail=tail),
                version=header.version,
                version_known=version_known,
                writes=writes,
            )
        )

    async def cancel(self, one: Definition, *, tail: int = 1) -> Answer[Any]:
        outcome = Outcome(state=State.CANCELLED, finished_at=UnixMillis(self.now))
        return await self.edit(RowWrite(key=one.key, outcome=outcome, expect_state=State.SCHEDULED), tail=tail)

    async def as_owner(
        self, *, epoch: int, in_flight: Iterable[Definition] = (), writes: Iterable[RowWrite] = ()
    ) -> None:
        """Another incarnation's owner commit."""
        header = await self.header()
        commit = OwnerCommit(
            partition=self.partition,
            epoch=epoch,
            expect_epoch=header.claim_epoch,
            version=header.version,
            edits=header.edits,
            edits_known=True,
            in_flight=frozenset(one.schedule_id for one in in_flight),
            writes=tuple(writes),
        )
        await self.schedules.commit(commit)

    async def header(self) -> PartitionHeader:
        return (await self.schedules.read_page(self.partition)).header

    async def row(self, one: Definition) -> Row:
        _, rows = await self.schedules.read_rows(one.partition, [one.key])
        return rows[one.key]

    async def state(self, one: Definition) -> str | None:
        return (await self.row(one)).state

    def keys(self) -> list[RowKey]:
        return [claim.row.key for claim in self.claims]


__all__ = ["CLIENT", "END", "MINUTE", "PARTITION", "POLLER", "START", "SWEEP", "MinuteBench", "minute_of"]
