"""JSON as Go reads it into a struct. Pure.

    keys in any case                  `appId`, `AppId` and `APPID` are one key; the last one given counts
    unknown keys                      are ignored
    null                              leaves the zero value: empty text, 0, false
    a value of another type           is refused, as is a number with a fraction where an integer is wanted

All wrong values are named at once, where Go names the first.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler_service.api.problems import Refusal
from scheduler_service.domain.errors import FieldError

INT64: Final = (-(1 << 63), (1 << 63) - 1)
UINT32: Final = (0, (1 << 32) - 1)
_decode = msgspec.json.Decoder().decode


class Unreadable(Refusal):
    """A body, or a part of it, that can't be decoded."""

    def __init__(self, detail: str) -> None:
        super().__init__("malformed", detail)


def read_object(data: bytes) -> "GoObject":
    """The body of a request; `null` is an empty object. Raises Unreadable."""
    if not data.strip():
        raise Unreadable("the body is empty; send a JSON object")
    try:
        value = _decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        detail = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Unreadable(f"the body is not valid JSON: {detail.removeprefix('JSON is malformed: ')}") from None
    if value is not None and not isinstance(value, dict):
        raise Unreadable("the body must be a JSON object")
    return GoObject(value or {}, [])


class GoObject:
    """An object whose keys may be in any case. `faults`: what was wrong with the values that were asked for; shared
    with the objects within it."""

    def __init__(self, given: Mapping[str, Any], faults: list[FieldError], *, at: str = "") -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        self._at = at
        self.faults = faults

    def check(self) -> None:
        """Raises Unreadable with every fault so far."""
        if self.faults:
            raise Unreadable(", ".join(f"{fault.pointer} {fault.detail}" for fault in self.faults))

    def has(self, name: str) -> bool:
        """Whether the key is there, with a value or with null."""
        return name.lower() in self._given

    def text(self, name: str) -> str:
        value = self._given.get(name.lower())
        if value is None or isinstance(value, str):
            return value or ""
        self._wrong(name, "must be a string")
        return ""

    def integer(self, name: str, bounds: tuple[int, int] = INT64) -> int:
        value = self._given.get(name.lower())
        if value is None:
            return 0
        if isinstance(value, int) and not isinstance(value, bool) and bounds[0] <= value <= bounds[1]:
            return value
        self._wrong(name, f"must be an integer from {bounds[0]} to {bounds[1]}")
        return 0

    def flag(self, name: str) -> bool:
        value = self._given.get(name.lower())
        if value is None or isinstance(value, bool):
            return bool(value)
        self._wrong(name, "must be true or false")
        return False

    def inner(self, name: str) -> "GoObject":
        """An object within this one; empty if there is none."""
        value = self._given.get(name.lower())
        if value is not None and not isinstance(value, dict):
            self._wrong(name, "must be an object")
            value = None
        return GoObject(value or {}, self.faults, at=f"{self._at}{name}.")

    def texts(self, name: str) -> dict[str, str]:
        """An object of texts, whose keys are as they are written."""
        value = self._given.get(name.lower())
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(one is None or isinstance(one, str) for one in value.values()):
            self._wrong(name, "must be an object of strings")
            return {}
        return {key: one or "" for key, one in value.items()}

    def _wrong(self, name: str, detail: str) -> None:
        self.faults.append(FieldError(f"{self._at}{name}", detail))
