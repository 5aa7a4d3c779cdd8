"""Bodies of a given size that are as expensive to decode as possible, for the type that a route takes."""

import random
from collections.abc import Iterator
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec

MEMBERS: Final = {
    "objects": b"{}",
    "arrays": b"[]",
    "nested": b"[[[[[[[[]]]]]]]]",
    "integers": b"1",
    "long-integers": b"1" * 400,
    "subnormal": b"1.2345678901234567e-310",
    "strings": b'"a"',
    "pairs": b'{"a":1}',
    "nulls": b"null",
}
"""An array is filled with one of these."""
TEXTS: Final = {
    "letters": b"a",
    "digits": b"1",
    "commas": b"1,",
    "steps": b"*/1,",
    "spaces": b" ",
    "slashes": b"/",
    "dots": b"a.",
    "escapes": b"\\u0041",
    "not-ascii": "é".encode(),
    "base64": b"QUJD",
}
"""A string is filled with one of these."""
VALUES: Final = {"texts": b'""', "objects": b"{}", "numbers": b"1"}
"""An object's members have one of these."""
SCALARS: Final = (b"0", b"1e308", b"-1", b"true", b"null", b'"x"', b"[]", b"{}")

KINDS: Final = (
    *(f"array of {name}" for name in MEMBERS),
    *(f"text of {name}" for name in TEXTS),
    *(f"object of {name}" for name in VALUES),
    "same names",
    "spaced names",
    "a scalar",
)


def hostile(type_: type[msgspec.Struct], *, size: int, chance: random.Random) -> tuple[str, bytes]:
    """One hostile body, and a short description of it."""
    path = chance.choice(list(paths(type_)))
    kind = chance.choice(KINDS)
    return f"/{'/'.join(path)} {kind}", nested(path, filling(kind, size, chance))


def paths(type_: Any) -> Iterator[tuple[str, ...]]:
    """JSON pointers into a body of this type: known fields and an unknown one. `0` is an array's element."""
    yield ()
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        yield ("unknown",)
        for field in msgspec.structs.fields(type_):
            for below in paths(field.type):
                yield (field.encode_name, *below)
    elif get_origin(type_) is Annotated:
        yield from paths(get_args(type_)[0])
    elif get_origin(type_) in (list, tuple):
        yield from (("0", *below) for below in paths(get_args(type_)[0]))
    elif get_origin(type_) is dict:
        yield from (("some", *below) for below in paths(get_args(type_)[1]))
    elif get_origin(type_) is Union or type(type_).__name__ == "UnionType":
        for member in get_args(type_):
            if member is not type(None):
                yield from paths(member)


def filling(kind: str, size: int, chance: random.Random) -> bytes:
    """Fills a place by one of KINDS."""
    shape, _, of = kind.partition(" of ")
    if shape == "array":
        return b"[" + b",".join([MEMBERS[of]] * (size // (len(MEMBERS[of]) + 1))) + b"]"
    if shape == "text":
        return b'"' + TEXTS[of] * (size // len(TEXTS[of])) + b'"'
    if shape == "object":
        return members_of(size, VALUES[of])
    if shape == "same names":
        return b"{" + b",".join([b'"a":""'] * (size // 7)) + b"}"
    if shape == "spaced names":
        return b"{" + b",".join(b'"%x" :""' % number for number in range(size // 13)) + b"}"
    return chance.choice(SCALARS)


def members_of(size: int, member: bytes) -> bytes:
    """An object with as many members as fit."""
    count = size // (len(b'"fffff":,') + len(member))
    return b"{" + b",".join(b'"%x":%b' % (number, member) for number in range(count)) + b"}"


def nested(path: tuple[str, ...], filling: bytes) -> bytes:
    for name in reversed(path):
        filling = b"[%b]" % filling if name == "0" else b'{"%b":%b}' % (name.encode(), filling)
    return filling
