"""Rows of a bulk load's input as requests, by the API's own decoder. Pure.

A flat row becomes the JSON that a caller would have sent, so every format is judged by the same rules with the same
messages; only the pointers in a flat row's faults are changed to its columns.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from scheduler_service.api.http.decoding import Body
from scheduler_service.api.problems import Refusal
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.usecases.schedule_request import ScheduleRequest
from spark.io.bulk_input import NUMBERS

Faults = Callable[[ScheduleRequest], Sequence[FieldError]]

_CALLBACK = (
    "url", "destination", "path", "method", "headers", "body", "json", "body_base64",
    "flow_key", "flow_rate", "flow_parallelism",
)  # fmt: skip
_PREFIXES = ("retry", "due", "ack")
"""Objects of a create whose fields are columns of their own: `retry_max_attempts`, `due_local`."""
_JSON_TEXTS = ("headers", "json", "retry_final_statuses")
_MOST_SHOWN = 20
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?")
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_check_json = msgspec.json.Decoder(msgspec.Raw).decode


class Line(msgspec.Struct, gc=False):
    """A row as an executor gets it (`transforms.bulk.spread`)."""

    id: int
    row: str = ""
    key: str = ""
    broken: str | None = None
    place: str | None = None


class Reader:
    """Makes requests of rows. `flat`: rows have columns, instead of lines in the API's form. `key`: the field of a line
    that is its key; it is no field of the request unless the API has that name."""

    def __init__(self, *, flat: bool, key: str) -> None:
        self._flat = flat
        self._body: Body[ScheduleRequest] = Body(ScheduleRequest if flat else _with_key(key))

    def request(self, row: str, faults: Faults) -> ScheduleRequest | Invalid:
        """`faults`: the rules by which a malformed row is judged as well, so that all its faults are reported at once.
        A well-formed row is judged where it is loaded (`usecases.bulk_load`)."""
        try:
            data = _nested(_decode(row)) if self._flat else row.encode()
            return self._body.decode(data, faults)
        except Refusal as refusal:
            return Invalid([FieldError("", str(refusal))])
        except Invalid as invalid:
            return invalid

    def reasons(self, errors: Sequence[FieldError]) -> list[str]:
        """The faults as sentences for the author of the input."""
        shown = [self._reason(error) for error in errors[:_MOST_SHOWN]]
        return shown if len(errors) <= _MOST_SHOWN else [*shown, f"and {len(errors) - _MOST_SHOWN} more"]

    def _reason(self, error: FieldError) -> str:
        place = _column(error.pointer) if self._flat else error.pointer
        return f"{place}: {error.detail}" if place else error.detail


def _with_key(key: str) -> type[ScheduleRequest]:
    if any(field.encode_name == key for field in msgspec.structs.fields(ScheduleRequest)):
        return ScheduleRequest
    field = ("key_of_load", Any, msgspec.field(default=None, name=key))
    made = msgspec.defstruct(
        "Line", [field], bases=(ScheduleRequest,), frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False
    )
    assert issubclass(made, ScheduleRequest)
    return made


def _nested(row: dict[str, Any]) -> bytes:
    """Raises Invalid for a cell whose JSON text is malformed."""
    request: dict[str, Any] = {"callback": {}}
    faults = []
    for name, value in row.items():
        if type(value) is str:
            if name in _JSON_TEXTS:
                try:
                    value = _check_json(value)
                except (msgspec.DecodeError, RecursionError):
                    faults.append(FieldError(_pointer(name), "is not valid JSON"))
                    continue
            elif name in NUMBERS:
                value = _number(value)
        *objects, field = _path(name)
        inner = request
        for one in objects:
            inner = inner.setdefault(one, {})
        if type(inner) is dict and field not in inner:
            inner[field] = value
        else:
            faults.append(FieldError("/due", "give exactly one of due and due_local; both are given"))
            break
    if faults:
        raise Invalid(faults)
    return msgspec.json.encode(request)


def _number(text: str) -> int | float | str:
    """A number as JSON writes it; other text stays text, and is refused as such."""
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.removeprefix("-").isdecimal() else float(text)


def _path(column: str) -> tuple[str, ...]:
    """Where the cell of a column is in a create: the names of objects, and of the field."""
    if column in _CALLBACK:
        return ("callback", column)
    outer, _, inner = column.partition("_")
    return (outer, inner) if inner and outer in _PREFIXES else (column,)


def _pointer(column: str) -> str:
    return "/" + "/".join(_path(column))


def _column(pointer: str) -> str:
    name = pointer.removeprefix("/callback").removeprefix("/")
    outer, _, inner = name.partition("/")
    return f"{outer}_{inner}" if outer in _PREFIXES and inner else name
