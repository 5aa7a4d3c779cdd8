"""Quartz: the rows of its JDBC job store, `QRTZ_TRIGGERS` joined with `QRTZ_CRON_TRIGGERS`. Pure.

    SELECT * FROM QRTZ_TRIGGERS NATURAL JOIN QRTZ_CRON_TRIGGERS

exported as CSV with a head, or as JSON. Names of columns are taken in any case.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from minutehand.importing.entries import Entry, Fault, Found, records

WHAT: Final = "QRTZ_TRIGGERS joined with QRTZ_CRON_TRIGGERS, as CSV or JSON"
_OFF: Final = ("PAUSED", "PAUSED_BLOCKED", "COMPLETE", "ERROR", "DELETED")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_quartz(text: str, *, timezone: str) -> Found:
    """`timezone`: of triggers that have none. Raises Unreadable."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    for place, row in records(text, WHAT):
        one = {name.upper(): value for name, value in row.items()}
        missing = [name for name in ("TRIGGER_NAME", "TRIGGER_GROUP", "CRON_EXPRESSION") if not one.get(name)]
        if missing:
            faults.append(Fault(place, f"has no {' and no '.join(missing)}: give {WHAT}"))
            continue
        try:
            starts_at, ends_at = _instant(one.get("START_TIME")), _instant(one.get("END_TIME"))
        except (ValueError, OverflowError):
            faults.append(Fault(place, "START_TIME and END_TIME are no milliseconds"))
            continue
        notes = ["its job data is not passed on"] if one.get("JOB_DATA") else []
        if one.get("CALENDAR_NAME"):
            notes.append(f"its calendar {one['CALENDAR_NAME']} is not taken over: it fires on days off, too")
        jobs = {name.lower(): one[name] for name in ("JOB_NAME", "JOB_GROUP") if one.get(name)}
        entries.append(
            Entry(
                place=place,
                name=f"{one['TRIGGER_GROUP']}.{one['TRIGGER_NAME']}",
                parts=(str(one["TRIGGER_GROUP"]), str(one["TRIGGER_NAME"])),
                written=one["CRON_EXPRESSION"],
                expression=one["CRON_EXPRESSION"],
                dialect="quartz",
                timezone=one.get("TIME_ZONE_ID") or timezone,
                starts_at=starts_at,
                ends_at=ends_at,
                off=str(one.get("TRIGGER_STATE", "WAITING")) in _OFF,
                payload={"source": "quartz", "group": one["TRIGGER_GROUP"], "trigger": one["TRIGGER_NAME"], **jobs},
                notes=tuple(notes),
            )
        )
    return Found(entries, faults)


def _instant(value: Any) -> str | None:
    """Milliseconds from 1970; 0 for none. Raises ValueError, OverflowError."""
    milliseconds = int(value or 0)
    if milliseconds <= 0:
        return None
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
