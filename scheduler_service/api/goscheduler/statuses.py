"""What a schedule's state is called on GoScheduler's wire, and which states its words mean. Pure.

    here          there        why
    scheduled     SCHEDULED
    retrying      SCHEDULED    it is called again; there, three tries follow one another at once
    delivered     SUCCESS
    failed        FAILURE
    skipped       MISS         it was not called
    cancelled     no schedule  there, a deleted schedule is gone; a cron is DELETED

A schedule that is overdue stays SCHEDULED here, because it is called once it can be; there, it is MISS and never
called. ERROR, a status that GoScheduler never stores, means any, as every other word does.
"""

from collections.abc import Mapping
from typing import Final

from scheduler_service.domain.crons.row import CronState
from scheduler_service.domain.reconciliations import HANDLED, Action
from scheduler_service.domain.schedules import State

SCHEDULED: Final = "SCHEDULED"
DELETED: Final = "DELETED"
STATUS: Final[Mapping[State, str]] = {
    State.SCHEDULED: SCHEDULED,
    State.RETRYING: SCHEDULED,
    State.DELIVERED: "SUCCESS",
    State.FAILED: "FAILURE",
    State.SKIPPED: "MISS",
}
"""No schedule is shown in the state that is missing here."""
SHOWN: Final = tuple(STATUS)
ACTIONS: Final[Mapping[str, Action]] = {"reconcile": Action.REDELIVER, "delete": Action.CANCEL}
"""The bulk actions: to call again, and not to call."""


def status_of(state: str | None) -> str | None:
    """None: there is no such schedule any more."""
    return STATUS.get(State(state or State.SCHEDULED))


def status_of_cron(state: CronState) -> str:
    return DELETED if state is CronState.DELETED else SCHEDULED


def states_of(status: str) -> tuple[State, ...]:
    """The states that a status in a query means."""
    return tuple(state for state, word in STATUS.items() if word == status) or SHOWN


def states_to_handle(action: Action, status: str) -> tuple[State, ...]:
    """The states that a bulk action is to handle; empty: it can't handle any of that status."""
    return tuple(state for state in states_of(status) if state in HANDLED[action])
