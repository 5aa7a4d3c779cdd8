"""EventBridge: schedules of `aws scheduler get-schedule`, rules of `aws events list-rules`. Pure.

`list-schedules` answers no expressions, so each schedule is fetched by itself; their objects may follow one another in
one file. Rules are in UTC.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from minutehand.importing.entries import Entry, Fault, Found, LeftOut, documents
from minutehand.importing.shapes import Misfit, Node, entry_of
from scheduler_service.domain.spread import MAX_SPREAD_SECONDS

WHAT: Final = "aws scheduler get-schedule, or aws events list-rules"
_LISTS: Final = ("Schedules", "Rules")
_AT: Final = re.compile(r"at\((.*)\)")


def read_eventbridge(text: str) -> Found:
    """Raises Unreadable."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    left_out: list[LeftOut] = []
    for place, value in _items(text, faults):
        try:
            one = entry_of(value)
            if "EventPattern" in one.values and not one.text("ScheduleExpression"):
                name = one.text("Name") or "a rule"
                left_out.append(LeftOut(place, f"{name} waits for events (EventPattern), and has no schedule"))
            else:
                entries.append(_entry(place, one))
        except Misfit as error:
            faults.append(Fault(place, str(error)))
    return Found(entries, faults, left_out)


def _items(text: str, faults: list[Fault]) -> Iterator[tuple[str, Any]]:
    for place, one in documents(text, WHAT, faults):
        name = next((name for name in _LISTS if name in one.values), None)
        if name is None:
            yield place, one.values
            continue
        try:
            yield from ((f"{place}, {name}[{at}]", each) for at, each in enumerate(one.listed(name)))
        except Misfit as error:
            faults.append(Fault(place, str(error)))


def _entry(place: str, one: Node) -> Entry:
    """Raises Misfit."""
    name, written = one.text("Name"), (one.text("ScheduleExpression") or "").strip()
    if not name:
        raise Misfit(f"has no Name; give the answer of {WHAT}")
    if not written:
        raise Misfit(f"{name} has no ScheduleExpression: take get-schedule, as list-schedules has none")
    target, flexible = one.node("Target"), one.node("FlexibleTimeWindow")
    group, arn, at = one.text("GroupName"), target.text("Arn"), _AT.fullmatch(written)
    if group == "default":
        group = None
    starts_at = one.text("StartDate")
    seconds = (flexible.whole("MaximumWindowInMinutes", least=0) or 0) * 60
    notes = []
    if seconds > MAX_SPREAD_SECONDS:
        notes.append(f"the window of {seconds // 60} minutes is cut to {MAX_SPREAD_SECONDS // 60}")
    if written.startswith("rate(") and starts_at is None:
        notes.append("a rate counts from the import; EventBridge counts from the schedule's creation")
    if "EventPattern" in one.values:
        notes.append("its EventPattern is not taken over: only its schedule fires here")
    if arn:
        notes.append(f"called instead of {arn}")
    told = {"source": "eventbridge", "name": name, "group": one.text("GroupName"), "target": arn}
    return Entry(
        place=place,
        name=f"{group}.{name}" if group else name,
        parts=(group or "", name),
        written=written,
        expression=None if at else written,
        dialect="aws",
        at=at[1] if at else None,
        timezone=one.text("ScheduleExpressionTimezone") or "UTC",
        starts_at=starts_at,
        ends_at=one.text("EndDate"),
        spread_seconds=min(seconds, MAX_SPREAD_SECONDS),
        off=one.text("State") == "DISABLED",
        payload={key: value for key, value in told.items() if value},
        body=target.text("Input"),
        notes=tuple(notes),
    )
