"""Planted bugs around the protocol's core: each breaks one promise made to clients or operators."""

from typing import Any

import msgspec
import pytest

from membership.ports import Heartbeat
from poller_cluster.clients import ServedClients
from poller_cluster.clock_correction import ClockCorrection
from poller_cluster.dispatch import outcome
from poller_cluster.dispatch.due_clock import DueClock
from poller_cluster.dispatch.flows import FlowPlace, Flows
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.receivers import DUE
from poller_cluster.hand_over import HandOver
from poller_cluster.minute.rows import PendingRow
from poller_cluster.retention import Retention
from scheduler_service.domain.clients import Client, ClientSettings
from scheduler_service.domain.flows import Flow
from scheduler_service.domain.ids import ClientId, Partition, ScheduleId, UnixMillis
from scheduler_service.domain.schedules import Definition, Outcome, Page, PartitionHeader, Row, State
from scheduler_service.usecases.admission import JudgeClock
from scheduler_service.usecases.cancel_schedules import AlreadyFinished, Cancelled, CancelResult, CancelSchedules
from scheduler_service.usecases.complete_reschedule import CompleteReschedule
from scheduler_service.usecases.reschedule_schedule import RescheduleSchedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.simulation.plants import Plant


def clients_are_read_when_announced_alone(patch: pytest.MonkeyPatch) -> None:
    """A node skips its round through the catalogue, so a change whose announcement is lost never reaches it."""

    async def stay(self: ServedClients, now: float) -> None:
        return

    patch.setattr(ServedClients, "_go_round", stay)


def doubt_is_forgotten_when_deferred(patch: pytest.MonkeyPatch) -> None:
    """A row that is deferred because of its host loses the mark that it may have been called."""
    known = outcome.defer

    def forgetful(claim: Claim, *, at: UnixMillis, in_doubt: bool, reason: str) -> Outcome:
        return known(claim, at=at, in_doubt=False, reason=reason)

    patch.setattr(outcome, "defer", forgetful)


def reschedules_are_not_completed(patch: pytest.MonkeyPatch) -> None:
    """A process that dies between the cancel of the old row and the create of the new one leaves neither."""

    async def leave(self: CompleteReschedule, client_id: ClientId, new: ScheduleId, *, at: UnixMillis) -> None:
        return

    async def unnamed(self: CompleteReschedule, partition: Partition, row: Row) -> bool:
        return False

    patch.setattr(CompleteReschedule, "__call__", leave)
    patch.setattr(CompleteReschedule, "announced", unnamed)


def cancel_of_what_was_rescheduled_is_answered(patch: pytest.MonkeyPatch) -> None:
    """A rescheduled row is cancelled, so its cancel is answered, and its successor is called all the same."""

    async def ended(self: CancelSchedules, client_id: ClientId, row: Row) -> CancelResult:
        return Cancelled(row) if row.state == State.CANCELLED else AlreadyFinished(row)

    patch.setattr(CancelSchedules, "_ended", ended)


def updates_change_nothing(patch: pytest.MonkeyPatch) -> None:
    """An update is answered, in place or by a successor, and the old call is made."""

    def unchanged(self: RescheduleSchedule, client: Client, same: Definition, *asked: object) -> Definition:
        return same

    patch.setattr(RescheduleSchedule, "_updated", unchanged)


def successors_are_created_before_the_cancel(patch: pytest.MonkeyPatch) -> None:
    """A run that loses against the claim has made its successor already."""

    async def create(self: ScheduleWriter, definition: Definition) -> None:
        await self(definition)

    patch.setattr(ScheduleWriter, "announce", create)


def lateness_by_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    """A node that is ahead within the permitted second finds calls late that it starts on time."""
    patch.setattr(DueClock, "earliest", lambda self: self._clock.wall_ms())


def lateness_from_the_due_alone(patch: pytest.MonkeyPatch) -> None:
    """A row found late because its hint was lost counts as late."""
    init = PendingRow.__init__

    def always_due(self: PendingRow, row: Row, *, redelivery: bool, found_at: int = 0) -> None:
        init(self, row, redelivery=redelivery)

    patch.setattr(PendingRow, "__init__", always_due)


def creates_by_a_clock_never_compared(patch: pytest.MonkeyPatch) -> None:
    """An API process creates from its start, before it has compared clocks."""
    doubt = JudgeClock._doubt

    def trusting(self: JudgeClock) -> str | None:
        return None if self._compared.first_offset_ms is None else doubt(self)

    patch.setattr(JudgeClock, "_doubt", trusting)


def stranded_rows_stay_open(patch: pytest.MonkeyPatch) -> None:
    """A create that was never answered and took effect too late stays open, and keeps its partition."""

    async def unseen(self: ScheduleWriter, definition: Definition, header: PartitionHeader) -> bool:
        return False

    async def kept(self: Retention, partition: Partition, page: Page, settled: object) -> None:
        return

    patch.setattr(ScheduleWriter, "rescue", unseen)
    patch.setattr(Retention, "_expire", kept)


def steps_of_other_machines_are_unknown(patch: pytest.MonkeyPatch) -> None:
    """Nodes of one host confirm each other's step by clocks that were not stepped yet."""
    patch.setattr(Heartbeat, "step_ms", property(lambda self: 0))


def what_was_passed_early_stays_passed(patch: pytest.MonkeyPatch) -> None:
    """A node whose clock is set right keeps its pollers at the minutes they had reached."""

    def go_on(self: ClockCorrection, step_ms: int) -> None:
        return

    patch.setattr(ClockCorrection, "step_accepted", go_on)


def the_last_node_drains(patch: pytest.MonkeyPatch) -> None:
    """A drain is never refused."""

    async def alone_or_not(self: HandOver) -> None:
        return

    patch.setattr(HandOver, "_require_another", alone_or_not)


def flows_have_any_parallelism(patch: pytest.MonkeyPatch) -> None:
    """Rows of a flow key are claimed however many are claimed already."""
    headroom = FlowPlace.headroom

    def unlimited(self: FlowPlace[Any], now: float, part: float = DUE) -> int:
        return headroom(msgspec.structs.replace(self, parallelism=None), now, part)

    patch.setattr(FlowPlace, "headroom", unlimited)


def flows_start_whatever_is_claimed(patch: pytest.MonkeyPatch) -> None:
    """The rate of a flow key is looked at when its rows are claimed, not when they start."""
    patch.setattr(FlowPlace, "delay", lambda self, now: 0.0)


def flows_of_a_new_owner_are_fresh(patch: pytest.MonkeyPatch) -> None:
    """A new owner believes that no call of a flow key has started before it came."""
    place = Flows.place

    def fresh(self: Flows[Any], client_id: ClientId, flow: Flow, settings: ClientSettings, **known: float) -> Any:
        return place(self, client_id, flow, settings)

    patch.setattr(Flows, "place", fresh)


PROMISE_PLANTS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        clients_are_read_when_announced_alone,
        doubt_is_forgotten_when_deferred,
        reschedules_are_not_completed,
        cancel_of_what_was_rescheduled_is_answered,
        updates_change_nothing,
        successors_are_created_before_the_cancel,
        lateness_by_the_wall_clock,
        lateness_from_the_due_alone,
        creates_by_a_clock_never_compared,
        stranded_rows_stay_open,
        steps_of_other_machines_are_unknown,
        what_was_passed_early_stays_passed,
        the_last_node_drains,
        flows_have_any_parallelism,
        flows_start_whatever_is_claimed,
        flows_of_a_new_owner_are_fresh,
    )
}
