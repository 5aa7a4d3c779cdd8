"""Query parameters and the variable parts of paths. Each is declared once; the declaration reads and documents it.

A route names its query parameters (`Route.query`); `RequestContext.query` refuses all others.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Final, Generic, TypeVar

from msgspec import Meta
from multidict import MultiMapping

from scheduler_service.domain.clients import CLIENT_ID_PATTERN
from scheduler_service.domain.destinations import DESTINATION_PATTERN
from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.ids import MAX_DUE, UnixMillis
from scheduler_service.domain.instants import parse_instant
from scheduler_service.domain.schedule_keys import KEY_PATTERN
from scheduler_service.domain.subscriptions import SUBSCRIPTION_PATTERN
from scheduler_service.usecases.schedule_request import MAX_TEXT

T = TypeVar("T")

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Schema = Mapping[str, Any]
"""JSON Schema of draft 2020-12."""
DEFAULT_LIMIT = 100
MAX_YEAR = 9998
"""The day after the last one must still be a `date`, whose years end at 9999."""
MAX_CURSOR = 4096
"""Characters of a cursor; longer ones are refused undecoded."""
CURSOR_PATTERN: Final = "^[A-Za-z0-9_-]+$"
CursorText = Annotated[str, Meta(extra_json_schema={"pattern": CURSOR_PATTERN, "maxLength": MAX_CURSOR})]
"""A cursor in a body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(Generic[T]):
    """A query parameter. `sentence` describes it to callers; `read` turns its text into a value, or raises ValueError
    with a sentence that says what it must be."""

    name: str
    sentence: str
    schema: Schema
    read: Callable[[str], T]

    def of(self, query: Mapping[str, str], faults: list[FieldError]) -> T | None:
        """The value; None if it is not given, or is wrong and was added to `faults`."""
        text = query.get(self.name)
        if text is None:
            return None
        try:
            return self.read(text)
        except ValueError as error:
            faults.append(FieldError(f"/{self.name}", str(error)))
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedParameter(Parameter[tuple[T, ...]]):
    """One that may be given several times; its value has each once, in order. `read_all` turns the texts into it, or
    raises ValueError. In a body its field is a text or a list of them."""

    read_all: Callable[[Sequence[str]], tuple[T, ...]]

    def of(self, query: Mapping[str, str], faults: list[FieldError]) -> tuple[T, ...] | None:
        if self.name not in query:
            return None
        texts = query.getall(self.name) if isinstance(query, MultiMapping) else (query[self.name],)
        try:
            return self.read_all(texts)
        except ValueError as error:
            faults.append(FieldError(f"/{self.name}", str(error)))
            return None


def repeated_parameter(
    name: str, sentence: str, *, schema: Schema, most: int, read_all: Callable[[Sequence[str]], tuple[T, ...]]
) -> RepeatedParameter[T]:
    """`schema`: that of one value; it may be given `most` times."""
    return RepeatedParameter(
        name=name,
        sentence=f"{sentence} May be repeated: then any of these.",
        schema={"type": "array", "items": schema, "maxItems": most},
        read=lambda text: read_all((text,)),
        read_all=read_all,
    )


def instant_parameter(name: str, sentence: str) -> Parameter[UnixMillis]:
    return Parameter(name=name, sentence=sentence, schema={"type": "string", "format": "date-time"}, read=_instant)


def day_parameter(name: str, sentence: str) -> Parameter[date]:
    return Parameter(name=name, sentence=sentence, schema={"type": "string", "format": "date"}, read=_day)


def limit_parameter(most: int, *, default: int = DEFAULT_LIMIT) -> Parameter[int]:
    """How many items a page holds at most: 1 to `most`."""

    def read(text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= most:
            return int(text)
        raise ValueError(f"must be an integer from 1 to {most}")

    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": min(default, most)}
    return Parameter(name="limit", sentence="Most items to list. A page may have fewer.", schema=schema, read=read)


def choice_parameter(name: str, sentence: str, choices: Callable[[str], T], values: Iterable[str]) -> Parameter[T]:
    """One of `values`. `choices` converts the text, or raises ValueError or KeyError."""
    known = list(values)

    def read(text: str) -> T:
        try:
            return choices(text)
        except (ValueError, KeyError):
            raise ValueError(f"must be one of {', '.join(known)}") from None

    return Parameter(name=name, sentence=sentence, schema={"type": "string", "enum": known}, read=read)


def flag_parameter(name: str, sentence: str) -> Parameter[bool]:
    """true or false."""
    return choice_parameter(name, sentence, {"true": True, "false": False}.__getitem__, ("true", "false"))


def text_parameter(name: str, sentence: str) -> Parameter[str]:
    def read(text: str) -> str:
        if len(text) > MAX_TEXT:
            raise ValueError(f"must have at most {MAX_TEXT} characters")
        return text

    return Parameter(name=name, sentence=sentence, schema={"type": "string", "maxLength": MAX_TEXT}, read=read)


CURSOR: Final = Parameter(
    name="cursor",
    sentence="`next_cursor` of the previous page. It contains the list's parameters: others given with it must agree.",
    schema={"type": "string", "pattern": CURSOR_PATTERN, "maxLength": MAX_CURSOR},
    read=str,
)


def _instant(text: str) -> UnixMillis:
    # An offset's plus sign that was not percent-encoded arrives as a space.
    instant = parse_instant(text.replace(" ", "+"))
    if not 0 <= instant <= MAX_DUE:
        raise ValueError("must not be before 1970")
    return instant


def _day(text: str) -> date:
    if _DAY.fullmatch(text) is None:
        raise ValueError("must be a day, such as 2026-11-21")
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no day of the calendar") from None
    if not 1970 <= day.year <= MAX_YEAR:
        raise ValueError(f"must be in the years from 1970 to {MAX_YEAR}")
    return day


@dataclass(frozen=True, slots=True)
class PathPart:
    """A variable part of a path. A text that does not match the schema names nothing: 404. `matches`: its form in the
    path, percent-encoded; a colon begins a verb."""

    sentence: str
    schema: Schema
    example: str
    matches: str = "[^/:]+"


_ID: Final[Schema] = {"type": "string", "pattern": CLIENT_ID_PATTERN}
_KEY_ID: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 64}

PATH_PARTS: Final[Mapping[str, PathPart]] = {
    "client_id": PathPart("The client.", _ID, "shop"),
    "schedule_id": PathPart(
        "The schedule.", {"type": "string", "format": "uuid"}, "01a1fd71-2c58-8000-882a-6d1f0c3e5a97"
    ),
    "schedule_key": PathPart(
        "The client's own name of a schedule, percent-encoded: visible ASCII characters.",
        {"type": "string", "pattern": KEY_PATTERN},
        "order-17",
        matches="[^/]+",
    ),
    "cron_id": PathPart("The cron.", _ID, "nightly"),
    "destination": PathPart("The destination's name.", {"type": "string", "pattern": DESTINATION_PATTERN}, "warehouse"),
    "subscription": PathPart(
        "The subscription's name.", {"type": "string", "pattern": SUBSCRIPTION_PATTERN}, "failures"
    ),
    "reconciliation_id": PathPart(
        "The reconciliation.", {"type": "string", "format": "uuid"}, "019aa5c8-1bc0-7a4e-9c1d-5b7e2f90a364"
    ),
    "key_id": PathPart("The key: the part between the underscores.", _KEY_ID, "5c1f0e83d2a94b67"),
    "secret_id": PathPart("The signing secret.", _KEY_ID, "9b2e74d1c06f4a38"),
    "signer": PathPart(
        "The client whose calls are signed, as in `Minutehand-Client`.", {"type": "string", "minLength": 1}, "shop"
    ),
    "ack_token": PathPart(
        "The last part of `Minutehand-Ack-Url`, which signs what the address is for.",
        {"type": "string", "minLength": 1, "maxLength": 1000},
        "AQGh_XEsWIAAiCptHww-WpcAAAABAAAAAAAAAAQAAAGboP0RgHNob3B",
    ),
    "node_id": PathPart("The node.", {"type": "string", "minLength": 1, "maxLength": 128}, "node-a"),
    "kind": PathPart("The last part of a problem's `type`.", {"type": "string", "minLength": 1}, "invalid"),
}
"""By name; a name means the same in every path."""
