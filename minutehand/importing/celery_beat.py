"""django-celery-beat: its tables as `manage.py dumpdata django_celery_beat` prints them. Pure.

All five fields of a crontab must match, so one that restricts days and weekdays becomes our rule with both (`&`).
Intervals count from the import or their start, as celery's count from their last run.
"""

from collections.abc import Mapping
from typing import Final

from minutehand.importing.entries import Entry, Fault, Found, LeftOut, documents
from minutehand.importing.shapes import Misfit, Node, entry_of, json_in
from scheduler_service.domain.crons.dialects import DEFAULT_DIALECT, Dialect

WHAT: Final = "python manage.py dumpdata django_celery_beat"
_SECONDS: Final = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}
_FIELDS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_READ: Final = ("periodictask", "crontabschedule", "intervalschedule", "clockedschedule")
_CLEANUP: Final = "celery.backend_cleanup"
_TABLES: Final = ("crontab", "interval", "clocked", "solar")


def read_celery_beat(text: str, *, timezone: str) -> Found:
    """`timezone`: of crontabs that have none. Raises Unreadable."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    left_out: list[LeftOut] = []
    tables: dict[str, dict[str | None, Node]] = {}
    for place, row in documents(text, WHAT, faults):
        try:
            one = entry_of(row.values)
            table = (one.text("model") or "").partition(".")[2]
            rows, key = tables.setdefault(table, {}), one.word("pk")
            if key in rows and table in _READ:
                raise Misfit(f"a {table} {key} is in the file already: import one dump at a time")
            rows[key] = one.node("fields")
        except Misfit as error:
            faults.append(Fault(place, str(error)))
    for key, task in tables.get("periodictask", {}).items():
        place = f"periodictask {key}"
        try:
            if task.text("task") == _CLEANUP:
                left_out.append(LeftOut(place, f"{_CLEANUP} deletes the results that celery keeps: leave it to celery"))
            else:
                entries.append(_entry(place, task, tables, timezone))
        except Misfit as error:
            name = task.values.get("name")
            faults.append(Fault(place, f"{name}: {error}" if isinstance(name, str) else str(error)))
    if not tables.get("periodictask"):
        faults.append(Fault("the file", f"has no periodictask: give the answer of `{WHAT}`"))
    return Found(entries, faults, left_out)


def _entry(place: str, task: Node, tables: Mapping[str, Mapping[str | None, Node]], timezone: str) -> Entry:
    """Raises Misfit."""
    name = task.needed("name")
    kind = next((kind for kind in _TABLES if task.word(kind) is not None), None)
    if kind is None or kind == "solar":
        raise Misfit("solar events have no counterpart" if kind else "has no crontab, interval or clocked")
    when = tables.get(f"{kind}schedule", {}).get(task.word(kind))
    if when is None:
        raise Misfit(f"its {kind} {task.word(kind)} is not in the file")
    at: str | None = None
    expression: str | None = None
    dialect: Dialect = DEFAULT_DIALECT
    if kind == "crontab":
        fields = ["".join((when.word(field) or "*").split()) for field in _FIELDS]
        written = " ".join(fields)
        if "*" not in (fields[2], fields[4]):
            fields[4], dialect = f"&{fields[4]}", "minutehand"
        expression = " ".join(fields)
    elif kind == "interval":
        seconds = _seconds(when)
        written = f"every {when.word('every')} {when.text('period')}"
        expression, dialect = f"every {seconds // 60} minutes", "minutehand"
    else:
        at = written = when.needed("clocked_time")
    return Entry(
        place=place,
        name=name,
        written=written,
        expression=expression,
        dialect=dialect,
        at=at,
        timezone=when.text("timezone") or timezone,
        starts_at=task.text("start_time"),
        ends_at=task.text("expires"),
        max_fires=1 if task.flag("one_off", False) and at is None else None,
        off=not task.flag("enabled", True),
        payload={
            "source": "celery-beat",
            "name": name,
            "task": task.text("task"),
            "args": json_in(task.text("args") or "[]"),
            "kwargs": json_in(task.text("kwargs") or "{}"),
        },
        notes=("counts from the import; celery counts from its last run",) if kind == "interval" else (),
    )


def _seconds(when: Node) -> int:
    """Raises Misfit."""
    seconds = (when.whole("every") or 0) * _SECONDS.get(when.text("period") or "", 0)
    if seconds < 60 or seconds % 60:
        raise Misfit(f"every {when.word('every')} {when.text('period')} are no whole minutes")
    return seconds
