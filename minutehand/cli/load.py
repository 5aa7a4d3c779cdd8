"""The schedules that a file lists: one JSON object a line, as `POST …/schedules` takes it, or CSV with a head.

A batch of them is created under an idempotency key made of its place and content. So a load that was interrupted is
run again from the beginning: what was created is answered as it was, and nothing is created twice, for as long as an
API remembers keys (24 hours) and the file stays as it was. Lines that are added make the batch they fall into another
one, which is created as a whole.
"""

import csv
import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TextIO, TypeVar

if TYPE_CHECKING:
    import msgspec

    from minutehand.client import NewSchedule

T = TypeVar("T", bound="msgspec.Struct")

BATCH: Final = 500
_IN_CALLBACK: Final = ("url", "method", "body")
CSV_COLUMNS: Final = (
    *_IN_CALLBACK,
    *("due", "latest", "key", "label", "ordering_key"),
    *("delay_seconds", "window_seconds", "timeout_seconds", "skip_after_seconds"),
)
_NUMBERS: Final = ("delay_seconds", "window_seconds", "timeout_seconds", "skip_after_seconds")


class Unreadable(ValueError):
    """A line is no schedule."""


class Line(NamedTuple):
    """A schedule, where it is in the file, and the text that it was read from."""

    number: int
    text: str
    schedule: "NewSchedule"


def read_lines(file: Path) -> Iterator[Line]:
    """The file's schedules, as they are asked for. Raises Unreadable, OSError."""
    with file.open(encoding="utf-8", newline="") as opened:
        found = _of_csv(opened) if file.suffix.lower() == ".csv" else _of_json(opened)
        for number, fields in found:
            try:
                schedule = _schedule(dict(fields))
            except ValueError as error:
                raise Unreadable(f"line {number} of {file} is no schedule: {error}") from None
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
            fields = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"line {number} of {opened.name} is no JSON: {error}") from None
        if not isinstance(fields, dict):
            raise Unreadable(f"line {number} of {opened.name} is no JSON object")
        yield number, fields


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _of_csv(opened: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    """Columns are named after the fields of a schedule, and those of its callback `url`, `method` and `body`. An empty
    cell leaves its field out."""
    rows = csv.DictReader(opened, strict=True)
    try:
        unknown = [name for name in rows.fieldnames or () if name not in CSV_COLUMNS]
        if unknown:
            raise Unreadable(f"the head of {opened.name} has columns that are unknown: {', '.join(unknown)}")
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
        number = math.nan
    if not math.isfinite(number):
        raise Unreadable(f"line {line}: {name} is no number")
    return int(number) if number.is_integer() else number


def _schedule(fields: dict[str, Any]) -> "NewSchedule":
    """Raises ValueError. What else may not be is the API's to refuse."""
    from minutehand.client import Callback, LocalTime, NewSchedule, Retry

    callback = _made(Callback, fields.pop("callback", None), "callback")
    due, retry = fields.get("due"), fields.get("retry")
    if isinstance(due, dict):
        fields["due"] = _made(LocalTime, due, "due")
    if isinstance(retry, dict):
        fields["retry"] = _made(Retry, retry, "retry")
    return _made(NewSchedule, {"callback": callback, **fields}, "")


def _made(kind: type[T], given: object, where: str) -> T:
    """An object of the SDK from fields by their names. Raises ValueError, which names all that are unknown or missing.

    `where`: the field that holds the object; empty for the schedule itself.
    """
    from msgspec.structs import fields

    inside = f"{where}." if where else ""
    if given is None:
        raise ValueError(f"{where} is missing")
    if not isinstance(given, dict):
        raise ValueError(f"{where} is no JSON object")
    known = {field.name: field.required for field in fields(kind)}
    faults = [f"{inside}{name} is unknown" for name in given if name not in known]
    faults += [f"{inside}{name} is missing" for name, required in known.items() if required and name not in given]
    if faults:
        raise ValueError(", ".join(faults))
    try:
        return kind(**given)
    except TypeError as error:
        raise ValueError(str(error)) from None
