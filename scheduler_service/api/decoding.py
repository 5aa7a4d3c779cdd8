"""JSON bodies into structs, with every fault named at once.

msgspec decodes and validates in one pass and stops at the first fault. So a right body takes that way alone, and only a
wrong one is walked again, field by field: unknown fields, missing ones, wrong types, wrong values. What is left is
judged by the use case's own rules, with stand-ins for the fields that are already known to be wrong, and both lists are
answered together.
"""

import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec

from scheduler_service.api.problems import MAX_FAULTS, Refusal
from scheduler_service.domain.errors import FieldError, Invalid

T = TypeVar("T", bound=msgspec.Struct)
Rules = Callable[[T], Sequence[FieldError]]
"""The semantic rules of a struct: everything wrong with a well-formed one."""

_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}
_PATH = re.compile(r" - at `.*`$", re.DOTALL)
_QUOTED = re.compile(r"`([^`]*)`")
_STAND_INS: Mapping[Any, Any] = {str: "", int: 0, float: 0.0, bool: False, msgspec.Raw: msgspec.Raw()}


class Body(Generic[T]):
    """Decodes the bodies of one type. Made once per type."""

    def __init__(self, type_: type[T]) -> None:
        self.type = type_
        self._decode = msgspec.json.Decoder(type_).decode

    def decode(self, data: bytes, rules: Rules[T] | None = None) -> T:
        """Raises Refusal (malformed) and Invalid. `rules` are only asked about a body that is wrong anyway: whoever
        takes a right one applies them himself."""
        value = self.decode_if_right(data)
        if value is None:
            raise self._explain(data, rules)
        return value

    def decode_if_right(self, data: bytes) -> T | None:
        """None for JSON that is not as the type says. Raises Refusal (malformed)."""
        if not data.isascii():
            _check_utf8(data)
        try:
            return self._decode(data)
        except msgspec.ValidationError:
            return None
        except (msgspec.DecodeError, RecursionError) as error:
            raise _malformed(data, error) from None

    def _explain(self, data: bytes, rules: Rules[T] | None) -> Invalid:
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _malformed(data, error) from None
        walk = _Walk()
        rest = walk.value(value, self.type, "")
        faults = walk.faults
        if rules is not None and isinstance(rest, self.type):
            wrong = {fault.pointer for fault in faults}
            faults.extend(fault for fault in rules(rest) if not _under(fault.pointer, wrong))
        if not faults:
            # Read as a plain object, only the last of the same names counts.
            faults.append(FieldError("", "a field is given more than once, and once with a wrong value"))
        return Invalid(faults)


def _check_utf8(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise Refusal("malformed", f"the body is not UTF-8 (byte {error.start})") from None


def _malformed(data: bytes, error: Exception) -> Refusal:
    if not data.strip():
        return Refusal("malformed", "the body is empty; send a JSON object")
    if isinstance(error, RecursionError):
        return Refusal("malformed", "the body is nested too deeply")
    return Refusal("malformed", f"the body is not valid JSON: {str(error).removeprefix('JSON is malformed: ')}")


class _Walk:
    """Collects faults; answers what is right, with stand-ins for what is wrong."""

    def __init__(self) -> None:
        self.faults: list[FieldError] = []

    def value(self, value: object, type_: Any, pointer: str) -> Any:
        before = len(self.faults)
        if before > MAX_FAULTS:
            return _stand_in(type_)
        plain = _plain(type_)
        result: Any = value
        if value is None and plain is not type_ and _takes_null(type_):
            return None
        if plain is msgspec.Raw:
            return msgspec.Raw(msgspec.json.encode(value))
        if isinstance(plain, type) and issubclass(plain, msgspec.Struct) and isinstance(value, dict):
            return self._struct(value, plain, pointer)
        origin, arguments = get_origin(plain), get_args(plain)
        if origin in (list, tuple) and isinstance(value, list):
            result = [self.value(item, arguments[0], f"{pointer}/{index}") for index, item in enumerate(value)]
        elif origin is dict and isinstance(value, dict):
            result = {name: self.value(item, arguments[1], f"{pointer}/{token(name)}") for name, item in value.items()}
        if len(self.faults) > before:
            assert origin is not None
            return origin(result)
        try:
            return msgspec.convert(result, type_)
        except msgspec.ValidationError as error:
            self.faults.append(FieldError(pointer, _sentence(str(error), plain)))
            return _stand_in(type_)

    def _struct(self, value: dict[str, object], type_: type[msgspec.Struct], pointer: str) -> msgspec.Struct:
        fields = {field.encode_name: field for field in msgspec.structs.fields(type_)}
        for name in value.keys() - fields.keys():
            if len(self.faults) <= MAX_FAULTS:
                known = ", ".join(fields)
                self.faults.append(FieldError(f"{pointer}/{token(name)}", f"is not a known field; known are {known}"))
        result: dict[str, Any] = {}
        for name, field in fields.items():
            if name in value:
                result[field.name] = self.value(value[name], field.type, f"{pointer}/{name}")
            elif field.required:
                self.faults.append(FieldError(f"{pointer}/{name}", "is required"))
                result[field.name] = _stand_in(field.type)
        return type_(**result)


def _plain(type_: Any) -> Any:
    """A type without its annotations, and without null where that leaves one."""
    while get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    if get_origin(type_) in (Union, types.UnionType):
        others = [member for member in get_args(type_) if member is not type(None)]
        return _plain(others[0]) if len(others) == 1 else type_
    return type_


def _takes_null(type_: Any) -> bool:
    while get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    return get_origin(type_) in (Union, types.UnionType) and type(None) in get_args(type_)


def _stand_in(type_: Any) -> Any:
    """A value of the right type for a field that is known to be wrong."""
    plain = _plain(type_)
    if isinstance(plain, type) and issubclass(plain, msgspec.Struct):
        required = {field.name: field.type for field in msgspec.structs.fields(plain) if field.required}
        return plain(**{name: _stand_in(field_type) for name, field_type in required.items()})
    origin = get_origin(plain)
    if origin is typing.Literal:
        return get_args(plain)[0]
    if origin is not None:
        return origin()
    return _STAND_INS.get(plain)


def _under(pointer: str, wrong: set[str]) -> bool:
    """Whether a pointer is one of those known to be wrong, or leads into one."""
    return any(pointer == other or pointer.startswith(other + "/") for other in wrong)


def token(name: str) -> str:
    """One reference token of a JSON pointer, cut so that a hostile name can't blow up the answer."""
    return name[:128].replace("~", "~0").replace("/", "~1")


def _sentence(message: str, plain: Any) -> str:
    """msgspec's message for a caller who doesn't know Python."""
    message = _PATH.sub("", message)
    if get_origin(plain) is typing.Literal:
        return f"must be one of {', '.join(map(str, get_args(plain)))}"
    if isinstance(plain, type) and issubclass(plain, Enum):
        return f"must be one of {', '.join(str(one.value) for one in plain)}"
    if message.startswith("Invalid enum value"):
        # What was sent is not repeated: it may be a secret in the wrong place.
        return "is none of the values that there are"

    def words(match: re.Match[str]) -> str:
        return " or ".join(_WORDS.get(name, name) for name in match[1].split(" | "))

    message = _QUOTED.sub(words, message)
    return message.replace("Expected ", "must be ", 1).replace(", got ", ", not ", 1)
