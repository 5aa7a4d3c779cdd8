"""EventBridge: schedules of `aws scheduler get-schedule`, rules of `aws events list-rules`. Pure.

`list-schedules` answers no expressions, so each schedule is fetched by itself; their objects may follow one another in
one file. Rules are in UTC.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from minutehand.importing.entries import Entry, Fault, Found, documents
from scheduler_service.domain.spread import MAX_SPREAD_SECONDS

WHAT: Final = "aws scheduler get-schedule, or aws events list-rules"
_AT: Final = re.compile(r"at\((.*)\)")


def read_eventbridge(text: str) -> Found:
    """Raises Unreadable."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    for place, one in _items(text):
        name, written = one.get("Name"), one.get("ScheduleExpression")
        if not isinstance(name, str) or not name:
            faults.append(Fault(place, f"has no Name; give the answer of {WHAT}"))
        elif not isinstance(written, str) or not written:
            why = "it waits for events" if "EventPattern" in one else "take get-schedule, as list-schedules has none"
            faults.append(Fault(place, f"{name} has no ScheduleExpression: {why}"))
        else:
            entries.append(_entry(place, name, written.strip(), one))
    return Found(entries, faults)


def _items(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, one in documents(text, WHAT):
        listed = one.get("Schedules", one.get("Rules"))
        if isinstance(listed, list):
            yield from ((f"item {number}", each) for number, each in enumerate(listed, 1) if isinstance(each, dict))
        else:
            yield place, one


def _entry(place: str, name: str, written: str, one: Mapping[str, Any]) -> Entry:
    target = one.get("Target") or {}
    flexible = one.get("FlexibleTimeWindow") or {}
    group, at = one.get("GroupName"), _AT.fullmatch(written)
    seconds = int(flexible.get("MaximumWindowInMinutes") or 0) * 60
    notes = []
    if seconds > MAX_SPREAD_SECONDS:
        notes.append(f"the window of {seconds // 60} minutes is cut to {MAX_SPREAD_SECONDS // 60}")
    if written.startswith("rate(") and "StartDate" not in one:
        notes.append("a rate counts from the import; EventBridge counts from the schedule's creation")
    if target.get("Arn"):
        notes.append(f"called instead of {target['Arn']}")
    told = {"source": "eventbridge", "name": name, **({"group": group} if group else {})}
    return Entry(
        place=place,
        name=f"{group}.{name}" if group and group != "default" else name,
        parts=("" if not group or group == "default" else group, name),
        written=written,
        expression=None if at else written,
        dialect="aws",
        at=at[1] if at else None,
        timezone=one.get("ScheduleExpressionTimezone") or "UTC",
        starts_at=one.get("StartDate"),
        ends_at=one.get("EndDate"),
        spread_seconds=min(seconds, MAX_SPREAD_SECONDS),
        off=one.get("State", "ENABLED") == "DISABLED",
        payload={**told, **({"target": target["Arn"]} if target.get("Arn") else {})},
        body=target.get("Input"),
        notes=tuple(notes),
    )
