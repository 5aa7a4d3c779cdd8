"""The schedules that a file lists: one JSON object a line, as `POST …/schedules` takes it, or CSV with a head.

A batch of them is created under an idempotency key made of its place and content. So a load that was interrupted is
run again from the beginning: what was created is answered as it was, and nothing is created twice, for as long as an
API remembers keys (24 hours).
"""

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from minutehand.client import Callback, LocalTime, NewSchedule, Retry

BATCH: Final = 500
_IN_CALLBACK: Final = ("url", "method", "body")
_NUMBERS: Final = ("delay_seconds", "window_seconds", "timeout_seconds", "skip_after_seconds")


class Unreadable(ValueError):
    """A line is no schedule."""


class Line(NamedTuple):
    """A schedule, where it is in the file, and the text that it was read from."""

    number: int
    text: str
    schedule: NewSchedule


def read_lines(file: Path) -> Iterator[Line]:
    """The file's schedules, as they are asked for. Raises Unreadable, OSError."""
    with file.open(encoding="utf-8", newline="") as opened:
        found = _of_csv(opened) if file.suffix.lower() == ".csv" else _of_json(opened)
        for number, fields in found:
            try:
                schedule = _schedule(dict(fields))
            except (KeyError, TypeError, ValueError) as error:
                why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise Unreadable(f"line {number} of {file} is no schedule: {why}") from None
            yield Line(number, json.dumps(fields, sort_keys=True), schedule)


def batch_key(lines: Iterable[Line]) -> str:
    """The idempotency key of a batch."""
    digest = hashlib.sha256()
    for line in lines:
        digest.update(f"{line.number} {line.text}\n".encode())
    return f"load-{digest.hexdigest()}"


def _of_json(opened: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, text in enumerate(opened, start=1):
        if not text.strip():
            continue
        try:
            fields = json.loads(text)
        except ValueError as error:
            raise Unreadable(f"line {number} of {opened.name} is no JSON: {error}") from None
        if not isinstance(fields, dict):
            raise Unreadable(f"line {number} of {opened.name} is no JSON object")
        yield number, fields


def _of_csv(opened: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    """Columns are named after the fields of a schedule, and those of its callback `url`, `method` and `body`. An empty
    cell leaves its field out."""
    rows = csv.DictReader(opened, strict=True)
    try:
        for row in rows:
            if None in row or None in row.values():
                raise Unreadable(f"line {rows.line_num} of {opened.name} has not as many cells as the head")
            given = {name: cell for name, cell in row.items() if cell}
            callback = {name: given.pop(name) for name in _IN_CALLBACK if name in given}
            numbers = {name: _number(given.pop(name), name, rows.line_num) for name in _NUMBERS if name in given}
            yield rows.line_num, {"callback": callback, **given, **numbers}
    except csv.Error as error:
        raise Unreadable(f"line {rows.line_num} of {opened.name} is no CSV: {error}") from None


def _number(cell: str, name: str, line: int) -> float:
    try:
        number = float(cell)
    except ValueError:
        raise Unreadable(f"line {line}: {name} is no number") from None
    return int(number) if number.is_integer() else number


def _schedule(fields: dict[str, Any]) -> NewSchedule:
    """Raises KeyError, TypeError, ValueError. What else may not be is the API's to refuse."""
    callback = Callback(**fields.pop("callback"))
    due, retry = fields.get("due"), fields.get("retry")
    if isinstance(due, dict):
        fields["due"] = LocalTime(**due)
    if isinstance(retry, dict):
        fields["retry"] = Retry(**retry)
    return NewSchedule(callback=callback, **fields)
