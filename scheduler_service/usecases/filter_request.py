"""The filter of schedules in a request's body, without states: its fields, and all their faults."""

from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.ids import CronId
from scheduler_service.domain.schedule_filters import (
    MAX_LABELS,
    ScheduleFilter,
    read_destination,
    read_host,
    read_key_prefix,
    read_labels,
)
from scheduler_service.usecases.schedule_request import MAX_TEXT

_Text: TypeAlias = Annotated[str, Meta(max_length=MAX_TEXT)]


class FilterRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Only schedules that match all of these. `label`: this one, or any of these. `destination`: that of the callback,
    by name. `host`: that of the callback's URL, without port. `key_prefix`: how the schedule's own key begins."""

    label: _Text | Annotated[list[_Text], Meta(max_length=MAX_LABELS)] | None = None
    cron_id: _Text | None = None
    destination: str | None = None
    host: str | None = None
    key_prefix: str | None = None


def asked_filter(request: FilterRequest, faults: list[FieldError]) -> ScheduleFilter:
    """The filter, as far as it is right; what is wrong is added to `faults`."""

    def read(name: str, value: str | None, of: Callable[[str], str]) -> str | None:
        try:
            return None if value is None else of(value)
        except ValueError as error:
            faults.append(FieldError(f"/{name}", str(error)))
            return None

    labels: tuple[str, ...] = ()
    if request.label is not None:
        try:
            labels = read_labels([request.label] if isinstance(request.label, str) else request.label)
        except ValueError as error:
            faults.append(FieldError("/label", str(error)))
    return ScheduleFilter(
        labels=labels,
        cron_id=None if request.cron_id is None else CronId(request.cron_id),
        destination=read("destination", request.destination, read_destination),
        host=read("host", request.host, read_host),
        key_prefix=read("key_prefix", request.key_prefix, read_key_prefix),
    )
