"""Plants that each break one rule. An explorer that misses them would prove nothing."""

from collections.abc import Mapping

import msgspec

from membership.conditional import Answer, Applied
from poller_cluster.minute.machine import PollerMinute
from scheduler_service.domain.clients import Client
from scheduler_service.domain.ids import RowKey, ScheduleId
from scheduler_service.domain.schedules import (
    Definition,
    ExternalUpdate,
    Outcome,
    OwnerCommit,
    Page,
    PartitionHeader,
    Row,
    SweptRow,
    WriteRejection,
)
from scheduler_service.usecases.reschedule_schedule import Chosen, RescheduleSchedule, Updated
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.simulation.explorer.scene import Plant
from tests.simulation.explorer.store import LossySchedules
from tests.simulation.explorer.tasks import Port


class _CommitIgnoresUpdates(LossySchedules):
    async def commit(self, commit: OwnerCommit) -> Answer[WriteRejection]:
        blind = msgspec.structs.replace(
            commit,
            edits_known=False,
            writes=tuple(msgspec.structs.replace(write, expect_state=None) for write in commit.writes),
        )
        return await super().commit(blind)


class _UpdateIgnoresVersion(LossySchedules):
    async def update(self, update: ExternalUpdate) -> Answer[WriteRejection]:
        return await super().update(msgspec.structs.replace(update, version_known=False))


class _PrefetchKept(PollerMinute):
    """A page read before an older owner's partition was opened is not read again."""

    def opened(self, answer: Answer[PartitionHeader]) -> None:
        if isinstance(answer, Applied):
            self._header.claim_epoch, self._open_from = self.epoch, None
        else:
            super().opened(answer)


class _FlightIgnored(PollerMinute):
    """A row that an older owner has in flight is treated as never sent."""

    def page_read(self, page: Page, *, trusted: bool) -> None:
        header = msgspec.structs.replace(page.header, in_flight=frozenset())
        super().page_read(msgspec.structs.replace(page, header=header), trusted=trusted)


class _NoLateRule(ScheduleWriter):
    async def _look_after(self, definition: Definition, *, in_doubt: bool = False) -> Definition | None:
        return None


class _LateRuleIgnoresFlight(ScheduleWriter):
    async def _look_after(self, definition: Definition, *, in_doubt: bool = False) -> Definition | None:
        blind = type(self)(
            schedules=_FlightHidden(self._schedules),  # type: ignore[arg-type]
            keys=Port("schedule_keys"),
            leases=self._leases,
            clock=self._clock,
            randomness=self._randomness,
            hints=self._hints,
        )
        return await super(_LateRuleIgnoresFlight, blind)._look_after(definition, in_doubt=in_doubt)


class _FlightHidden:
    def __init__(self, schedules: object) -> None:
        self._schedules = schedules

    def __getattr__(self, method: str) -> object:
        real = getattr(self._schedules, method)
        if method != "read_rows":
            return real

        async def read_rows(*arguments: object, **named: object) -> object:
            header, rows = await real(*arguments, **named)
            return msgspec.structs.replace(header, in_flight=frozenset()), rows

        return read_rows


class _LateRuleTrustsAnyClaim(ScheduleWriter):
    async def _owner_has_it(self, definition: Definition, header: PartitionHeader) -> bool:
        return True


class _UpdateIgnoresFlight(RescheduleSchedule):
    async def _read(self, client: Client, schedule_id: ScheduleId) -> tuple[PartitionHeader, Row] | None:
        known = await super()._read(client, schedule_id)
        return None if known is None else (msgspec.structs.replace(known[0], in_flight=frozenset()), known[1])


class _RepeatUnknown(RescheduleSchedule):
    """An update does not recognise what it has made."""

    async def _revise(self, client: Client, choice: Chosen, updated: Definition, made_by: str) -> Updated | None:
        return await super()._revise(client, choice, updated, "somebody")


class _RecheckedForOutcomes(PollerMinute):
    """Rows that are claimed or ended past an update are read again only for their outcomes."""

    def rechecked(self, rows: Mapping[RowKey, Row]) -> None:
        super().rechecked({key: msgspec.structs.replace(row, revision=None) for key, row in rows.items()})


class _HeldAsFirstRead(PollerMinute):
    """What is held stays as it was read first, whatever is read later."""

    def page_read(self, page: Page, *, trusted: bool) -> None:
        rows = [row for row in page.rows if row.key not in self.rows or row.state is not None]
        super().page_read(msgspec.structs.replace(page, rows=rows), trusted=trusted)

    def _is_stray(self, row: SweptRow) -> bool:
        return super()._is_stray(row._replace(revision=None))


class _RequeuedAsCreated(ScheduleWriter):
    async def _revised(self, definition: Definition, row: Row) -> Definition:
        return definition


class _RequeueIgnoresRevisions(ScheduleWriter):
    async def _edit_pending_row(
        self, definition: Definition, header: PartitionHeader, outcome: Outcome, **named: object
    ) -> bool:
        return await super()._edit_pending_row(definition, header, outcome)


PLANTS = {
    "a commit ignores external updates": Plant(owners_store=_CommitIgnoresUpdates),
    "an external update ignores the version": Plant(writers_store=_UpdateIgnoresVersion),
    "prefetch kept over an open": Plant(machine=_PrefetchKept),
    "recovery ignores what is in flight": Plant(machine=_FlightIgnored),
    "no late rule": Plant(writer=_NoLateRule),
    "late rule ignores what is in flight": Plant(writer=_LateRuleIgnoresFlight),
    "late rule trusts a stale claim": Plant(writer=_LateRuleTrustsAnyClaim),
    "an update ignores what is in flight": Plant(update=_UpdateIgnoresFlight),
    "an update does not know its own": Plant(update=_RepeatUnknown),
    "the claimed are rechecked for outcomes": Plant(machine=_RecheckedForOutcomes),
    "the deferred are rechecked for outcomes": Plant(machine=_RecheckedForOutcomes),
    "what is held stays as first read": Plant(machine=_HeldAsFirstRead),
    "a requeue has the content of the create": Plant(writer=_RequeuedAsCreated),
    "a requeue ignores revisions": Plant(writer=_RequeueIgnoresRevisions),
}
