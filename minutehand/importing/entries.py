"""What a reader finds in a file. Pure."""

import base64
import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler_service.domain.crons.dialects import DEFAULT_DIALECT, Dialect

LONGEST_ID: Final = 63
_UNNAMEABLE: Final = re.compile(r"[^a-z0-9._-]+")
_DIGEST_BYTES: Final = 10
_HASHED: Final = re.compile(r".*--[a-z2-7]{16}")
"""The form of ids with a hash; names that look like it get one, too."""


class Unreadable(ValueError):
    """The file is not of the form that its reader takes; says which one it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One rule or one call of a source.

    `place`: where it is in the file. `name`: in the source. `parts` of that name, from the widest on, such as
    namespace and name; an empty one is the default, which the name does not show; none: the name has no parts.
    `written`: its rule there. `expression` in `dialect` is what is imported; None for a single call `at` an instant
    (RFC 3339) or, without an offset, a local time in `timezone`. `off`: the source does not fire it, so it is not
    imported. `payload`: what a call carries, as JSON; with `body` that text instead. `url`, `method` and `headers`:
    how the source calls.
    """

    place: str
    name: str
    written: str
    timezone: str
    payload: Mapping[str, Any]
    parts: tuple[str, ...] = ()
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


def own_id(source: str, entry: Entry) -> str:
    """The id under which an entry is stored: its name, where ids may have it and no other parts of a name are written
    like it (`a.b` in `c`, `b` in `c.a`); else what remains of it, and a hash of the parts. So two names of a source
    have two ids, whichever files they are in."""
    parts = entry.parts or (entry.name,)
    shown = ".".join(filter(None, parts))
    plain = _UNNAMEABLE.sub("-", shown.lower()).strip("-._")
    made = f"{source}-{plain}"
    parted = not any("." in part for part in parts[:-1]) and (all(parts[:-1]) or "." not in shown)
    if plain == shown and parted and len(made) <= LONGEST_ID and not _HASHED.fullmatch(made):
        return made
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=_DIGEST_BYTES).digest()
    told = base64.b32encode(digest).decode().lower()
    return f"{made[: LONGEST_ID - len(told) - 2].rstrip('-._')}--{told}"


def doubled(named: Iterable[tuple[str, Entry]]) -> list[Fault]:
    """A fault for each entry whose id (given beside it) another one before it has."""
    first: dict[str, Entry] = {}
    faults: list[Fault] = []
    for own, entry in named:
        other = first.setdefault(own, entry)
        if other is not entry:
            same = f"{entry.name} has the id {own}, as {other.name} of {other.place} has"
            faults.append(Fault(entry.place, f"{same}: leave one of them in the file"))
    return faults


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
