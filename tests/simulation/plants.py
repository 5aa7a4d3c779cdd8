"""Planted bugs: each breaks one rule of the protocol in the running code."""

import dataclasses
from collections.abc import Callable

import msgspec
import pytest

from cql.members import CqlMemberStore
from cql.memory import connection as memory
from cql.memory.tables import Partition as Stored
from cql.memory.tables import Table
from cql.schedules import CqlScheduleStore
from membership import lease_table
from membership.conditional import APPLIED, Answer
from membership.identity import NodeIncarnation
from membership.lease import start_of
from membership.ports import IncarnationRecord, LeaseRow
from membership.trust_renewal import TrustRenewal
from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.runner import MinuteRun
from poller_cluster.minute.steps import Phase
from scheduler_service.domain.books import MinuteBalance, Tally
from scheduler_service.domain.ids import Partition, RowKey, minute_end
from scheduler_service.domain.retry_rows import definition_of, retry_row_of
from scheduler_service.domain.schedules import ExternalUpdate, Outcome, OwnerCommit, Row, State, WriteRejection
from scheduler_service.usecases.balance import CountMinute

Plant = Callable[[pytest.MonkeyPatch], None]


def no_epoch_check(patch: pytest.MonkeyPatch) -> None:
    """The store applies an owner commit or an open whatever epoch and version the partition has."""
    holds = memory._holds

    def without_epoch(table: Table, partition: Stored | None, write: memory._Bound) -> bool:
        columns = [column for column, _, _ in write.conditions]
        if "claim_epoch" in columns:
            left = [condition for condition in write.conditions if condition[0] not in ("claim_epoch", "version")]
            write = dataclasses.replace(write, conditions=left)
        return holds(table, partition, write)

    patch.setattr(memory, "_holds", without_epoch)


def no_trust_check(patch: pytest.MonkeyPatch) -> None:
    """An incarnation that was ever trusted stays trusted until it reads of its death."""
    trusted = TrustRenewal.trusted

    def ever(self: TrustRenewal) -> bool:
        if trusted(self):
            patch.setattr(self, "was_trusted", True, raising=False)
        return getattr(self, "was_trusted", False)

    patch.setattr(TrustRenewal, "trusted", ever)


def death_without_the_conditional_write(patch: pytest.MonkeyPatch) -> None:
    """An incarnation that looks dead is treated as dead without the conditional write that decides it."""

    async def declared(
        self: CqlMemberStore, incarnation: NodeIncarnation, *, renewals: int
    ) -> Answer[IncarnationRecord | None]:
        return APPLIED

    patch.setattr(CqlMemberStore, "declare_dead", declared)


def low_watermark_over_a_lagging_poller(patch: pytest.MonkeyPatch) -> None:
    """A taker believes the owner's low watermark although the poller lags."""

    def start(row: LeaseRow, *, owners_low_watermark: int | None) -> int:
        return (
            start_of(row, owners_low_watermark=None)
            if owners_low_watermark is None
            else max(row.watermark, owners_low_watermark)
        )

    patch.setattr(lease_table, "start_of", start)


def no_sweep(patch: pytest.MonkeyPatch) -> None:
    """Nothing is read again after the grace."""
    wants_page = PollerMinute._wants_page

    def never(self: PollerMinute, now: int) -> bool:
        was = self.phase
        wants = wants_page(self, now)
        if was is Phase.RUNNING and self.phase is Phase.SWEEPING:
            self._scan.begun = self._scan.done = True
            return False
        return wants

    patch.setattr(PollerMinute, "_wants_page", never)


def commit_without_updates(patch: pytest.MonkeyPatch) -> None:
    """Claims ignore an external update of the partition."""
    advance = CqlScheduleStore.commit

    async def blind(self: CqlScheduleStore, asked: OwnerCommit) -> Answer[WriteRejection]:
        return await advance(self, msgspec.structs.replace(asked, edits_known=False))

    patch.setattr(CqlScheduleStore, "commit", blind)


def update_without_version(patch: pytest.MonkeyPatch) -> None:
    """External updates ignore an owner commit."""
    edit = CqlScheduleStore.update

    async def blind(self: CqlScheduleStore, asked: ExternalUpdate) -> Answer[WriteRejection]:
        return await edit(self, msgspec.structs.replace(asked, version_known=False))

    patch.setattr(CqlScheduleStore, "update", blind)


def retry_row_before_pointer(patch: pytest.MonkeyPatch) -> None:
    """A retry row is placed before the owner commit that points to it."""
    ended = MinuteRun.attempt_ended

    def hasty(self: MinuteRun, key: RowKey, outcome: Outcome, *, now: int) -> None:
        entry = self.machine.rows.get(key)
        if outcome.state is not State.RETRYING or entry is None:
            ended(self, key, outcome, now=now)
            return
        assert outcome.next_attempt_at is not None
        definition = definition_of(self.machine.partition, entry.row)
        retry_row = retry_row_of(definition, at=outcome.next_attempt_at, attempts=outcome.attempts)

        async def place_then_record() -> None:
            await self._context.writer(retry_row)
            await self._context.runtime.clock.sleep(8.0)
            ended(self, key, outcome, now=now)

        self._context.runtime.spawn(place_then_record(), name="hasty copy")

    patch.setattr(MinuteRun, "attempt_ended", hasty)


def settle_before_the_grace(patch: pytest.MonkeyPatch) -> None:
    """A minute is swept half a minute before it ends."""
    init = PollerMinute.__init__

    def early(self: PollerMinute, **arguments: object) -> None:
        init(self, **arguments)  # type: ignore[arg-type]
        self._sweep_at = type(self._sweep_at)(minute_end(self.partition.minute) - 30_000)

    patch.setattr(PollerMinute, "__init__", early)


def balance_not_counted_again(patch: pytest.MonkeyPatch) -> None:
    """A stored balance is shown even if the minute has changed since."""
    patch.setattr(MinuteBalance, "holds", lambda balance, stamp: True)


def retry_rows_in_the_books(patch: pytest.MonkeyPatch) -> None:
    """A sweep counts retry rows in addition to their original calls."""
    add = Tally.add

    def every(self: Tally, row: Row, outcome: Outcome) -> None:
        add(self, msgspec.structs.replace(row, kind="call"), outcome)

    patch.setattr(Tally, "add", every)


def balance_added_to(patch: pytest.MonkeyPatch) -> None:
    """Carrying a retry row's end to its original subtracts one open call from the books instead of counting again."""

    async def book_one(self: CountMinute, partition: Partition, *, epoch: int) -> None:
        stamp = await self._schedules.read_stamp(partition)
        for stored in await self._balances.read(partition.client_id, first=partition.minute, last=partition.minute):
            if stored.partition == partition:
                booked = msgspec.structs.replace(
                    stored,
                    open=max(stored.open - 1, 0),
                    delivered=stored.delivered + 1,
                    epoch=epoch,
                    version=stamp.version,
                    edits=stamp.edits,
                )
                await self._balances.write(booked)

    patch.setattr(CountMinute, "__call__", book_one)


def balance_of_a_lower_epoch_wins(patch: pytest.MonkeyPatch) -> None:
    """The store takes a balance although the stored one has a higher epoch."""
    holds = memory._holds

    def over_anything(table: Table, partition: Stored | None, write: memory._Bound) -> bool:
        return table.definition.name == "minute_balance" or holds(table, partition, write)

    patch.setattr(memory, "_holds", over_anything)


def balance_of_a_minute_that_is_not_over(patch: pytest.MonkeyPatch) -> None:
    """Counts of a minute are stored while rows may still be created without changing its stamp."""
    patch.setattr(CountMinute, "may_store", lambda self, minute: True)


PLANTS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        no_epoch_check,
        no_trust_check,
        death_without_the_conditional_write,
        low_watermark_over_a_lagging_poller,
        no_sweep,
        commit_without_updates,
        update_without_version,
        retry_row_before_pointer,
        settle_before_the_grace,
        balance_not_counted_again,
        retry_rows_in_the_books,
        balance_added_to,
        balance_of_a_lower_epoch_wins,
        balance_of_a_minute_that_is_not_over,
    )
}
