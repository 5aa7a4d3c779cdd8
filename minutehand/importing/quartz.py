"""Quartz: the rows of its JDBC job store, `QRTZ_TRIGGERS` joined with `QRTZ_CRON_TRIGGERS`. Pure.

    SELECT * FROM QRTZ_TRIGGERS NATURAL JOIN QRTZ_CRON_TRIGGERS

exported as CSV with a head, or as JSON. Names of columns are taken in any case.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from minutehand.importing.entries import Entry, Fault, Found, records
from minutehand.importing.shapes import Misfit, Node, entry_of

WHAT: Final = "QRTZ_TRIGGERS joined with QRTZ_CRON_TRIGGERS, as CSV or JSON"
_OFF: Final = ("PAUSED", "PAUSED_BLOCKED", "COMPLETE", "ERROR", "DELETED")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_quartz(text: str, *, timezone: str) -> Found:
    """`timezone`: of triggers that have none. Raises Unreadable."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    for place, row in records(text, WHAT, faults):
        try:
            entries.append(_entry(place, entry_of(row.values, form=str.upper), timezone))
        except Misfit as error:
            faults.append(Fault(place, str(error)))
    return Found(entries, faults)


def _entry(place: str, one: Node, timezone: str) -> Entry:
    """Raises Misfit."""
    needed = {name: one.text(name) for name in ("TRIGGER_NAME", "TRIGGER_GROUP", "CRON_EXPRESSION")}
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise Misfit(f"has no {' and no '.join(missing)}: give {WHAT}")
    name, group, written = (value or "" for value in needed.values())
    notes = ["its job data is not passed on"] if one.values.get("JOB_DATA") else []
    if (calendar := one.text("CALENDAR_NAME")) is not None:
        notes.append(f"its calendar {calendar} is not taken over: it fires on days off, too")
    jobs = {column.lower(): job for column in ("JOB_NAME", "JOB_GROUP") if (job := one.text(column))}
    return Entry(
        place=place,
        name=f"{group}.{name}",
        parts=(group, name),
        written=written,
        expression=written,
        dialect="quartz",
        timezone=one.text("TIME_ZONE_ID") or timezone,
        starts_at=_instant(one, "START_TIME"),
        ends_at=_instant(one, "END_TIME"),
        off=one.text("TRIGGER_STATE") in _OFF,
        payload={"source": "quartz", "group": group, "trigger": name, **jobs},
        notes=tuple(notes),
    )


def _instant(one: Node, name: str) -> str | None:
    """Milliseconds from 1970; 0 for none. Raises Misfit."""
    milliseconds = one.whole(name) or 0
    if milliseconds <= 0:
        return None
    try:
        instant = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise Misfit(f"{one.where(name)}: {milliseconds} milliseconds from 1970 are beyond the calendar") from None
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
