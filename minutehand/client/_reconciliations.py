"""Reconciliations: one action on all schedules of a window. Requests and answers."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from minutehand.client._calls import Operation, client_path, given, instant, keyed, number, segment
from minutehand.client._filters import ContentFilter
from minutehand.client._models import Page


class ReconciliationProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the window is done: all minutes before `through`."""

    minutes_done: int
    minutes_total: int
    through: datetime


class ReconciledHour(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the schedules seen are due in one hour."""

    hour: datetime
    schedules: int


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """`action` (report, redeliver, cancel, skip) on all schedules due from `start` until before `end` in one of
    `states` that match all `filters`. `state`: running, finished or stopped. `seen` counts the matching schedules so
    far by the state they were in, `outcomes` by what was done about them. Of a report, and of one that skips, `hours`
    has the same ones by the hour of their due, and `samples` the first of them."""

    reconciliation_id: str
    client_id: str
    action: str
    start: datetime = msgspec.field(name="from")
    end: datetime = msgspec.field(name="to")
    states: tuple[str, ...]
    filters: Mapping[str, Any] = {}
    state: str
    progress: ReconciliationProgress
    seen: Mapping[str, int]
    outcomes: Mapping[str, int]
    hours: tuple[ReconciledHour, ...] = ()
    samples: tuple[str, ...] = ()
    created_at: datetime
    created_by: str
    updated_at: datetime

    @property
    def running(self) -> bool:
        return self.state == "running"


class ReconciliationsUnderWay(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the reconciliations of all clients that run, the oldest first. `left_out`: how many more may run, and
    were not read. Give `next_cursor` for the next page; None: there is none."""

    items: tuple[Reconciliation, ...]
    left_out: int
    next_cursor: str | None = None


class ReconciledSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """What a reconciliation did to one schedule, in the words of `outcomes`. `reason`, where it left it alone: the
    state that it was in, rescheduled, in-doubt, or what made it impossible."""

    schedule_id: str
    due: datetime
    outcome: str
    reason: str | None = None


def create_reconciliation(
    client_id: str,
    action: str,
    start: datetime | str,
    end: datetime | str,
    states: Sequence[str],
    filters: ContentFilter,
    idempotency_key: str | None,
) -> Operation[Reconciliation]:
    asked: dict[str, Any] = {"from": instant(start), "to": instant(end), "states": states, "action": action}
    asked |= given(filters)
    return keyed(_path(client_id), Reconciliation, key=idempotency_key, body=msgspec.json.encode(asked))


def get_reconciliation(client_id: str, reconciliation_id: str) -> Operation[Reconciliation]:
    return Operation(method="GET", path=_path(client_id, reconciliation_id), answer=Reconciliation)


def list_reconciliations(client_id: str, page_size: int | None) -> Operation[Page[Reconciliation]]:
    query = {} if page_size is None else {"limit": str(page_size)}
    return Operation(method="GET", path=_path(client_id), answer=Page[Reconciliation], query=query)


def list_under_way(*, cursor: str | None, page_size: int | None) -> Operation[ReconciliationsUnderWay]:
    query = given({"cursor": cursor, "limit": number(page_size)})
    return Operation(method="GET", path="/v1/cluster/reconciliations", answer=ReconciliationsUnderWay, query=query)


def list_reconciled(
    client_id: str, reconciliation_id: str, *, outcome: str | None, page_size: int | None
) -> Operation[Page[ReconciledSchedule]]:
    query = given({"outcome": outcome, "limit": None if page_size is None else str(page_size)})
    path = f"{_path(client_id, reconciliation_id)}/schedules"
    return Operation(method="GET", path=path, answer=Page[ReconciledSchedule], query=query)


def stop_reconciliation(client_id: str, reconciliation_id: str) -> Operation[Reconciliation]:
    return Operation(method="POST", path=f"{_path(client_id, reconciliation_id)}:stop", answer=Reconciliation)


def _path(client_id: str, reconciliation_id: str | None = None) -> str:
    path = f"{client_path(client_id)}/reconciliations"
    return path if reconciliation_id is None else f"{path}/{segment(reconciliation_id)}"
