"""Planted bugs of reconciliations: each breaks one rule of their protocol in the running code."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from cql.memory import connection as memory
from cql.memory.tables import Partition as Stored
from cql.memory.tables import Table
from cql.reconciliations import CqlReconciliationStore
from scheduler_service.domain import reconciliations
from scheduler_service.domain.ids import MAX_DUE
from scheduler_service.domain.reconciliations import ReconciledSchedule, Reconciliation, ReviewedRow
from scheduler_service.usecases import reconcile
from scheduler_service.usecases.redeliver import Terms
from tests.simulation.plants import Plant


def no_redelivered_at_check(patch: pytest.MonkeyPatch) -> None:
    """A failed row is redelivered even if it failed again after an earlier redelivery."""

    def never(reconciliation: Reconciliation, row: ReviewedRow) -> bool:
        return False

    patch.setattr(reconcile, "handled", never)
    patch.setattr(reconciliations, "handled", never)
    patch.setattr(reconcile, "Terms", lambda **terms: Terms(**{**terms, "since": MAX_DUE}))


def _blind(patch: pytest.MonkeyPatch, name: str) -> None:
    holds: Any = memory._holds

    def blind(table: Table, partition: Stored | None, write: memory._Bound) -> bool:
        if table.definition.name == name:
            write = dataclasses.replace(write, conditions=[])
        return bool(holds(table, partition, write))

    patch.setattr(memory, "_holds", blind)


def progress_without_version(patch: pytest.MonkeyPatch) -> None:
    """The store accepts progress whatever version it was based on."""
    _blind(patch, "reconciliations")


def slots_for_everybody(patch: pytest.MonkeyPatch) -> None:
    """The store gives a slot to the last one that requests it."""
    _blind(patch, "reconciliation_slots")


def pointers_are_not_completed(patch: pytest.MonkeyPatch) -> None:
    """A row retrying for this reconciliation is treated as done."""
    patch.setattr(reconcile, "_is_done", reconciliations.handled)


def what_was_done_before_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    """A slice counts only what it does itself, so the work of an earlier try of it is lost."""

    def untouched(reconciliation: Reconciliation, row: ReviewedRow) -> bool:
        return row.original and row.shown_state in reconciliation.states

    patch.setattr(reconcile, "concerned", untouched)


def progress_before_what_was_done(patch: pytest.MonkeyPatch) -> None:
    """What was done to schedules is kept after the position has passed them."""
    keep, write = CqlReconciliationStore.write_reconciled, CqlReconciliationStore.write
    held: list[tuple[Reconciliation, Sequence[ReconciledSchedule]]] = []

    async def later(
        self: CqlReconciliationStore, reconciliation: Reconciliation, handled: Sequence[ReconciledSchedule]
    ) -> None:
        held.append((reconciliation, handled))

    async def first(
        self: CqlReconciliationStore, reconciliation: Reconciliation, *, expected_version: int | None
    ) -> Any:
        answer = await write(self, reconciliation, expected_version=expected_version)
        while held:
            await keep(self, *held.pop())
        return answer

    patch.setattr(CqlReconciliationStore, "write_reconciled", later)
    patch.setattr(CqlReconciliationStore, "write", first)


RECONCILIATION_PLANTS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        no_redelivered_at_check,
        progress_without_version,
        slots_for_everybody,
        pointers_are_not_completed,
        what_was_done_before_is_not_counted,
        progress_before_what_was_done,
    )
}
