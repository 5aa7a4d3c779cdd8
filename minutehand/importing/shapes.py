"""Values of a file, read as the type that is expected of them. Pure.

Files are exported by programs and edited by people, so any value may be anything. A value of another type is a Misfit,
which says where it is, what was expected and what is there; the other entries of the file go on.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

DEEPEST: Final = 64
"""No source nests its values as deep; what does could not be written out again."""
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")


class Misfit(ValueError):
    """A value is not what it has to be; the message says where, and what it has to be."""


@dataclass(frozen=True, slots=True)
class Node:
    """An object of the file. `path`: where it is in its entry, such as `spec.jobTemplate`; empty for the entry.
    `spelled`: how names are written there, where `values` has them in another form.

    What is null or missing is None, an empty object or an empty list; so is an empty text."""

    values: Mapping[str, Any]
    path: str = ""
    spelled: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, path: str = "", *, form: Callable[[str], str] | None = None) -> "Node":
        """`form`: under which name values are asked for. Raises Misfit."""
        if not isinstance(value, Mapping):
            raise misfit(path, "an object", value)
        if form is None:
            return cls(value, path)
        named = [(form(name), name) for name in value if isinstance(name, str)]
        return cls({plain: value[name] for plain, name in named}, path, dict(named))

    def where(self, name: str) -> str:
        written = self.spelled.get(name, name)
        return f"{self.path}.{written}" if self.path else written

    def text(self, name: str) -> str | None:
        """Raises Misfit."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise misfit(self.where(name), "text", value)
        return value or None

    def needed(self, name: str) -> str:
        """A text that must be there. Raises Misfit."""
        text = self.text(name)
        if text is None or not text.strip():
            raise Misfit(f"{self.where(name)} is missing or empty")
        return text

    def word(self, name: str) -> str | None:
        """A text, or a number as one. Raises Misfit."""
        value = self.values.get(name)
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else self.text(name)

    def whole(self, name: str, *, least: int | None = None) -> int | None:
        """A whole number, also written as text. Raises Misfit."""
        value = self.values.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        plain = isinstance(value, int | str) and not isinstance(value, bool)
        if not plain or _WHOLE.fullmatch(text := str(value).strip()) is None:
            raise misfit(self.where(name), "a whole number", value)
        if least is not None and int(text) < least:
            raise Misfit(f"{self.where(name)}: expected a number from {least} on, found {text}")
        return int(text)

    def flag(self, name: str, default: bool) -> bool:
        """Raises Misfit."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise misfit(self.where(name), "true or false", value)
        return default if value is None else value

    def node(self, name: str) -> "Node":
        """Raises Misfit."""
        value = self.values.get(name)
        return Node.of({} if value is None else value, self.where(name))

    def listed(self, name: str) -> Sequence[Any]:
        """Raises Misfit."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, list):
            raise misfit(self.where(name), "a list", value)
        return value or []

    def nodes(self, name: str) -> "list[Node]":
        """Raises Misfit."""
        return [Node.of(one, f"{self.where(name)}[{at}]") for at, one in enumerate(self.listed(name))]

    def texts(self, name: str) -> list[str]:
        """Raises Misfit."""
        for at, one in enumerate(found := list(self.listed(name))):
            if not isinstance(one, str):
                raise misfit(f"{self.where(name)}[{at}]", "text", one)
        return found


def entry_of(value: Any, *, form: Callable[[str], str] | None = None) -> Node:
    """An entry of a file, which can be shown and sent. Raises Misfit."""
    check_writable(value)
    return Node.of(value, form=form)


def misfit(path: str, expected: str, value: Any) -> Misfit:
    found = f"expected {expected}, found {kind_of(value)}"
    return Misfit(f"{path}: {found}" if path else found)


def kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text" if len(value) > 40 else f"the text {value!r}"
        case list():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return f"a {type(value).__name__}"


def json_in(text: str) -> Any:
    """The value of a JSON text that a field of the file holds; the text itself where it is none that can be sent."""
    try:
        value = json.loads(text)
        check_writable(value)
    except (ValueError, RecursionError):
        return text
    return value


def check_writable(value: Any) -> None:
    """Whether a value can be shown and sent: no deeper than DEEPEST, no number that is none, no half of a character.
    Raises Misfit.

    Level by level, each object once: YAML may repeat or contain itself by aliases."""
    level = [("", value)]
    for _ in range(DEEPEST + 1):
        below: dict[int, tuple[str, Any]] = {}
        for path, one in level:
            if isinstance(one, Mapping):
                for name, each in one.items():
                    _check_scalar(path, name)
                    below[id(each)] = (f"{path}.{name}" if path else str(name), each)
            elif isinstance(one, list):
                below.update((id(each), (f"{path}[{at}]", each)) for at, each in enumerate(one))
            else:
                _check_scalar(path, one)
        if not below:
            return
        level = list(below.values())
    raise Misfit(f"is nested deeper than {DEEPEST} levels")


def _check_scalar(path: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise Misfit(f"{path}: expected a number, found {value}")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit(
                f"{path or 'the entry'}: expected text, found half of a character (a lone surrogate)"
            ) from None
