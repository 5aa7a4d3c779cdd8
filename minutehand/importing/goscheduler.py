"""GoScheduler's schedules and crons, from its API or its tables. Pure.

Objects with `appId`, `scheduleId`, `payload`, `callback` (or `callbackDetails`), and `cronExpression` or
`scheduleTime` in Unix seconds, as its API answers them, one or listed, or rows of the same columns. Its servers match
the clock of their zone; times that a change of clocks skips are left out, and repeated ones fire twice.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from minutehand.importing.entries import Entry, Fault, Found, plain_names, records, text_of

WHAT: Final = "schedules of GoScheduler's API, or their rows as CSV or JSON"
_BODILESS: Final = ("GET", "HEAD")
_ENDED: Final = ("SUCCESS", "FAILURE", "MISS", "ERROR", "DELETED")


def read_goscheduler(text: str, *, timezone: str) -> Found:
    """`timezone`: of its servers. Raises Unreadable."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    for place, row in _rows(text):
        one = plain_names(row)
        app, name, rule, due = (one.get(key) for key in ("appid", "scheduleid", "cronexpression", "scheduletime"))
        if not app or not name or not (rule or due):
            faults.append(Fault(place, "needs appId, scheduleId, and cronExpression or scheduleTime"))
            continue
        details, body = _details(one), text_of(one.get("payload"))
        unsent = body is not None and str(details.get("method", "")).upper() in _BODILESS
        try:
            at = None if rule else datetime.fromtimestamp(int(due or 0), UTC).isoformat().replace("+00:00", "Z")
        except (TypeError, ValueError, OverflowError, OSError):
            faults.append(Fault(place, f"scheduleTime {due!r} is no number of Unix seconds"))
            continue
        entries.append(
            Entry(
                place=place,
                name=f"{app}.{name}",
                parts=(str(app), str(name)),
                written=str(rule or due),
                expression=str(rule) if rule else None,
                dialect="goscheduler",
                at=at,
                timezone=timezone,
                gap="skip",
                fold="both",
                off=str(one.get("status", "")).upper() in _ENDED,
                payload={},
                body=None if unsent else body,
                url=details.get("url"),
                method=details.get("method"),
                headers={str(key): str(value) for key, value in (details.get("headers") or {}).items()},
                notes=(f"its payload is not sent with {details['method']}",) if unsent else (),
            )
        )
    return Found(entries, faults)


def _rows(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each schedule with its place, out of the envelopes of API answers: `data` is a list of crons, or has `schedules`,
    or `schedule`. Raises Unreadable."""
    for place, row in records(text, WHAT):
        data = row.get("data", row)
        listed = data.get("schedules") if isinstance(data, dict) else data
        if isinstance(listed, list):
            for number, one in enumerate(listed, 1):
                yield f"{place}, schedule {number}", one if isinstance(one, dict) else {}
        else:
            yield place, data.get("schedule", data)


def _details(one: Mapping[str, Any]) -> dict[str, Any]:
    """Where a call goes. A table holds it as JSON text."""
    found = one.get("callback") or one.get("callbackdetails") or one.get("httpcallback") or {}
    for _ in range(2):
        if isinstance(found, str):
            try:
                found = json.loads(found)
            except json.JSONDecodeError:
                return {}
        if not isinstance(found, dict):
            return {}
        found = found.get("details", found)
    return found if isinstance(found, dict) else {}
