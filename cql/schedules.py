"""The `schedules` table: inserts of definitions, reads of pages and rows, owner commits and external updates."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from cql.connection import Connection, Item
from cql.gathering import Gathering
from cql.group_commit import GroupCommit
from cql.metrics import PauseCounts, UpdateCounts
from cql.partition_turns import WHOLE_ROWS_PER_READ, PartitionTurns
from cql.schedule_rows import (
    commit_bytes,
    commit_items,
    content_of,
    counted_row_of,
    header_of,
    lean_row_of,
    partition_parameters,
    rejected_header,
    reviewed_row_of,
    row_of,
    row_to_call_of,
    swept_row_of,
    update_bytes,
    update_items,
    write_rejection,
)
from cql.settings import StorageSettings
from membership.conditional import Answer, Applied, Rejected
from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.books import NO_STAMP, CountPage, Stamp
from scheduler_service.domain.clients import ReadConsistency, WriteConsistency
from scheduler_service.domain.errors import ContentTooLarge
from scheduler_service.domain.ids import (
    HOUR_MS,
    ClientId,
    Minute,
    Partition,
    PollerId,
    RowKey,
    hour_of,
    minute_of,
    minute_start,
)
from scheduler_service.domain.minute_loads import LoadCounts
from scheduler_service.domain.ports.schedules import Answered
from scheduler_service.domain.reconciliations import ReviewPage
from scheduler_service.domain.schedules import (
    NO_CONTENT,
    NO_HEADER,
    Content,
    Definition,
    ExternalUpdate,
    OwnerCommit,
    Page,
    PartitionHeader,
    Row,
    State,
    SweptPage,
    Unfinished,
    WriteRejection,
)
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.randomness import Randomness

T = TypeVar("T")

KEYS_PER_READ = 100
HOURS_AT_ONCE = 100
READ_REPEATS = 5
"""How often rows and header are read while commits come between the two reads."""
ITEMS_PER_BATCH = 65_535
"""The protocol counts them in 16 bits."""

_NEVER_CALLED = (State.CANCELLED, State.SKIPPED)
_FIRST_PAGE = "schedules.read_first_page"
_NEXT_PAGE = "schedules.read_next_page"
_FIRST_LEAN_PAGE = "schedules.read_first_lean_page"
_NEXT_LEAN_PAGE = "schedules.read_next_lean_page"
_FIRST_PAGE_TO_CALL = "schedules.read_first_page_to_call"
_NEXT_PAGE_TO_CALL = "schedules.read_next_page_to_call"
_FIRST_SWEPT_PAGE = "schedules.sweep_first_page"
_NEXT_SWEPT_PAGE = "schedules.sweep_next_page"
_ROWS = "schedules.read_rows"
_LEAN_ROWS = "schedules.read_lean_rows"
_FROM_THE_START = frozenset((_FIRST_PAGE, _FIRST_LEAN_PAGE, _FIRST_PAGE_TO_CALL, _FIRST_SWEPT_PAGE))


class CqlScheduleStore:
    """`domain.ports.ScheduleStore` over a connection."""

    def __init__(
        self,
        connection: Connection,
        *,
        commits: Mapping[WriteConsistency, GroupCommit],
        settings: StorageSettings,
        tasks: Tasks,
        clock: Clock,
        randomness: Randomness,
        loads: LoadCounts | None = None,
        external_updates: UpdateCounts | None = None,
        pauses: PauseCounts | None = None,
        packs: Callable[[], bool] = lambda: False,
    ) -> None:
        """`commits` take the inserts of each consistency; `loads` counts, together with them, the rows that
        are to be called; `external_updates` counts schedules that such updates end; `tasks` runs the requests that
        several callers share. `packs()`: whether every running program can read packed cells (`packed`)."""
        self._connection = connection
        self._turns = PartitionTurns(
            update=self._send_update,
            read=self._read_serially,
            tasks=tasks,
            clock=clock,
            randomness=randomness,
            pauses=pauses or PauseCounts(),
        )
        self._reads = Gathering(self._read_gathered, tasks=tasks, most=WHOLE_ROWS_PER_READ, in_flight=2)
        self._external_updates = external_updates or UpdateCounts()
        self._commits = commits
        self._loads = loads
        self._max_write_bytes = settings.max_write_bytes
        self.packs = packs

    async def insert(self, definition: Definition, *, consistency: WriteConsistency = "LOCAL_QUORUM") -> None:
        await self._commits[consistency].insert(definition, packs=self.packs())
        if definition.created_at is None:
            # Not created yet: the insert that creates it is counted.
            self._place(definition.partition, -1)

    def begin_insert(
        self, definition: Definition, answered: Answered, *, consistency: WriteConsistency = "LOCAL_QUORUM"
    ) -> Callable[[], None]:
        return self._commits[consistency].begin(definition, answered, packs=self.packs())

    async def insert_many(
        self, definitions: Sequence[Definition], *, consistency: WriteConsistency = "LOCAL_QUORUM"
    ) -> Sequence[MinutehandError | None]:
        return await self._commits[consistency].insert_many(definitions, packs=self.packs())

    async def read_page(
        self,
        partition: Partition,
        *,
        after: RowKey | None = None,
        limit: int = 1000,
        lean: bool = False,
        consistency: ReadConsistency = "LOCAL_QUORUM",
    ) -> Page:
        first, following = (_FIRST_LEAN_PAGE, _NEXT_LEAN_PAGE) if lean else (_FIRST_PAGE, _NEXT_PAGE)
        name, behind = (first, ()) if after is None else (following, after)
        parameters = (*partition_parameters(partition), *behind, limit)
        decode = lean_row_of if lean else row_of
        header, rows = await self._read_together(
            partition, name, parameters, decode, serial=False, consistency=consistency
        )
        return Page(header, rows, len(rows) == limit)

    async def read_to_call(self, partition: Partition, *, after: RowKey | None = None, limit: int = 1000) -> Page:
        names = _FIRST_PAGE_TO_CALL, _NEXT_PAGE_TO_CALL
        header, rows = await self._owners_page(partition, names, row_to_call_of, after=after, limit=limit)
        return Page(header, rows, len(rows) == limit)

    async def sweep_page(self, partition: Partition, *, after: RowKey | None = None, limit: int = 1000) -> SweptPage:
        names = _FIRST_SWEPT_PAGE, _NEXT_SWEPT_PAGE
        header, rows = await self._owners_page(partition, names, swept_row_of, after=after, limit=limit)
        return SweptPage(header, rows, len(rows) == limit)

    async def _owners_page(
        self,
        partition: Partition,
        names: tuple[str, str],
        decode: Callable[[Sequence[Any]], T | None],
        *,
        after: RowKey | None,
        limit: int,
    ) -> tuple[PartitionHeader, list[T]]:
        """The first statement reads the header too; the other continues after a key, where the header is not needed."""
        first, following = names
        keys = partition_parameters(partition)
        if after is None:
            return await self._read_together(
                partition, first, (*keys, limit), decode, serial=False, consistency="LOCAL_QUORUM"
            )
        answer = await self._connection.select(following, (*keys, *after, limit))
        return NO_HEADER, [row for values in answer if (row := decode(values)) is not None]

    async def read_rows(
        self,
        partition: Partition,
        keys: Iterable[RowKey],
        *,
        serial: bool = False,
        lean: bool = False,
        consistency: ReadConsistency = "LOCAL_QUORUM",
    ) -> tuple[PartitionHeader, dict[RowKey, Row]]:
        wanted = list(dict.fromkeys(keys))
        if not serial and len(wanted) == 1 and not lean and consistency == "LOCAL_QUORUM":
            header, row = await self._reads.ask(partition, wanted[0])
            return header, {} if row is None else {row.key: row}
        if not serial:
            return await self._read_rows(partition, wanted, serial=False, lean=lean, consistency=consistency)
        if len(wanted) == 1:
            header, row = await self._turns.read(partition, wanted[0], lean=lean)
            return header, {} if row is None else {row.key: row}
        return await self._turns.read_alone(partition, lambda: self._read_serially(partition, wanted, lean))

    async def _read_gathered(
        self, partition: Partition, keys: Sequence[RowKey]
    ) -> Sequence[tuple[PartitionHeader, Row | None]]:
        wanted = list(dict.fromkeys(keys))
        header, rows = await self._read_rows(partition, wanted, serial=False, lean=False, consistency="LOCAL_QUORUM")
        return [(header, rows.get(key)) for key in keys]

    async def _read_serially(
        self, partition: Partition, keys: Sequence[RowKey], lean: bool
    ) -> tuple[PartitionHeader, dict[RowKey, Row]]:
        return await self._read_rows(partition, keys, serial=True, lean=lean, consistency="LOCAL_QUORUM")

    async def _read_rows(
        self, partition: Partition, wanted: Sequence[RowKey], *, serial: bool, lean: bool, consistency: ReadConsistency
    ) -> tuple[PartitionHeader, dict[RowKey, Row]]:
        if not wanted:
            return await self._read_header(partition, serial=serial, consistency=consistency), {}
        if len(wanted) == 1:
            # `read_row` answers the header too, in one request; content of a single row is short enough to be read.
            header, found = await self._read_row(partition, wanted[0], serial=serial, consistency=consistency)
            return header, {key: row.filled(NO_CONTENT) for key, row in found.items()} if lean else found
        parameters = (*partition_parameters(partition), wanted[:KEYS_PER_READ])
        name, decode = (_LEAN_ROWS, lean_row_of) if lean else (_ROWS, row_of)
        header, rows = await self._read_together(
            partition, name, parameters, decode, serial=serial, consistency=consistency
        )
        others = await self._find(partition, wanted[KEYS_PER_READ:], serial=serial, lean=lean, consistency=consistency)
        return header, {row.key: row for row in rows} | others

    async def find_rows(
        self, partition: Partition, keys: Iterable[RowKey], *, serial: bool = False, lean: bool = False
    ) -> dict[RowKey, Row]:
        wanted = list(dict.fromkeys(keys))

        async def find() -> dict[RowKey, Row]:
            return await self._find(partition, wanted, serial=serial, lean=lean, consistency="LOCAL_QUORUM")

        return await (self._turns.read_alone(partition, find) if serial else find())

    async def _find(
        self,
        partition: Partition,
        wanted: Sequence[RowKey],
        *,
        serial: bool,
        consistency: ReadConsistency,
        lean: bool,
    ) -> dict[RowKey, Row]:
        name, decode = (_LEAN_ROWS, lean_row_of) if lean else (_ROWS, row_of)
        found: dict[RowKey, Row] = {}
        for start in range(0, len(wanted), KEYS_PER_READ):
            parameters = (*partition_parameters(partition), wanted[start : start + KEYS_PER_READ])
            answer = await self._connection.select(name, parameters, serial=serial, consistency=consistency)
            found.update((row.key, row) for values in answer if (row := decode(values)) is not None)
        return found

    async def read_content(
        self, partition: Partition, keys: Iterable[RowKey], *, consistency: ReadConsistency = "LOCAL_QUORUM"
    ) -> dict[RowKey, Content]:
        wanted = list(dict.fromkeys(keys))
        found: dict[RowKey, Content] = {}
        for start in range(0, len(wanted), KEYS_PER_READ):
            parameters = (*partition_parameters(partition), wanted[start : start + KEYS_PER_READ])
            answer = await self._connection.select("schedules.read_content", parameters, consistency=consistency)
            found.update(
                (RowKey(due, id_), content_of(columns, packed, revised, revision))
                for due, id_, *columns, packed, revised, revision in answer
                if due is not None
            )
        return found

    async def open(self, partition: Partition, *, epoch: int, expect_epoch: int | None) -> Answer[PartitionHeader]:
        item: Item = ("schedules.open", (epoch, *partition_parameters(partition), expect_epoch))
        answer = await self._turns.write_alone(partition, lambda: self._connection.conditional((item,)))
        return Rejected(rejected_header(answer.current)) if isinstance(answer, Rejected) else answer

    async def commit(self, commit: OwnerCommit) -> Answer[WriteRejection]:
        self._check_size(commit_bytes(commit), 1 + len(commit.writes) + len(commit.retry_rows))
        if any(retry_row.partition != commit.partition for retry_row in commit.retry_rows):
            raise ValueError("a commit inserts retry rows into its own partition only")
        items = commit_items(commit, packs=self.packs())
        answer = await self._turns.write_alone(commit.partition, lambda: self._connection.conditional(items))
        return Rejected(write_rejection(answer.current, commit.writes)) if isinstance(answer, Rejected) else answer

    async def update(self, update: ExternalUpdate) -> Answer[WriteRejection]:
        self._check_size(update_bytes(update), 1 + len(update.writes) + len(update.revisions))
        if not (update.writes or update.revisions) or any(write.expect_state is None for write in update.writes):
            raise ValueError("an external update writes rows, and tests the state of each")
        answer = await self._turns.update(update)
        if isinstance(answer, Applied):
            self._external_updates.applied(update)
            self._place(
                update.partition,
                -sum(
                    write.outcome.state in _NEVER_CALLED and write.expect_state is State.SCHEDULED
                    for write in update.writes
                ),
            )
        return answer

    def _place(self, partition: Partition, rows: int) -> None:
        if rows and self._loads is not None:
            self._loads.placed(partition.client_id, partition.minute, rows)

    async def _send_update(self, update: ExternalUpdate) -> Answer[WriteRejection]:
        answer = await self._connection.conditional(update_items(update))
        if isinstance(answer, Rejected):
            return Rejected(write_rejection(answer.current, update.writes, update.revisions))
        return answer

    async def occupy(self, partition: Partition) -> None:
        client_id, poller_id, minute = partition_parameters(partition)
        index = (client_id, hour_of(partition.minute) * HOUR_MS, minute, poller_id)
        await self._connection.write("occupied_minutes.insert", index)

    async def mark_ordered(self, partition: Partition) -> None:
        await self._connection.write("ordered_minutes.insert", partition_parameters(partition))

    async def ordered_after(self, client_id: ClientId, poller_id: PollerId, minute: Minute) -> Sequence[Minute]:
        rows = await self._connection.select("ordered_minutes.read", (client_id, poller_id, minute_start(minute)))
        return [minute_of(at) for (at,) in rows]

    async def occupied(
        self, client_id: ClientId, *, first: Minute, last: Minute, consistency: ReadConsistency = "LOCAL_QUORUM"
    ) -> Mapping[Minute, Sequence[PollerId]]:
        hours = range(hour_of(first), hour_of(last) + 1) if first <= last else range(0)
        bounds = (minute_start(first), minute_start(last))
        answers = await concurrently(
            lambda hour: self._connection.select(
                "occupied_minutes.read", (client_id, hour * HOUR_MS, *bounds), consistency=consistency
            ),
            hours,
        )
        found: dict[Minute, list[PollerId]] = {}
        for minute, poller_id in (row for rows in answers for row in rows):
            found.setdefault(minute_of(minute), []).append(poller_id)
        return found

    async def occupied_over(
        self, client_id: ClientId, *, first: Minute, last: Minute
    ) -> Mapping[Minute, Sequence[PollerId]]:
        hours = [hour * HOUR_MS for hour in range(hour_of(first), hour_of(last) + 1)]
        if len(hours) > HOURS_AT_ONCE:
            raise ValueError(f"at most {HOURS_AT_ONCE} hours are read with one request")
        found: dict[Minute, list[PollerId]] = {}
        for at, poller_id in await self._connection.select("occupied_minutes.read_hours", (client_id, hours)):
            if first <= (minute := minute_of(at)) <= last:
                found.setdefault(minute, []).append(poller_id)
        return found

    async def count_unfinished(self, partition: Partition, *, due_until: int, limit: int) -> Unfinished:
        parameters = (*partition_parameters(partition), limit)
        rows = await self._connection.select("schedules.read_states", parameters)
        due = [(created_at, state) for at, created_at, state in rows if at is not None and at <= due_until]
        unfinished = sum(1 for created_at, state in due if state is None and created_at is not None)
        return Unfinished(unfinished, len(due), len(due) == limit)

    async def count_page(self, partition: Partition, *, after: RowKey | None = None, limit: int = 1000) -> CountPage:
        parameters = partition_parameters(partition)
        if after is None:
            answer = await self._connection.select("schedules.count_first_page", (*parameters, limit))
        else:
            answer = await self._connection.select("schedules.count_next_page", (*parameters, *after, limit))
        stamp = Stamp(*answer[0][:2]) if answer else NO_STAMP
        rows = [row for values in answer if (row := counted_row_of(values)) is not None]
        return CountPage(stamp, rows, len(rows) == limit)

    async def review_page(self, partition: Partition, *, after: RowKey | None = None, limit: int = 500) -> ReviewPage:
        parameters = partition_parameters(partition)
        if after is None:
            answer = await self._connection.select("schedules.review_first_page", (*parameters, limit))
        else:
            answer = await self._connection.select("schedules.review_next_page", (*parameters, *after, limit))
        rows = [reviewed_row_of(values) for values in answer if values[0] is not None]
        return ReviewPage(rows, len(rows) == limit)

    async def read_stamp(self, partition: Partition) -> Stamp:
        for values in await self._connection.select("schedules.read_stamp", partition_parameters(partition)):
            return Stamp(*values)
        return NO_STAMP

    async def delete_partition(self, partition: Partition) -> None:
        client_id, poller_id, minute = partition_parameters(partition)
        index = (client_id, hour_of(partition.minute) * HOUR_MS, minute, poller_id)
        # The index row goes last: an interrupted deletion is found through it and repeated.
        for name, parameters in (
            ("schedules.delete_partition", (client_id, poller_id, minute)),
            ("attempts.delete_partition", (client_id, poller_id, minute)),
            ("ordered_minutes.delete", (client_id, poller_id, minute)),
            ("minute_balance.delete", index),
            ("occupied_minutes.delete", index),
        ):
            await self._connection.write(name, parameters)

    async def _read_row(
        self, partition: Partition, key: RowKey, *, serial: bool, consistency: ReadConsistency
    ) -> tuple[PartitionHeader, dict[RowKey, Row]]:
        parameters = (*partition_parameters(partition), *key)
        for values in await self._connection.select(
            "schedules.read_row", parameters, serial=serial, consistency=consistency
        ):
            epoch, version, edits = values[:3]
            if (row := row_of(values)) is not None:
                return header_of(epoch, version, edits, values[-1]), {row.key: row}
        return await self._read_header(partition, serial=serial, consistency=consistency), {}

    async def _read_together(
        self,
        partition: Partition,
        name: str,
        parameters: tuple[Any, ...],
        decode: Callable[[Sequence[Any]], T | None],
        *,
        serial: bool,
        consistency: ReadConsistency,
    ) -> tuple[PartitionHeader, list[T]]:
        """Rows and header as of one moment: in_flight changes only with the version, so two reads with equal versions
        can be joined."""
        for _ in range(READ_REPEATS):
            answer = await self._connection.select(name, parameters, serial=serial, consistency=consistency)
            rows = [row for values in answer if (row := decode(values)) is not None]
            if not answer:
                # A read of the whole partition shows the header even where there are no rows; idle pollers end here.
                if name in _FROM_THE_START:
                    return NO_HEADER, rows
                return await self._read_header(partition, serial=serial, consistency=consistency), rows
            epoch, version, edits = answer[0][:3]
            if version is None:
                return header_of(epoch, version, edits, None), rows
            header = await self._read_header(partition, serial=serial, consistency=consistency)
            if (header.claim_epoch, header.version) == (epoch, version):
                return PartitionHeader(epoch, version, header.in_flight, edits), rows
            # Reads at LOCAL_ONE may have asked two replicas, which may differ for long.
            consistency = "LOCAL_QUORUM"
        raise StoreUnavailable("A partition changed during each of several reads; try again.")

    async def _read_header(
        self, partition: Partition, *, serial: bool, consistency: ReadConsistency
    ) -> PartitionHeader:
        parameters = partition_parameters(partition)
        for epoch, version, edits, in_flight in await self._connection.select(
            "schedules.read_header", parameters, serial=serial, consistency=consistency
        ):
            return header_of(epoch, version, edits, in_flight)
        return NO_HEADER

    def _check_size(self, size: int, items: int) -> None:
        if size > self._max_write_bytes or items > ITEMS_PER_BATCH:
            raise ContentTooLarge(
                f"A conditional write of {items} statements and about {size} bytes is over the bound of "
                f"{self._max_write_bytes} bytes; split it, or raise max_write_bytes."
            )
