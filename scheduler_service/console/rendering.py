"""Templates, their filters, and the files that pages load."""

import gzip
import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from scheduler_service.console.contents import address_of
from scheduler_service.domain.crons import InvalidRule
from scheduler_service.domain.crons.zones import load_zone

STATIC: Final = files("scheduler_service.console") / "static"
TYPES: Final = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_SECONDS_IN: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


class StaticFile(NamedTuple):
    """A file that pages load. `gzipped`: the same, compressed."""

    content_type: str
    body: bytes
    gzipped: bytes


@cache
def _static_files() -> Mapping[str, StaticFile]:
    """All of them by name, read and compressed once in a process."""
    found = {file.name: file.read_bytes() for file in STATIC.iterdir() if file.is_file()}
    return {
        name: StaticFile(TYPES[ending], body, gzip.compress(body, mtime=0))
        for name, body in found.items()
        if (ending := name.rpartition(".")[2]) in TYPES
    }


def static_file(name: str) -> StaticFile | None:
    """A file of the console; None: there is no such one."""
    return _static_files().get(name)


@cache
def version_of(name: str) -> str:
    """Part of the address of a file, which changes with its content: so browsers may keep it for good."""
    return hashlib.sha256(_static_files()[name].body).hexdigest()[:12]


def duration(seconds: float | None) -> str:
    """`40 ms`, `4.2 s`, `1 min 5 s`, `3 h`: two units at most."""
    if seconds is None:
        return "–"
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if abs(seconds) < 10:
        return f"{seconds:.1f} s" if seconds else "0 s"
    left, parts = round(abs(seconds)), []
    for unit, size in _SECONDS_IN:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return ("−" if seconds < 0 else "") + " ".join(parts[:2])


def instant(text: str | None, now_ms: int) -> Markup:
    """An instant as the time from now, with UTC as its title and for machines."""
    if not text:
        return Markup('<span class="dim">–</span>')
    at = datetime.fromisoformat(text)
    seconds = at.timestamp() - now_ms / 1000
    about = "now" if abs(seconds) < 1 else f"in {duration(seconds)}" if seconds > 0 else f"{duration(-seconds)} ago"
    full = at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
    return Markup('<time datetime="{}" title="{} UTC" tabindex="0">{}</time>').format(text, full, about)


def zone_of(name: str) -> tzinfo:
    """UTC for a name that only another version knows."""
    try:
        return load_zone(name)
    except InvalidRule:
        return UTC


def in_zone(text: str, zone: str) -> str:
    """An instant as clocks of a zone show it: `Mon 30 Nov 2026 02:30 CET`."""
    return datetime.fromisoformat(text).astimezone(zone_of(zone)).strftime("%a %d %b %Y %H:%M %Z")


def viewers(text: str) -> Markup:
    """An instant in UTC, which scripts show in the viewer's zone instead."""
    shown = datetime.fromisoformat(text).astimezone(UTC).strftime("%a %d %b %Y %H:%M UTC")
    return Markup('<time datetime="{}" data-viewer>{}</time>').format(text, shown)


def rate(value: float) -> str:
    """So many a second: without a fraction from ten on."""
    return f"{value:,.0f}" if value >= 10 else f"{value:,.1f}"


def number(value: float | None) -> str:
    """With separators between thousands."""
    return "–" if value is None else f"{value:,}"


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


_STATES: Final[Mapping[str, str]] = {
    "delivered": "good",
    "active": "good",
    "live": "good",
    "failed": "bad",
    "dead": "bad",
    "suspended": "bad",
    "open": "bad",
    "retrying": "warn",
    "awaiting": "warn",
    "paused": "warn",
    "draining": "warn",
    "skipped": "warn",
    "missed": "bad",
    "snoozed": "warn",
    "done": "good",
    "extend": "warn",
    "closed": "good",
    "half-open": "warn",
}
"""What a state's colour says; its word says the same."""


def tone(word: str) -> str:
    return _STATES.get(word, "plain")


def state(word: str) -> Markup:
    return Markup('<span class="state {}">{}</span>').format(tone(word), word)


@cache
def environment() -> Environment:
    """The templates, which escape all values."""
    made = Environment(
        loader=PackageLoader("scheduler_service.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "duration": duration,
        "number": number,
        "rate": rate,
        "state": state,
        "as_json": as_json,
        "address": address_of,
        "pair": lambda one: (one, one),
        "in_zone": in_zone,
        "viewers": viewers,
        "tone": tone,
    }
    made.globals |= {"static": lambda name: f"/console/static/{version_of(name)}/{name}", "notice": None}
    return made


def show_notice(sentence: str) -> None:
    """Show a sentence on top of every page of this process from now on."""
    environment().globals["notice"] = sentence
