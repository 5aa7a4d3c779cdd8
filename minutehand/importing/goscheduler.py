"""GoScheduler's schedules and crons, from its API or its tables. Pure.

Objects with `appId`, `scheduleId`, `payload`, `callback` (or `callbackDetails`), and `cronExpression` or
`scheduleTime` in Unix seconds, as its API answers them, one or listed, or rows of the same columns. Its servers match
the clock of their zone; times that a change of clocks skips are left out, and repeated ones fire twice.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from minutehand.importing.entries import Entry, Fault, Found, plain, records, text_of
from minutehand.importing.shapes import Misfit, Node, entry_of, json_in, misfit

WHAT: Final = "schedules of GoScheduler's API, or their rows as CSV or JSON"
_CALLBACKS: Final = ("callback", "callbackdetails", "httpcallback")
_BODILESS: Final = ("GET", "HEAD")
_ENDED: Final = ("SUCCESS", "FAILURE", "MISS", "ERROR", "DELETED")


def read_goscheduler(text: str, *, timezone: str) -> Found:
    """`timezone`: of its servers. Raises Unreadable."""
    entries: list[Entry] = []
    faults: list[Fault] = []
    for place, row in _rows(text, faults):
        try:
            entries.append(_entry(place, entry_of(row, form=plain), timezone))
        except Misfit as error:
            faults.append(Fault(place, str(error)))
    return Found(entries, faults)


def _entry(place: str, one: Node, timezone: str) -> Entry:
    """Raises Misfit."""
    app, name, rule = (one.text(key) for key in ("appid", "scheduleid", "cronexpression"))
    due = one.whole("scheduletime")
    if not app or not name or not (rule or due):
        raise Misfit("needs appId, scheduleId, and cronExpression or scheduleTime")
    details, body = _details(one), text_of(one.values.get("payload"))
    method, headers = details.text("method"), details.node("headers")
    unsent = body is not None and (method or "").upper() in _BODILESS
    return Entry(
        place=place,
        name=f"{app}.{name}",
        parts=(app, name),
        written=rule or str(due),
        expression=rule,
        dialect="goscheduler",
        at=None if rule else _instant(one, due or 0),
        timezone=timezone,
        gap="skip",
        fold="both",
        off=(one.text("status") or "").upper() in _ENDED,
        payload={},
        body=None if unsent else body,
        url=details.text("url"),
        method=method,
        headers={key: headers.word(key) or "" for key in headers.values},
        notes=(f"its payload is not sent with {method}",) if unsent else (),
    )


def _instant(one: Node, due: int) -> str:
    """Raises Misfit."""
    try:
        return datetime.fromtimestamp(due, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        raise Misfit(f"{one.where('scheduletime')}: {due} Unix seconds are beyond the calendar") from None


def _rows(text: str, faults: list[Fault]) -> Iterator[tuple[str, Any]]:
    """Each schedule with its place, out of the envelopes of API answers: `data` is a list of crons, or has `schedules`,
    or `schedule`. Raises Unreadable."""
    for place, row in records(text, WHAT, faults):
        data = row.values.get("data", row.values)
        listed = data.get("schedules") if isinstance(data, Mapping) else data
        if isinstance(listed, list):
            yield from ((f"{place}, schedule {number}", one) for number, one in enumerate(listed, 1))
        elif isinstance(data, Mapping):
            yield place, data.get("schedule", data)
        else:
            faults.append(Fault(place, str(misfit("data", "schedules", data))))


def _details(one: Node) -> Node:
    """Where a call goes. A table holds it as JSON text. Raises Misfit."""
    name = next((name for name in _CALLBACKS if one.values.get(name)), None)
    if name is None:
        return Node({})
    callback = _object(one.values[name], one.where(name))
    return _object(callback.values["details"], callback.where("details")) if "details" in callback.values else callback


def _object(value: Any, path: str) -> Node:
    """Raises Misfit."""
    return Node.of(json_in(value) if isinstance(value, str) else value, path)
