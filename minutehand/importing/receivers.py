"""Where the calls of an import go, and what they carry. Pure."""

import json
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from minutehand.importing.entries import Entry

MASK: Final = "***"
"""What the API shows instead of a credential."""
BODY_SHOWN: Final = 80
"""Characters of a body that are shown."""
_SECRET: Final = re.compile(r"(?i)auth|code|cred|key|pass|pwd|secret|sig|token")
PARTS_SHOWN: Final = 2
"""Of a path. Some receivers have a secret as its last part, and no name says so."""
_PAIR: Final = re.compile(r"([^&;=]+)=([^&;]+)")
_FIELDS: Final = frozenset({"id", "name"})


class NoReceiver(ValueError):
    """The file does not say where calls go, nor do the options."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """A URL, or a destination of the client's and a path below it. In URL and path `{name}` is the entry's name in
    the source and `{id}` its id here, both as one segment of a path."""

    url: str | None = None
    destination: str | None = None
    path: str | None = None

    def check(self) -> None:
        """Raises NoReceiver for a template that can't be filled."""
        for text in (self.url, self.path):
            try:
                named = {name for _, name, *_ in string.Formatter().parse(text or "") if name is not None}
            except ValueError as error:
                raise NoReceiver(f"{text!r} is no template: {error}") from error
            if not named <= _FIELDS:
                raise NoReceiver(f"{text!r} names {{{min(named - _FIELDS)}}}; there are {{name}} and {{id}}")
            if any(form or conversion for _, _, form, conversion in string.Formatter().parse(text or "")):
                raise NoReceiver(f"{text!r}: write {{name}} and {{id}} without a format")

    def callback(self, entry: Entry, own_id: str) -> Mapping[str, Any]:
        """The fields of a callback. Raises NoReceiver."""
        names = {"id": quote(own_id, safe=""), "name": quote(entry.name, safe="")}
        told: dict[str, Any] = {}
        if self.destination is not None:
            told["destination"] = self.destination
            if self.path is not None:
                told["path"] = self.path.format(**names)
        elif self.url is not None or entry.url:
            told["url"] = entry.url if self.url is None else self.url.format(**names)
        else:
            raise NoReceiver("nothing says where the calls go: give --url-template, or --destination")
        if entry.method:
            told["method"] = entry.method
        if entry.headers:
            told["headers"] = dict(entry.headers)
        if entry.body is not None:
            told["body"] = entry.body
        elif entry.payload:
            told["json"] = dict(entry.payload)
        return told


def call_shown(callback: Mapping[str, Any]) -> dict[str, Any]:
    """A callback for a person who looks before anything is stored: without values of headers, with the size of its body
    and how that begins. A URL and a path are shown without password, fragment, parts behind the first `PARTS_SHOWN`,
    and values whose names tell them to be secret."""
    told = {name: callback.get(name) for name in ("url", "destination", "path", "method")}
    if told["path"] is not None:
        told["path"] = _without_secrets(told["path"])
    if told["url"] is not None:
        told["url"] = _without_secrets(told["url"]) if "://" in told["url"] else MASK
        told["method"] = told["method"] or "POST"
    body = callback.get("body")
    if "json" in callback:
        body = json.dumps(callback["json"], ensure_ascii=False, separators=(",", ":"))
    return {
        **told,
        "headers": dict.fromkeys(callback.get("headers", {}), MASK),
        "body_bytes": len((body or "").encode()),
        "body_begin": (body or "")[:BODY_SHOWN],
    }


def _without_secrets(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        # The API will say why it is none.
        return MASK
    host = parts.netloc.rpartition("@")
    segments = parts.path.split("/")
    shown = [_without_values(segment) for segment in segments[: PARTS_SHOWN + 1]]
    return urlunsplit(
        parts._replace(
            netloc=f"{MASK}@{host[2]}" if host[1] else host[2],
            path="/".join([*shown, MASK] if len(segments) > len(shown) else shown),
            query=_without_values(parts.query),
            fragment=MASK if parts.fragment else "",
        )
    )


def _without_values(text: str) -> str:
    """Without the values of `name=value` whose names tell that they are secret, separated by `&` or `;`."""
    return _PAIR.sub(lambda pair: f"{pair[1]}={MASK}" if _SECRET.search(unquote(pair[1])) else pair[0], text)


def is_same_call(asked: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    """Whether a callback that is shown by the API is the one that is asked for. Values of headers that are masked there
    count as the same."""
    method = asked.get("method", "" if "destination" in asked else "POST")
    places = all((shown.get(name) or None) == asked.get(name) for name in ("url", "destination", "path"))
    if not places or (shown.get("method") or "") != method:
        return False
    headers = {name.lower(): value for name, value in (shown.get("headers") or {}).items()}
    wanted = {name.lower(): value for name, value in asked.get("headers", {}).items()}
    if "json" in asked:
        headers = {name: value for name, value in headers.items() if name in wanted or name != "content-type"}
    if headers.keys() != wanted.keys() or any(headers[name] not in (wanted[name], MASK) for name in wanted):
        return False
    body = shown.get("body")
    if "json" not in asked:
        return body == asked.get("body")
    try:
        return bool(json.loads(body or "") == asked["json"])
    except json.JSONDecodeError:
        return False
