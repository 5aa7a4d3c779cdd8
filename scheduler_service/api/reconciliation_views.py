"""Reconciliations as they are shown, and what their listing goes on with."""

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta

from scheduler_service.api.http.paging import Cursor, Listing, seal
from scheduler_service.api.schemas import Instant, ScheduleStateName
from scheduler_service.domain.ids import ClientId, minute_start
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.reconciliations import (
    Action,
    Reconciliation,
    ReconciliationId,
    ReconciliationState,
    Seen,
)

MAX_RECONCILIATIONS: Final = 100


class ReconciliationProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the window was looked at: all minutes before `through`, and a part of that one."""

    minutes_done: int
    minutes_total: int
    through: Instant


class ReconciliationView(msgspec.Struct, frozen=True, kw_only=True):
    """One action on all schedules due from `from` to before `to` that are in one of `states`, each looked at once.

    `seen` counts those that it was about so far, by the state in which they were found; `outcomes` the same ones by
    what became of them. counted: nothing was to be done. redelivered, cancelled: so it was, by this or by others since.
    open: it had been redelivered otherwise and has not ended. in-flight: a poller had claimed it. changed: it had left
    its state. gone: it is not kept any more. refused: it can't be handled.
    """

    reconciliation_id: UUID
    client_id: str
    action: Annotated[str, Meta(extra_json_schema={"enum": list(Action)})]
    start: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")
    states: list[ScheduleStateName]
    state: Annotated[str, Meta(extra_json_schema={"enum": list(ReconciliationState)})]
    progress: ReconciliationProgress
    seen: dict[str, int]
    outcomes: Annotated[dict[str, int], Meta(extra_json_schema={"propertyNames": {"enum": list(Seen)}})]
    created_at: Instant
    created_by: str
    updated_at: Instant


class _Cursor(Cursor, frozen=True, tag="reconciliations-1"):
    before: UUID


_LISTING: Final = Listing(_Cursor, most=MAX_RECONCILIATIONS)
RECONCILIATION_PARAMETERS: Final = _LISTING.parameters


class ReconciliationsAsked(NamedTuple):
    """Reconciliations older than `before` (None: from the newest on), and how many at most."""

    before: ReconciliationId | None
    limit: int


def read_reconciliation_listing(client_id: ClientId, query: Mapping[str, str]) -> ReconciliationsAsked:
    """Raises Invalid."""
    cursor, limit = _LISTING.read(client_id, query)
    return ReconciliationsAsked(None if cursor is None else ReconciliationId(cursor.before), limit)


def reconciliation_cursor(client_id: ClientId, before: ReconciliationId | None) -> str | None:
    return None if before is None else seal(client_id, _Cursor(before))


def reconciliation_view(reconciliation: Reconciliation) -> ReconciliationView:
    progress = reconciliation.progress
    through = min(minute_start(progress.minute), reconciliation.end)
    return ReconciliationView(
        reconciliation_id=reconciliation.reconciliation_id,
        client_id=reconciliation.client_id,
        action=reconciliation.action.value,
        start=format_instant(reconciliation.start),
        end=format_instant(reconciliation.end),
        states=[state.value for state in reconciliation.states],
        state=reconciliation.state.value,
        progress=ReconciliationProgress(
            minutes_done=reconciliation.minutes_done,
            minutes_total=reconciliation.minutes_total,
            through=format_instant(through),
        ),
        seen={state.value: count for state, count in progress.seen.items()},
        outcomes={outcome.value: count for outcome, count in progress.outcomes.items()},
        created_at=format_instant(reconciliation.created_at),
        created_by=reconciliation.created_by,
        updated_at=format_instant(reconciliation.updated_at),
    )
