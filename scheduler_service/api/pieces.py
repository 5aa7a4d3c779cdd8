"""JSON read piece by piece, so that every fault is found and bounds are checked before their content is read.

An object or array is split into the bytes of its members without decoding them, which costs about 3 ms a MiB whatever
it holds; each member is then decoded by its own type. Values that no field takes are not decoded: those of unknown
fields, and the items of an array that is too long. Plain decoding costs up to 300 ms a MiB (numbers whose exponents
exceed a float's range, empty arrays in arrays).

So the types that are read here must bound their arrays and their objects with free names (`Meta(max_length=)`).
"""

import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cache
from itertools import islice
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, UnsetType

from scheduler_service.domain.errors import FieldError

LARGE: Final = 64 * 1024
"""Bytes up to which any value is decoded in one go: that costs 10 ms at most."""
MANY_NAMES: Final = 10_000
"""In an object longer than LARGE with more colons than this (an upper bound of its members at all depths), only the
first unknown field is named."""

_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}
_UNIONS: Final = (Union, types.UnionType)
_PATH = re.compile(r" - at `.*`$", re.DOTALL)
_QUOTED = re.compile(r"`([^`]*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`\Z", re.DOTALL)
_STAND_INS: Mapping[Any, Any] = {str: "", int: 0, float: 0.0, bool: False, msgspec.Raw: msgspec.Raw()}


class Pieces:
    """Collects up to `most` + 1 faults; answers the value, with stand-ins for its wrong parts."""

    def __init__(self, most: int) -> None:
        self.faults: list[FieldError] = []
        self.all_read = True
        """Whether all faults are known, up to `most`."""
        self._most = most

    @property
    def full(self) -> bool:
        return len(self.faults) > self._most

    def value(self, data: bytes | msgspec.Raw, type_: Any, pointer: str) -> Any:
        """Raises DecodeError (not JSON) and RecursionError."""
        if self.full:
            return _stand_in(type_)
        plain, origin, is_struct = _shape(type_)
        if origin in _UNIONS and bytes(data).startswith(b"{") and (struct := _struct_of(plain)) is not None:
            return self.value(data, struct, pointer)
        if len(data) <= LARGE or not (is_struct or origin in (list, tuple, dict)):
            if plain is msgspec.Raw and isinstance(data, msgspec.Raw):
                return data
            try:
                return _decoder(type_)(data)
            except msgspec.ValidationError as error:
                wrong = _sentence(str(error), plain)
        else:
            wrong = f"must be {'an array' if origin in (list, tuple) else 'an object'}"
        try:
            if is_struct:
                return self._struct(data, plain, pointer)
            if origin in (list, tuple):
                return self._array(data, type_, plain, pointer)
            if origin is dict:
                return self._object(data, type_, plain, pointer)
        except _NotSplit:
            pass
        return self._wrong(pointer, wrong, type_)

    def _struct(self, data: bytes | msgspec.Raw, type_: type[msgspec.Struct], pointer: str) -> Any:
        fields = _fields(type_)
        if len(data) <= LARGE or bytes(data).count(b":") <= MANY_NAMES:
            parts = _members(data)
            unknown = (name for name in parts if name not in fields)
            for name in islice(unknown, self._most + 1 - len(self.faults)):
                self._unknown(name, fields, pointer)
        else:
            try:
                parts = _struct_splitter(type_)(data)
            except msgspec.ValidationError as error:
                found = _UNKNOWN.match(_PATH.sub("", str(error)))
                if found is None:
                    raise _NotSplit from None
                self._unknown(found[1], fields, pointer)
                self.all_read = False
                return _stand_in(type_)
        result: dict[str, Any] = {}
        for name, field in fields.items():
            if (part := parts.get(name)) is not None:
                result[field.name] = self.value(part, field.type, f"{pointer}/{name}")
            elif field.required:
                result[field.name] = self._wrong(f"{pointer}/{name}", "is required", field.type)
        return type_(**result)

    def _array(self, data: bytes | msgspec.Raw, type_: Any, plain: Any, pointer: str) -> Any:
        least, most = _bounds(type_)
        try:
            items = msgspec.structs.astuple(_array_splitter(most)(data))
        except msgspec.ValidationError as error:
            if "length" not in str(error):
                raise _NotSplit from None
            return self._wrong(pointer, f"must be an array of length <= {most}", type_)
        # The struct has a field for each possible item; those beyond the array's end are UNSET.
        parts = items[: len(items) - items.count(UNSET)]
        if len(parts) < least:
            return self._wrong(pointer, f"must be an array of length >= {least}", type_)
        origin, item_type = get_origin(plain), get_args(plain)[0]
        if item_type is msgspec.Raw:
            return origin(parts)
        return origin(self.value(part, item_type, f"{pointer}/{index}") for index, part in enumerate(parts))

    def _object(self, data: bytes | msgspec.Raw, type_: Any, plain: Any, pointer: str) -> Any:
        _, most = _bounds(type_)
        too_many = f"must be an object of length <= {most}"
        if len(data) > LARGE and bytes(data).count(b":") > MANY_NAMES:
            return self._wrong(pointer, too_many, type_)
        parts = _members(data)
        if len(parts) > most:
            return self._wrong(pointer, too_many, type_)
        value_type = get_args(plain)[1]
        return {name: self.value(part, value_type, f"{pointer}/{token(name)}") for name, part in parts.items()}

    def _unknown(self, name: str, fields: Mapping[str, Any], pointer: str) -> None:
        detail = f"is not a known field; known are {', '.join(fields)}"
        self.faults.append(FieldError(f"{pointer}/{token(name)}", detail))

    def _wrong(self, pointer: str, detail: str, type_: Any) -> Any:
        self.faults.append(FieldError(pointer, detail))
        return _stand_in(type_)


class _NotSplit(Exception):
    """The value to be split is no object, or no array."""


_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _members(data: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of an object."""
    try:
        return _decode_members(data)
    except msgspec.ValidationError:
        raise _NotSplit from None


@cache
def _shape(type_: Any) -> tuple[Any, Any, bool]:
    """The type as `_plain` returns it, its origin (`list[int]`: list), and whether it is a struct."""
    plain = _plain(type_)
    return plain, get_origin(plain), isinstance(plain, type) and issubclass(plain, msgspec.Struct)


@cache
def _struct_of(union: Any) -> type[msgspec.Struct] | None:
    """The member of a union that an object is read as."""
    return next((member for member in get_args(union) if _shape(member)[2]), None)


@cache
def _decoder(type_: Any) -> Callable[[bytes | msgspec.Raw], Any]:
    return msgspec.json.Decoder(type_).decode


@cache
def _fields(type_: type[msgspec.Struct]) -> Mapping[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(type_)}


@cache
def _struct_splitter(type_: type[msgspec.Struct]) -> Callable[[bytes | msgspec.Raw], dict[str, msgspec.Raw]]:
    """Splits an object with the fields of this struct into its members. Raises ValidationError at the first unknown
    one."""
    names = {f"f{number}": name for number, name in enumerate(_fields(type_))}
    decode = _raw_struct(len(names), rename=names)

    def split(data: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
        parts = zip(names.values(), msgspec.structs.astuple(decode(data)), strict=True)
        return {name: part for name, part in parts if part is not UNSET}

    return split


@cache
def _array_splitter(most: int) -> Callable[[bytes | msgspec.Raw], msgspec.Struct]:
    """Splits an array into its items, as the fields of a struct. Raises ValidationError after `most` items."""
    return _raw_struct(most, array_like=True)


def _raw_struct(count: int, **how: Any) -> Callable[[bytes | msgspec.Raw], msgspec.Struct]:
    fields = [(f"f{number}", msgspec.Raw | UnsetType, UNSET) for number in range(count)]
    type_ = msgspec.defstruct("_Split", fields, forbid_unknown_fields=True, gc=False, **how)
    return msgspec.json.Decoder(type_).decode


def _bounds(type_: Any) -> tuple[int, int]:
    """The least and the greatest number of members of an array or object of this type."""
    least, most = 0, None
    for meta in _metas(type_):
        least, most = meta.min_length or least, meta.max_length or most
    if most is None:
        raise TypeError(f"{type_} needs a Meta with max_length: it is read from requests")
    return least, most


def _metas(type_: Any) -> Iterator[Meta]:
    if get_origin(type_) is Annotated:
        inner, *notes = get_args(type_)
        yield from (note for note in notes if isinstance(note, Meta))
        yield from _metas(inner)
    elif get_origin(type_) in _UNIONS:
        for member in get_args(type_):
            yield from _metas(member)


def _plain(type_: Any) -> Any:
    """The type without annotations, and without None if one type is left then."""
    while get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    if get_origin(type_) in _UNIONS:
        others = [member for member in get_args(type_) if member is not type(None)]
        return _plain(others[0]) if len(others) == 1 else type_
    return type_


def _stand_in(type_: Any) -> Any:
    """A value of the right type for a field that is known to be wrong."""
    plain = _plain(type_)
    if isinstance(plain, type) and issubclass(plain, msgspec.Struct):
        required = {field.name: field.type for field in msgspec.structs.fields(plain) if field.required}
        return plain(**{name: _stand_in(field_type) for name, field_type in required.items()})
    origin = get_origin(plain)
    if origin is typing.Literal:
        return get_args(plain)[0]
    if origin in _UNIONS:
        return _stand_in(get_args(plain)[0])
    if origin is not None:
        return origin()
    return _STAND_INS.get(plain)


def token(name: str) -> str:
    """One reference token of a JSON pointer, truncated so that a hostile name can't inflate the answer."""
    return name[:128].replace("~", "~0").replace("/", "~1")


def _sentence(message: str, plain: Any) -> str:
    """msgspec's message, reworded for callers who don't know Python."""
    message = _PATH.sub("", message)
    if get_origin(plain) is typing.Literal:
        return f"must be one of {', '.join(map(str, get_args(plain)))}"
    if isinstance(plain, type) and issubclass(plain, Enum):
        return f"must be one of {', '.join(str(one.value) for one in plain)}"
    if message.startswith("Invalid enum value"):
        # The value is not repeated: it may be a secret in the wrong place.
        return "is not an allowed value"

    def words(match: re.Match[str]) -> str:
        return " or ".join(_WORDS.get(name, name) for name in match[1].split(" | "))

    message = _QUOTED.sub(words, message)
    return message.replace("Expected ", "must be ", 1).replace(", got ", ", not ", 1)
