"""Where the calls of an import go, and what they carry. Pure."""

import string
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from minutehand.importing.definitions import Definition

_FIELDS: Final = frozenset({"id", "name"})


class NoReceiver(ValueError):
    """The file does not say where calls go, nor do the options."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """A URL, or a destination of the client's and a path below it. In URL and path `{name}` is the definition's name in
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

    def callback(self, definition: Definition, own_id: str) -> Mapping[str, Any]:
        """The fields of a callback. Raises NoReceiver."""
        names = {"id": quote(own_id, safe=""), "name": quote(definition.name, safe="")}
        told: dict[str, Any] = {}
        if self.destination is not None:
            told["destination"] = self.destination
            if self.path is not None:
                told["path"] = self.path.format(**names)
        elif self.url is not None or definition.url:
            told["url"] = definition.url if self.url is None else self.url.format(**names)
        else:
            raise NoReceiver("nothing says where the calls go: give --url-template, or --destination")
        if definition.method:
            told["method"] = definition.method
        if definition.headers:
            told["headers"] = dict(definition.headers)
        if definition.body is not None:
            told["body"] = definition.body
        elif definition.payload:
            told["json"] = dict(definition.payload)
        return told
