"""Plants that each break one rule. An explorer that misses them would prove nothing."""

import msgspec

from membership.conditional import Answer, Applied
from poller_cluster.minute.machine import PollerMinute
from scheduler_service.domain.schedules import (
    Definition,
    ExternalUpdate,
    OwnerCommit,
    Page,
    PartitionHeader,
    WriteRejection,
)
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


PLANTS = {
    "a commit ignores external updates": Plant(owners_store=_CommitIgnoresUpdates),
    "an external update ignores the version": Plant(writers_store=_UpdateIgnoresVersion),
    "prefetch kept over an open": Plant(machine=_PrefetchKept),
    "recovery ignores what is in flight": Plant(machine=_FlightIgnored),
    "no late rule": Plant(writer=_NoLateRule),
    "late rule ignores what is in flight": Plant(writer=_LateRuleIgnoresFlight),
    "late rule trusts a stale claim": Plant(writer=_LateRuleTrustsAnyClaim),
}
