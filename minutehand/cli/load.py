"""The schedules that a file lists: one JSON object a line, as `POST …/schedules` takes it, or CSV with a head.

The whole file is read before anything is created, so that a line that is no schedule keeps all others from being
created, and all such lines are named at once.

Each line is created under an idempotency key of its own, made of the file's name, the line's content and how many equal
lines are above it. So a load that stopped is run again from the beginning and goes on: for as long as an API remembers
keys (24 hours), a line that was created is answered as it was, wherever it is in the file by then. Lines that were
refused, corrected or added are created.
"""

import csv
import json
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TextIO, TypeVar

if TYPE_CHECKING:
    import msgspec

    from minutehand.client import MinutehandApiError, NewSchedule, Schedule
    from minutehand.client._sync.client_scope import Schedules

T = TypeVar("T", bound="msgspec.Struct")

_IN_CALLBACK: Final = ("url", "method", "body")
CSV_COLUMNS: Final = (
    *_IN_CALLBACK,
    *("due", "latest", "key", "label", "ordering_key"),
    *("delay_seconds", "window_seconds", "timeout_seconds", "skip_after_seconds"),
    *("succeed_within_seconds", "succeed_by"),
)
_NUMBERS: Final = (
    *("delay_seconds", "window_seconds", "timeout_seconds", "skip_after_seconds"),
    "succeed_within_seconds",
)
_AT_ONCE: Final = 8
_OF_THE_LINE: Final = ("in-flight", "in-doubt", "content-too-large")
"""Refusals that concern one line, beside those of what it says. Any other would meet all lines, and ends the load."""
_FAULTS_SAID: Final = 100


class Unreadable(ValueError):
    """The file holds what is no schedule: a fault a line."""


class Line(NamedTuple):
    """A schedule, where it is in the file, and its idempotency key."""

    number: int
    idempotency_key: str
    schedule: "NewSchedule"


class _Fault(NamedTuple):
    """`number`: of the line, or None for the whole file."""

    number: int | None
    why: str


_Fields = tuple[int, dict[str, Any]]


def read_lines(file: Path) -> Iterator[Line]:
    """The file's schedules, as they are asked for. Raises Unreadable at the first fault, OSError."""
    for found in _read(file):
        if isinstance(found, _Fault):
            raise Unreadable(_said(found, file))
        yield found


def checked(file: Path) -> tuple[int, Callable[[], Iterable[Line]]]:
    """How many schedules the file lists, and what reads them. Raises Unreadable with every fault, OSError."""
    # What is no file, such as a pipe, can be read once only.
    kept: list[Line] | None = None if file.is_file() else []
    count, faults = 0, list[_Fault]()
    for found in _read(file):
        if isinstance(found, _Fault):
            faults.append(found)
            continue
        count += 1
        if kept is not None:
            kept.append(found)
    if faults:
        more = f" {len(faults) - _FAULTS_SAID:,} more are not named." if len(faults) > _FAULTS_SAID else ""
        said = "; ".join(_said(fault, file) for fault in faults[:_FAULTS_SAID])
        raise Unreadable(f"nothing is created: {said}.{more}")
    return count, lambda: read_lines(file) if kept is None else kept


@dataclass(slots=True)
class Load:
    """What became of a file's lines so far."""

    total: int
    created: int = 0
    refused: list[dict[str, Any]] = field(default_factory=list)

    @property
    def left(self) -> int:
        return self.total - self.created - len(self.refused)

    def run(self, lines: Iterable[Line], schedules: "Schedules", *, told: Callable[[], None]) -> None:
        """Create all, some at a time; those under one key of the client's own one after the other. Calls `told` after
        each. Raises what ends the load, when all that was sent is counted."""
        from minutehand.client import MinutehandClientError

        waiting: deque[tuple[Line, Future[Schedule]]] = deque()
        pool = ThreadPoolExecutor(_AT_ONCE)

        def count_next() -> None:
            self._count(*waiting[0])
            waiting.popleft()
            told()

        try:
            for line in lines:
                own = line.schedule.key
                while len(waiting) == 2 * _AT_ONCE or (own and any(one.schedule.key == own for one, _ in waiting)):
                    count_next()
                waiting.append((line, pool.submit(_create, schedules, line)))
            while waiting:
                count_next()
        finally:
            # What is under way is awaited and counted.
            pool.shutdown(cancel_futures=True)
            for line, future in waiting:
                with suppress(CancelledError, MinutehandClientError):
                    self._count(line, future)

    def _count(self, line: Line, future: "Future[Schedule]") -> None:
        from minutehand.client import MinutehandApiError

        try:
            future.result()
        except MinutehandApiError as error:
            if not _concerns_the_line(error):
                raise
            faults = [{"pointer": fault.pointer, "detail": fault.detail} for fault in error.errors]
            self.refused.append({"line": line.number, "status": error.status, "detail": str(error), "errors": faults})
        else:
            self.created += 1


def _concerns_the_line(error: "MinutehandApiError") -> bool:
    return error.status == 422 or error.kind in _OF_THE_LINE


def _create(schedules: "Schedules", line: Line) -> "Schedule":
    from msgspec import UNSET

    told = {name: getattr(line.schedule, name) for name in line.schedule.__struct_fields__}
    given: dict[str, Any] = {name: value for name, value in told.items() if value is not UNSET}
    callback, own_key = given.pop("callback"), given.pop("key", None)
    if own_key is None:
        return schedules.create(callback, idempotency_key=line.idempotency_key, **given)
    return schedules.put(own_key, callback, idempotency_key=line.idempotency_key, **given)


def _said(fault: _Fault, file: Path) -> str:
    return f"{file} {fault.why}" if fault.number is None else f"line {fault.number} of {file} {fault.why}"


def _read(file: Path) -> Iterator[Line | _Fault]:
    import hashlib

    seen = Counter[bytes]()
    with file.open(encoding="utf-8", newline="") as opened:
        for found in _of_csv(opened) if file.suffix.lower() == ".csv" else _of_json(opened):
            if isinstance(found, _Fault):
                yield found
                continue
            number, fields = found
            digest = hashlib.sha256(f"{file.name} {json.dumps(fields, sort_keys=True)}".encode())
            seen[digest.digest()] += 1
            digest.update(f" {seen[digest.digest()]}".encode())
            schedule, faults = _schedule(dict(fields))
            if schedule is None:
                yield _Fault(number, f"is no schedule: {', '.join(faults)}")
            else:
                yield Line(number, f"load-{digest.hexdigest()}", schedule)


def _of_json(opened: TextIO) -> Iterator[_Fields | _Fault]:
    for number, text in enumerate(opened, start=1):
        if not text.strip():
            continue
        try:
            fields = json.loads(text, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            yield _Fault(number, f"is no JSON: {error.msg} at character {error.pos + 1}")
            continue
        except (ValueError, RecursionError) as error:
            yield _Fault(number, f"is no JSON: {error}")
            continue
        yield (number, fields) if isinstance(fields, dict) else _Fault(number, "is no JSON object")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _of_csv(opened: TextIO) -> Iterator[_Fields | _Fault]:
    """Columns are named after the fields of a schedule, and those of its callback `url`, `method` and `body`. An empty
    cell leaves its field out."""
    rows = csv.DictReader(opened, strict=True)
    try:
        unknown = [name for name in rows.fieldnames or () if name not in CSV_COLUMNS]
        if unknown:
            yield _Fault(None, f"has a head with columns that are unknown: {', '.join(unknown)}")
            return
        for row in rows:
            if None in row or None in row.values():
                yield _Fault(rows.line_num, "has not as many cells as the head")
                continue
            given = {name: cell for name, cell in row.items() if cell}
            callback = {name: given.pop(name) for name in _IN_CALLBACK if name in given}
            numbers = {name: _number(given.pop(name)) for name in _NUMBERS if name in given}
            if wrong := [name for name, number in numbers.items() if number is None]:
                yield _Fault(rows.line_num, ", ".join(f"{name} is no number" for name in wrong))
                continue
            yield rows.line_num, {"callback": callback, **given, **numbers}
    except csv.Error as error:
        yield _Fault(rows.line_num, f"is no CSV: {error}")


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() else number


def _schedule(fields: dict[str, Any]) -> "tuple[NewSchedule | None, list[str]]":
    """The schedule, or every fault. What else may not be is the API's to refuse."""
    from minutehand.client import Callback, LocalTime, NewSchedule, Retry

    faults = list[str]()
    parts: list[tuple[str, type[msgspec.Struct]]] = [("callback", Callback)]
    parts += [
        (name, kind) for name, kind in (("due", LocalTime), ("retry", Retry)) if isinstance(fields.get(name), dict)
    ]
    for name, kind in parts:
        if name in fields:
            fields[name] = _made(kind, fields[name], name, faults)
    schedule = _made(NewSchedule, fields, "", faults)
    return (None, faults) if faults else (schedule, [])


def _made(kind: "type[T]", given: object, where: str, faults: list[str]) -> T | None:
    """An object of the SDK from fields by their names; None with `faults` that name all that are unknown or missing.

    `where`: the field that holds the object; empty for the schedule itself.
    """
    from msgspec.structs import fields

    inside = f"{where}." if where else ""
    if not isinstance(given, dict):
        faults.append(f"{where} is no JSON object")
        return None
    known = {one.name: one.required for one in fields(kind)}
    wrong = [f"{inside}{name} is unknown" for name in given if name not in known]
    wrong += [f"{inside}{name} is missing" for name, required in known.items() if required and name not in given]
    faults += wrong
    if wrong:
        return None
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        faults.append(str(error))
        return None
