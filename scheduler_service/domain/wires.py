"""Wires: APIs of other schedulers that this one also speaks, so that their callers and receivers need no change. Pure.

A call that came by a wire is an ordinary schedule. It is marked with the wire's name (`ScheduleOptions.wire`), and a
node adds that scheduler's headers when the call is made. They are not stored with the row: a schedule's id is chosen
after its headers are judged, and the children of a cron share one text of headers.
"""

from collections.abc import Mapping
from typing import Final

from scheduler_service.domain.options import Headers

GOSCHEDULER: Final = "goscheduler"
"""GoScheduler's wire, under `/goscheduler`."""
WIRES_SINCE: Final = 30
"""The first migration that is later than wires: nodes that know it know them. Older ones may send such calls without
those headers, and a body with GET and HEAD."""
SCHEDULE_ID: Final = "Schedule-Id"
PARENT_SCHEDULE_ID: Final = "Parent-Schedule-Id"
_CONTENT_TYPE: Final = "Content-Type"


def wire_headers(wire: str | None, headers: Headers, *, schedule_id: str, cron_id: str | None) -> Headers:
    """The headers of a call with those that the receivers of its wire expect. No wire, and one that this program does
    not know, add none. `cron_id`: of a cron's run."""
    return goscheduler_headers(headers, schedule_id=schedule_id, cron_id=cron_id) if wire == GOSCHEDULER else headers


def goscheduler_headers(headers: Headers, *, schedule_id: str, cron_id: str | None) -> Headers:
    """`Schedule-Id`, of a cron's fire `Parent-Schedule-Id` too, whatever the caller gave by these names; and a JSON
    content type unless the caller gave one."""
    ours: Mapping[str, str] = {SCHEDULE_ID: schedule_id} | ({} if cron_id is None else {PARENT_SCHEDULE_ID: cron_id})
    names = {name.lower() for name in ours}
    kept = tuple(header for header in headers if header[0].lower() not in names)
    if not any(name.lower() == _CONTENT_TYPE.lower() for name, _ in kept):
        kept = ((_CONTENT_TYPE, "application/json"), *kept)
    return (*kept, *ours.items())
