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

from minutehand.importing.shapes import Misfit, Node
from scheduler_service.domain.crons.dialects import DEFAULT_DIALECT, Dialect

LONGEST_ID: Final = 63
_UNNAMEABLE: Final = re.compile(r"[^a-z0-9._-]+")
_BETWEEN: Final = " \t\r\n,"
"""What may be between the values of a JSON text that has several."""
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
class LeftOut:
    """What the source does not fire by a rule, or only for itself; it keeps nothing else from being imported."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Found:
    entries: Sequence[Entry]
    faults: Sequence[Fault]
    left_out: Sequence[LeftOut] = ()


def own_id(source: str, entry: Entry) -> str:
    """The id under which an entry is stored: its name, where ids may have it and no other parts of a name are written
    like it (`a.b` in `c`, `b` in `c.a`); else what remains of it, and a hash of the parts. So two names of a source
    have two ids, whichever files they are in."""
    parts = entry.parts or (entry.name,)
    shown = ".".join(filter(None, parts))
    kept = _UNNAMEABLE.sub("-", shown.lower()).strip("-._")
    made = f"{source}-{kept}"
    parted = not any("." in part for part in parts[:-1]) and (all(parts[:-1]) or "." not in shown)
    if kept == shown and parted and len(made) <= LONGEST_ID and not _HASHED.fullmatch(made):
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


def documents(text: str, what: str, faults: list[Fault]) -> Iterator[tuple[str, Node]]:
    """The objects of a JSON text, each with its place: one, a list, or several one after the other. What is no object
    is a fault. Raises Unreadable."""
    for number, value in enumerate(_json_values(text, what), 1):
        node = readable(f"item {number}", value, faults)
        if node is not None:
            yield f"item {number}", node


def readable(place: str, value: Any, faults: list[Fault]) -> Node | None:
    """An object of the file; None where the value is none, which is a fault then."""
    try:
        return Node.of(value)
    except Misfit as error:
        faults.append(Fault(place, str(error)))
        return None


def _json_values(text: str, what: str) -> Iterator[Any]:
    refuse_empty(text, what)
    decoder, at = json.JSONDecoder(), _next_value(text, 0)
    while at < len(text):
        try:
            found, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise Unreadable(f"is no JSON ({what}): {error.msg} at {where}") from error
        except RecursionError:
            raise Unreadable(f"is nested too deeply to be read ({what})") from None
        except ValueError as error:
            raise Unreadable(f"is no JSON that can be read ({what}): {error}") from error
        at = _next_value(text, at)
        yield from found if isinstance(found, list) else [found]


def _next_value(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BETWEEN:
        at += 1
    return at


def refuse_empty(text: str, what: str) -> None:
    """Raises Unreadable."""
    if not text.strip():
        raise Unreadable(f"is empty: give {what}")
    if text.lstrip()[:1] == "<":
        raise Unreadable(f"looks like XML, which is not read: give {what}")


def records(text: str, what: str, faults: list[Fault]) -> Iterator[tuple[str, Node]]:
    """The rows of an exported table, as JSON or as CSV with a head. What is no object, or has other columns than the
    head, is a fault. Raises Unreadable."""
    refuse_empty(text, what)
    if text.lstrip()[:1] in ("{", "["):
        yield from documents(text, what, faults)
        return
    rows = csv.DictReader(io.StringIO(text), strict=True)
    try:
        for row in rows:
            place = f"line {rows.line_num}"
            if None in row or None in row.values():
                faults.append(Fault(place, f"has other columns than the head ({what})"))
                continue
            yield place, Node({name: value for name, value in row.items() if value not in ("", "NULL")})
    except csv.Error as error:
        raise Unreadable(f"is neither JSON nor CSV ({what}): line {rows.line_num + 1}: {error}") from error


def plain(name: str) -> str:
    """A name without underscores, in lower case: APIs and tables write them differently."""
    return name.replace("_", "").lower()


def text_of(payload: Any) -> str | None:
    """A payload as the text that is sent."""
    return payload if payload is None or isinstance(payload, str) else json.dumps(payload)
