"""Planted bugs in the code that drives crons: each breaks one rule of its protocol."""

import dataclasses
from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec
import pytest

from cql.memory import connection as memory
from cql.memory.tables import Partition as Stored
from cql.memory.tables import Table
from poller_cluster.crons import fire_guard
from poller_cluster.crons.fire_guard import CronFireGuard
from poller_cluster.crons.overdue_scan import OverdueScan
from poller_cluster.minute import admission
from poller_cluster.minute.ordering import OrderingKeys
from scheduler_service.domain import retry_rows
from scheduler_service.domain.crons import expansion
from scheduler_service.domain.crons.expansion import Child, Expansion, offset_ms
from scheduler_service.domain.crons.row import Cron, CronRun, CronStanding
from scheduler_service.domain.ids import ClientId, CronId, ScheduleId, UnixMillis, derived_schedule_id
from scheduler_service.domain.schedules import Outcome, Row, State
from scheduler_service.runtime.concurrently import Turn
from scheduler_service.usecases import backfill_crons, crons, expand_crons, pause_failing_crons, trigger_crons
from scheduler_service.usecases.backfill_crons import BackfillCron, Backfilled
from scheduler_service.usecases.expand_crons import ExpandCrons
from scheduler_service.usecases.pause_failing_crons import PauseFailingCrons
from scheduler_service.usecases.redeliver import Terms
from tests.simulation.plants import Plant


def no_revision_check_at_claim_time(patch: pytest.MonkeyPatch) -> None:
    async def stands(self: CronFireGuard, fire: object) -> bool:
        return True

    patch.setattr(CronFireGuard, "_stands", stands)


def every_older_fire_is_cancelled_at_claim_time(patch: pytest.MonkeyPatch) -> None:
    """Fires that were due before the change, and those that were claimed and given back, are cancelled as well."""

    async def stands(self: CronFireGuard, fire: tuple[Cron, Any, object]) -> bool:
        cron, child, _ = fire
        return bool(cron.revision <= child.revision)

    patch.setattr(CronFireGuard, "_stands", stands)


def older_children_are_not_withdrawn(patch: pytest.MonkeyPatch) -> None:
    async def withdraw(self: ExpandCrons, run: CronRun) -> bool:
        return False

    patch.setattr(ExpandCrons, "_withdraw", withdraw)


def kept_instants_are_placed_again(patch: pytest.MonkeyPatch) -> None:
    plan = expansion.plan

    def forgetful(cron: Cron, **arguments: Any) -> Expansion:
        return plan(cron, **{**arguments, "kept": ()})

    patch.setattr(expand_crons, "plan", forgetful)


def kept_instants_beyond_the_window_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    plan = expansion.plan

    def near_sighted(cron: Cron, *, now: int, kept: Sequence[int] = (), **arguments: Any) -> Expansion:
        last = now + expansion.WINDOW_MS - offset_ms(cron)
        return plan(cron, now=now, kept=[instant for instant in kept if instant <= last], **arguments)

    patch.setattr(expand_crons, "plan", near_sighted)


def advance_without_its_condition(patch: pytest.MonkeyPatch) -> None:
    holds = memory._holds

    def blind(table: Table, partition: Stored | None, write: memory._Bound) -> bool:
        if any(column == "expanded_through" for column, _, _ in write.conditions):
            write = dataclasses.replace(write, conditions=[])
        return holds(table, partition, write)

    patch.setattr(memory, "_holds", blind)


def advance_before_the_children(patch: pytest.MonkeyPatch) -> None:
    carry_out = ExpandCrons._carry_out

    async def hasty(self: ExpandCrons, client_id: ClientId, expansions: Sequence[Expansion], turn: Turn) -> None:
        await self._advance(client_id, expansions, turn)
        await carry_out(self, client_id, expansions, turn)

    patch.setattr(ExpandCrons, "_carry_out", hasty)


def child_ids_without_the_revision(patch: pytest.MonkeyPatch) -> None:
    def child_id(cron: Cron, nominal: int) -> ScheduleId:
        name = f"fire {cron.client_id} {cron.cron_id} {nominal}"
        return derived_schedule_id(due=nominal + offset_ms(cron), poller_id=cron.poller_id, name=name)

    patch.setattr(expansion, "child_id", child_id)


def no_wake_up(patch: pytest.MonkeyPatch) -> None:
    plan = expansion.plan

    def silent(cron: Cron, **arguments: Any) -> Expansion:
        return dataclasses.replace(plan(cron, **arguments), wake_up=None)

    patch.setattr(expand_crons, "plan", silent)


def catch_up_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expansion, "_catch_up_seconds", lambda cron: 1e9)


def backfill_under_an_id_of_its_own(patch: pytest.MonkeyPatch) -> None:
    missed_fire, turns = expansion.missed_fire, count()

    def another(cron: Cron, nominal: int) -> Child:
        child = missed_fire(cron, nominal)
        due, poller_id = child.definition.due, cron.poller_id
        schedule_id = derived_schedule_id(due=due, poller_id=poller_id, name=f"backfill {next(turns)}")
        definition = msgspec.structs.replace(child.definition, schedule_id=schedule_id)
        run = msgspec.structs.replace(child.run, schedule_id=schedule_id)
        return dataclasses.replace(child, definition=definition, run=run)

    patch.setattr(backfill_crons, "missed_fire", another)


def backfill_calls_what_was_made(patch: pytest.MonkeyPatch) -> None:
    """It neither looks at the state of a run, nor makes it a condition."""

    async def judged(self: BackfillCron, cron: Cron, nominal: UnixMillis, run: CronRun | None) -> Backfilled:
        schedule_id = expansion.child_id(cron, nominal) if run is None else run.schedule_id
        return Backfilled(nominal_due=nominal, schedule_id=schedule_id, at=nominal)

    def terms(**asked: Any) -> Terms:
        return Terms(**{**asked, "states": tuple(State), "since": asked["at"]})

    patch.setattr(BackfillCron, "_judged", judged)
    patch.setattr(backfill_crons, "Terms", terms)


def overlap_ignored(patch: pytest.MonkeyPatch) -> None:
    async def is_under_way(self: CronFireGuard, fire: object) -> None:
        return

    patch.setattr(CronFireGuard, "_is_under_way", is_under_way)
    patch.setattr(OrderingKeys, "ahead", lambda self, key, schedule_id: 0)
    patch.setattr(fire_guard, "_policy_of", lambda row: None)


def a_run_that_started_holds_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OrderingKeys, "started", lambda self, key, schedule_id, at, calling=False: None)


def a_claimed_run_holds_nothing(patch: pytest.MonkeyPatch) -> None:
    started = OrderingKeys.started

    def only_found(self: OrderingKeys, key: str, schedule_id: ScheduleId, at: int, *, calling: bool = False) -> None:
        if not calling:
            started(self, key, schedule_id, at)

    patch.setattr(OrderingKeys, "started", only_found)


def a_run_holds_only_while_it_is_called(patch: pytest.MonkeyPatch) -> None:
    recorded = OrderingKeys.recorded

    def forgetful(self: OrderingKeys, row: Row, outcome: Outcome) -> None:
        recorded(self, row, outcome)
        self._holders.pop(row.ordering_key or "", None)

    patch.setattr(OrderingKeys, "recorded", forgetful)


def redelivered_runs_have_no_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(retry_rows, "is_run_key", lambda key: False)


def triggered_runs_have_no_key(patch: pytest.MonkeyPatch) -> None:
    run = trigger_crons._run

    def keyless(cron: Cron, at: UnixMillis) -> trigger_crons.ChosenRun:
        chosen = run(cron, at)
        return chosen._replace(definition=msgspec.structs.replace(chosen.definition, ordering_key=None))

    patch.setattr(trigger_crons, "_run", keyless)


def buffer_one_lets_all_wait(patch: pytest.MonkeyPatch) -> None:
    ahead = OrderingKeys.ahead
    patch.setattr(OrderingKeys, "ahead", lambda self, key, schedule_id: min(ahead(self, key, schedule_id), 1))


def cancel_other_cancels_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fire_guard, "_policy_of", lambda row: None)
    patch.setattr(admission, "Recheck", lambda: None)


def failures_are_judged_only_when_recorded(patch: pytest.MonkeyPatch) -> None:
    async def judge(self: PauseFailingCrons, standings: object) -> list[CronId]:
        return []

    judged = PauseFailingCrons.judge

    async def asked(self: PauseFailingCrons, client_id: ClientId, cron_ids: Sequence[CronId]) -> None:
        await judged(self, (await self._crons.read_standings(client_id, cron_ids)).values())

    patch.setattr(PauseFailingCrons, "judge", judge)
    patch.setattr(PauseFailingCrons, "__call__", asked)


def failures_are_judged_only_before_a_claim(patch: pytest.MonkeyPatch) -> None:
    async def run_failed(self: CronFireGuard, definition: object) -> None:
        return

    patch.setattr(CronFireGuard, "run_failed", run_failed)


def failures_before_a_resume_count(patch: pytest.MonkeyPatch) -> None:
    series = PauseFailingCrons._series

    class Forgetful(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    async def of_all(self: PauseFailingCrons, standing: CronStanding) -> object:
        return await series(self, msgspec.structs.replace(standing, revision=Forgetful(standing.revision)))

    patch.setattr(PauseFailingCrons, "_series", of_all)


def what_was_late_stands_after_a_pause_on_failure(patch: pytest.MonkeyPatch) -> None:
    paused = crons.paused_by_failures

    def by_request(cron: Cron, **arguments: Any) -> Cron:
        made = paused(cron, **arguments)
        assert made.pause is not None
        return msgspec.structs.replace(made, pause=msgspec.structs.replace(made.pause, by="request"))

    patch.setattr(pause_failing_crons, "paused_by_failures", by_request)


def overdue_scan_finds_nothing(patch: pytest.MonkeyPatch) -> None:
    async def scan(self: OverdueScan, client_id: ClientId) -> int:
        return 0

    patch.setattr(OverdueScan, "scan", scan)


CRON_PLANTS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        no_revision_check_at_claim_time,
        every_older_fire_is_cancelled_at_claim_time,
        older_children_are_not_withdrawn,
        kept_instants_are_placed_again,
        kept_instants_beyond_the_window_are_forgotten,
        advance_without_its_condition,
        advance_before_the_children,
        child_ids_without_the_revision,
        no_wake_up,
        catch_up_ignored,
        backfill_under_an_id_of_its_own,
        backfill_calls_what_was_made,
        overlap_ignored,
        a_run_that_started_holds_nothing,
        a_claimed_run_holds_nothing,
        a_run_holds_only_while_it_is_called,
        redelivered_runs_have_no_key,
        triggered_runs_have_no_key,
        buffer_one_lets_all_wait,
        cancel_other_cancels_nothing,
        failures_are_judged_only_when_recorded,
        failures_are_judged_only_before_a_claim,
        failures_before_a_resume_count,
        what_was_late_stands_after_a_pause_on_failure,
        overdue_scan_finds_nothing,
    )
}
