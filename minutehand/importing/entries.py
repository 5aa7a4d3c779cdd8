"""What a reader finds in a file. Pure."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler_service.domain.crons.dialects import DEFAULT_DIALECT, Dialect

LONGEST_ID: Final = 63
_UNNAMEABLE: Final = re.compile(r"[^a-z0-9._-]+")


class Unreadable(ValueError):
    """The file is not of the form that its reader takes; says which one it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One rule or one call of a source.

    `place`: where it is in the file. `name`: in the source. `written`: its rule there. `expression` in `dialect` is
    what is imported; None for a single call `at` an instant (RFC 3339) or, without an offset, a local time in
    `timezone`. `off`: the source does not fire it, so it is not imported. `payload`: what a call carries, as JSON; with
    `body` that text instead. `url`, `method` and `headers`: how the source calls.
    """

    place: str
    name: str
    written: str
    timezone: str
    payload: Mapping[str, Any]
    expression: str | None = None
    dialect: Dialect = DEFAULT_DIALECT
    at: str | None = None
    gap: str = "shift"
    fold: str = "first"
    overlap: str = "allow"
    starts_at: str | None = None
    ends_at: str | None = None
    max_fires: int | None = None
    spread_seconds: int = 0
    catch_up_seconds: float | None = None
    off: bool = False
    url: str | None = None
    method: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """Why something of the file is not imported."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    entries: Sequence[Entry]
    faults: Sequence[Fault]


def own_id(source: str, name: str) -> str:
    """The id under which an entry is stored: its name, as far as ids may have it, else with a hash that tells equal
    remains apart."""
    plain = _UNNAMEABLE.sub("-", name.lower()).strip("-._")
    made = f"{source}-{plain}"
    if plain == name and len(made) <= LONGEST_ID:
        return made
    digest = hashlib.blake2b(name.encode(), digest_size=5).hexdigest()
    return f"{made[: LONGEST_ID - len(digest) - 1].rstrip('-._')}-{digest}"


def documents(text: str, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSON text, each with its place: one, a list, or several one after the other. Raises
    Unreadable."""
    decoder, at, number = json.JSONDecoder(), 0, 0
    stripped = text.strip()
    while at < len(stripped):
        try:
            found, at = decoder.raw_decode(stripped, at)
        except json.JSONDecodeError as error:
            raise Unreadable(f"is no JSON ({what}): {error.msg} at character {error.pos}") from error
        while at < len(stripped) and stripped[at] in " \t\r\n,":
            at += 1
        for one in found if isinstance(found, list) else [found]:
            number += 1
            if not isinstance(one, dict):
                raise Unreadable(f"item {number} is no JSON object ({what})")
            yield f"item {number}", one


def records(text: str, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of an exported table, as JSON or as CSV with a head. Raises Unreadable."""
    if text.lstrip()[:1] in ("{", "["):
        yield from documents(text, what)
        return
    try:
        rows = csv.DictReader(io.StringIO(text), strict=True)
        for row in rows:
            if None in row or None in row.values():
                raise Unreadable(f"line {rows.line_num} has other columns than the head ({what})")
            yield f"line {rows.line_num}", {name: value for name, value in row.items() if value not in ("", "NULL")}
    except csv.Error as error:
        raise Unreadable(f"is neither JSON nor CSV ({what}): {error}") from error


def plain_names(row: Mapping[str, Any]) -> dict[str, Any]:
    """By names without underscores, in lower case: APIs and tables write them differently."""
    return {name.replace("_", "").lower(): value for name, value in row.items()}


def text_of(payload: Any) -> str | None:
    """A payload as the text that is sent."""
    return payload if payload is None or isinstance(payload, str) else json.dumps(payload)
