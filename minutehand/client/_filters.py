"""Which schedules of a window are meant: to list, to count, to cancel, to reschedule."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from minutehand.client._calls import Operation, client_path, given, instant, keyed
from minutehand.client._models import Page
from minutehand.client._outcomes import CancelItem, RescheduleItem


class ContentFilter(TypedDict, total=False):
    """Schedules that match all of these; of several labels, any. `destination`: the name of the one they call. `host`:
    of their URL, without port. `key_prefix`: how their own key begins."""

    label: str | Sequence[str] | None
    cron_id: str | None
    destination: str | None
    host: str | None
    key_prefix: str | None


class ScheduleFilter(ContentFilter, total=False):
    """The same, and those in this state, or one of these."""

    state: str | Sequence[str] | None


class ScheduleCount(msgspec.Struct, frozen=True):
    """How many schedules were counted so far. `next_cursor` None: all of the window."""

    count: int
    next_cursor: str | None


def count_schedules(
    client_id: str, *, start: datetime | str | None, end: datetime | str | None, filters: ScheduleFilter
) -> Operation[ScheduleCount]:
    return _count(client_id, given({"from": instant(start), "to": instant(end), **filters}))


def count_further(client_id: str, cursor: str) -> Operation[ScheduleCount]:
    return _count(client_id, {"cursor": cursor})


def cancel_window(
    client_id: str, *, start: datetime | str, end: datetime | str, filters: ScheduleFilter
) -> Operation[Page[CancelItem]]:
    return _cancel(client_id, given({"from": instant(start), "to": instant(end), **filters}))


def cancel_further(client_id: str, cursor: str) -> Operation[Page[CancelItem]]:
    return _cancel(client_id, {"cursor": cursor})


def reschedule_window(
    client_id: str,
    *,
    start: datetime | str,
    end: datetime | str,
    move: Mapping[str, Any],
    filters: ScheduleFilter,
    key: str | None,
) -> Operation[Page[RescheduleItem]]:
    body = msgspec.json.encode(given({"from": instant(start), "to": instant(end), **move, **filters}))
    if key is not None:
        return keyed(_moves(client_id), Page[RescheduleItem], key=key, body=body)
    return _move(client_id, body)


def reschedule_further(client_id: str, cursor: str) -> Operation[Page[RescheduleItem]]:
    return _move(client_id, msgspec.json.encode({"cursor": cursor}))


def _move(client_id: str, body: bytes) -> Operation[Page[RescheduleItem]]:
    answer = Page[RescheduleItem]
    return Operation(method="POST", path=_moves(client_id), answer=answer, body=body, recognised=True)


def _moves(client_id: str) -> str:
    return f"{client_path(client_id)}/schedules:reschedule"


def _count(client_id: str, query: Mapping[str, str | Sequence[str]]) -> Operation[ScheduleCount]:
    return Operation(method="GET", path=f"{client_path(client_id)}/schedules:count", answer=ScheduleCount, query=query)


def _cancel(client_id: str, asked: Mapping[str, Any]) -> Operation[Page[CancelItem]]:
    path = f"{client_path(client_id)}/schedules:cancel"
    return Operation(method="POST", path=path, answer=Page[CancelItem], body=msgspec.json.encode(asked))
