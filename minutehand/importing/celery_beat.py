"""django-celery-beat: its tables as `manage.py dumpdata django_celery_beat` prints them. Pure.

All five fields of a crontab must match, so one that restricts days and weekdays becomes our rule with both (`&`).
Intervals count from the import or their start, as celery's count from their last run.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from minutehand.importing.entries import Entry, Fault, Found, documents
from scheduler_service.domain.crons.dialects import DEFAULT_DIALECT, Dialect

WHAT: Final = "python manage.py dumpdata django_celery_beat"
_SECONDS: Final = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
_FIELDS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_TABLES: Final = ("crontab", "interval", "clocked", "solar")


class _NoRule(ValueError):
    """Why a task can't be imported."""


def read_celery_beat(text: str, *, timezone: str) -> Found:
    """`timezone`: of crontabs that have none. Raises Unreadable."""
    tables: dict[str, dict[Any, Mapping[str, Any]]] = {}
    for _, one in documents(text, WHAT):
        table = str(one.get("model", "")).partition(".")[2]
        tables.setdefault(table, {})[one.get("pk")] = one.get("fields") or {}
    entries: list[Entry] = []
    faults: list[Fault] = []
    for key, task in tables.get("periodictask", {}).items():
        place = f"periodictask {key}"
        if task.get("task") == "celery.backend_cleanup":
            continue
        try:
            entries.append(_entry(place, task, tables, timezone))
        except _NoRule as error:
            faults.append(Fault(place, f"{task.get('name')}: {error}"))
    if not tables.get("periodictask"):
        faults.append(Fault("the file", f"has no periodictask: give the answer of `{WHAT}`"))
    return Found(entries, faults)


def _entry(
    place: str, task: Mapping[str, Any], tables: Mapping[str, Mapping[Any, Mapping[str, Any]]], timezone: str
) -> Entry:
    kind = next((name for name in _TABLES if task.get(name) is not None), None)
    if kind is None or kind == "solar":
        raise _NoRule("solar events have no counterpart" if kind else "has no crontab, interval or clocked")
    when = tables.get(f"{kind}schedule", tables.get(kind, {})).get(task[kind])
    if when is None:
        raise _NoRule(f"its {kind} {task[kind]} is not in the file")
    at: str | None = None
    expression: str | None = None
    dialect: Dialect = DEFAULT_DIALECT
    if kind == "crontab":
        fields = ["".join(str(when.get(name, "*")).split()) for name in _FIELDS]
        written = " ".join(fields)
        if "*" not in (fields[2], fields[4]):
            fields[4], dialect = f"&{fields[4]}", "minutehand"
        expression = " ".join(fields)
    elif kind == "interval":
        seconds = _seconds(when)
        written = f"every {when.get('every')} {when.get('period')}"
        expression, dialect = f"every {seconds // 60} minutes", "minutehand"
    else:
        at = written = str(when.get("clocked_time"))
    return Entry(
        place=place,
        name=str(task.get("name")),
        written=written,
        expression=expression,
        dialect=dialect,
        at=at,
        timezone=str(when.get("timezone") or timezone),
        starts_at=task.get("start_time"),
        ends_at=task.get("expires"),
        max_fires=1 if task.get("one_off") and at is None else None,
        off=not task.get("enabled", True),
        payload={
            "source": "celery-beat",
            "name": task.get("name"),
            "task": task.get("task"),
            "args": _value(task.get("args"), []),
            "kwargs": _value(task.get("kwargs"), {}),
        },
        notes=("counts from the import; celery counts from its last run",) if kind == "interval" else (),
    )


def _seconds(when: Mapping[str, Any]) -> int:
    """Raises _NoRule."""
    seconds = int(when.get("every") or 0) * _SECONDS.get(str(when.get("period")), 0)
    if seconds < 60 or seconds % 60:
        raise _NoRule(f"every {when.get('every')} {when.get('period')} are no whole minutes")
    return seconds


def _value(text: Any, empty: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) and text else empty
    except json.JSONDecodeError:
        return text
