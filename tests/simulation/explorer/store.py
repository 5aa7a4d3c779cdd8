"""The store of an exploration: the real stores over the in-memory connection, whose tables can be saved and loaded."""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from cql.books import CqlAttemptStore, CqlBalanceStore, CqlDeadLetterStore
from cql.connection import Item
from cql.gathering import Gathering
from cql.group_commit import GroupCommit
from cql.leases import CqlLeaseStore
from cql.memory.connection import InMemoryConnection
from cql.memory.tables import Key, Row
from cql.memory.tables import Partition as Stored
from cql.metrics import PauseCounts
from cql.partition_turns import PartitionTurns, RowRead
from cql.schedule_rows import definition_item
from cql.schedules import CqlScheduleStore
from cql.settings import StorageSettings
from membership.conditional import Answer, Unknown
from scheduler_service.domain.clients import WriteConsistency
from scheduler_service.domain.ids import ClientId, Minute, Partition, hour_of, minute_start
from scheduler_service.domain.schedules import (
    Definition,
    ExternalUpdate,
    Kind,
    OwnerCommit,
    PartitionHeader,
    WriteRejection,
)

Tables = dict[str, dict[Key, Stored]]


class Directly(GroupCommit):
    """Inserts at once: the index row, then the row. Insert batching is not explored."""

    def __init__(self, memory: InMemoryConnection) -> None:
        self._memory = memory

    async def insert(self, definition: Definition, *, packs: bool = False) -> None:
        client_id, poller_id, minute = definition.partition
        index = (client_id, minute_start(hour_of(minute) * 60), minute_start(minute), poller_id)
        items: Sequence[Item] = [
            ("occupied_minutes.insert", index),
            # `packs` would depend on what was explored before.
            definition_item(definition, packs=definition.kind is Kind.RETRY_ROW),
        ]
        for item in items:
            await self._memory.write_batch([item])


class AtOnce(PartitionTurns):
    """Sends requests at once. Request batching is not explored, and the explorer chooses what waits."""

    async def _queued(
        self, partition: Partition, work: ExternalUpdate | RowRead | Callable[[], Awaitable[Any]], *, reads: bool
    ) -> Any:
        if isinstance(work, ExternalUpdate):
            return await self._send_update(work)
        if isinstance(work, RowRead):
            header, rows = await self._read(partition, [work.key], work.lean)
            return header, rows.get(work.key)
        return await work()


class NotGathered(Gathering[Any, Any, Any]):
    """Sends each request by itself, at once."""

    async def ask(self, place: Any, asked: Any) -> Any:
        (answer,) = await self._send(place, [asked])
        return answer


class LossySchedules(CqlScheduleStore):
    """`lose`: the next conditional write is applied and its answer lost."""

    lose = False

    def __init__(self, memory: InMemoryConnection) -> None:
        directly = Directly(memory)
        # Storage turns need these, and are replaced below.
        nobody: dict[str, Any] = dict.fromkeys(("tasks", "clock", "randomness"))
        commits: dict[WriteConsistency, GroupCommit] = {"LOCAL_QUORUM": directly, "EACH_QUORUM": directly}
        super().__init__(memory, commits=commits, settings=StorageSettings(), **nobody)
        self._reads = NotGathered(self._read_gathered, tasks=nobody["tasks"], most=1)
        self._turns = AtOnce(update=self._send_update, read=self._read_serially, pauses=PauseCounts(), **nobody)

    async def open(self, partition: Partition, *, epoch: int, expect_epoch: int | None) -> Answer[PartitionHeader]:
        return self._heard(await super().open(partition, epoch=epoch, expect_epoch=expect_epoch))

    async def commit(self, commit: OwnerCommit) -> Answer[WriteRejection]:
        # Rows have both forms: each incarnation writes one of them.
        self.packs = lambda: commit.epoch == 1
        return self._heard(await super().commit(commit))

    async def update(self, update: ExternalUpdate) -> Answer[WriteRejection]:
        return self._heard(await super().update(update))

    def _heard(self, answer: Answer[Any]) -> Answer[Any]:
        lost, self.lose = self.lose, False
        return Unknown("lost by the explorer") if lost else answer


class Store:
    """One store for all states of an exploration: `load` the tables of a state, run, `save` them.

    Owners write through `schedules`, all others through `writers`.
    """

    def __init__(self, *, owners: type[LossySchedules], writers: type[LossySchedules]) -> None:
        self.memory = InMemoryConnection()
        self.schedules, self.writers = owners(self.memory), writers(self.memory)
        self.leases = CqlLeaseStore(self.memory)
        self.balances = CqlBalanceStore(self.memory)
        self.dead_letters = CqlDeadLetterStore(self.memory)
        self.attempts = CqlAttemptStore(self.memory)

    def occupied(self, client_id: ClientId, minute: Minute) -> bool:
        """Whether the index lists this minute."""
        hour, start = minute_start(hour_of(minute) * 60), minute_start(minute)
        return bool(now(self.memory.select("occupied_minutes.read", (client_id, hour, start, start))))

    def load(self, tables: Tables) -> None:
        for name, table in self.memory.tables.items():
            table.partitions = {key: _copied(partition) for key, partition in tables.get(name, {}).items()}

    def save(self) -> Tables:
        return {name: table.partitions for name, table in self.memory.tables.items() if table.partitions}


def now(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, to its end."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("this was to end without waiting")


def fingerprint(tables: Tables) -> int:
    return hash(
        tuple(
            (
                name,
                key,
                repr(partition.statics),
                tuple((clustering, repr(row.cells)) for clustering, row in sorted(partition.rows.items())),
            )
            for name in sorted(tables)
            for key, partition in sorted(tables[name].items())
        )
    )


def _copied(partition: Stored) -> Stored:
    copy = Stored(0)
    copy.statics = list(partition.statics)
    copy.keys = list(partition.keys)
    for key, row in partition.rows.items():
        twin = copy.rows[key] = Row(0)
        twin.cells, twin.marker, twin.stamps = list(row.cells), row.marker, dict(row.stamps)
    return copy
