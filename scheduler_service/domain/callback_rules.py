"""Rules for the methods, headers and bodies of callbacks. Pure; reports all problems at once.

Refused header names are those that belong to the connection (hop-by-hop, framing) and those that Minutehand sets, which
a receiver must be able to trust. An underscore counts as a hyphen: to receivers behind CGI or WSGI both are one name.
The delivery engine refuses the names of the connection once more, whatever the protocol that it sends a callback by.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
METHODS_WITHOUT_BODY = frozenset({"GET", "HEAD"})
MAX_HEADERS = 64
"""How many headers a callback may carry beside ours."""

_OURS = ("webhook-", "minutehand-")
_OUR_NAMES = frozenset({"user-agent"})
_OF_CONNECTION = frozenset({"connection", "http2-settings", "keep-alive", "te", "trailer", "upgrade"})
_OF_FRAMING = frozenset({"content-length", "expect", "host", "transfer-encoding"})
HEADER_NAME_PATTERN = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"
HEADER_VALUE_PATTERN = r"^([\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?)?$"
_TOKEN = re.compile(HEADER_NAME_PATTERN.strip("^$"))
_VALUE = re.compile(HEADER_VALUE_PATTERN.strip("^$"))
_OVERHEAD = len(": \r\n")


class Problem(NamedTuple):
    """One thing wrong with a request: a JSON pointer (RFC 6901) to it and a sentence saying what to do."""

    pointer: str
    detail: str


def is_token(name: str) -> bool:
    """Whether `name` is a token of RFC 9110, as methods and header names must be."""
    return _TOKEN.fullmatch(name) is not None


def is_ours(name: str) -> bool:
    """Whether only Minutehand sets headers of this name."""
    folded = _folded(name)
    return folded.startswith(_OURS) or folded in _OUR_NAMES


def belongs_to_connection(name: str) -> bool:
    """Whether only the delivery engine sets headers of this name: those of one connection, and those that frame a
    request."""
    folded = _folded(name)
    return folded in _OF_CONNECTION or folded in _OF_FRAMING or folded.startswith("proxy-")


def check_method(method: str, *, pointer: str) -> list[Problem]:
    if method in METHODS:
        return []
    return [Problem(pointer, f"the method must be one of {', '.join(sorted(METHODS))}")]


def body_fault(method: str, size: int, *, max_bytes: int) -> str | None:
    """Why a body of `size` bytes, as they will be sent, is refused; None: it is not."""
    if size and method in METHODS_WITHOUT_BODY:
        return f"a {method} request has no body"
    if size > max_bytes:
        return f"the body has {size} bytes; at most {max_bytes} are allowed"
    return None


def check_headers(headers: Sequence[tuple[str, str]], *, max_bytes: int, pointer: str) -> list[Problem]:
    """`max_bytes` bounds names and values together, as written on an HTTP/1.1 connection. If a bound is exceeded, the
    headers are not checked one by one."""
    problems: list[Problem] = []
    if len(headers) > MAX_HEADERS:
        problems.append(Problem(pointer, f"{len(headers)} headers are given; at most {MAX_HEADERS} are allowed"))
    else:
        size = sum(len(name) + len(value) + _OVERHEAD for name, value in headers)
        if size > max_bytes:
            problems.append(Problem(pointer, f"the headers have {size} bytes; at most {max_bytes} are allowed"))
    if problems:
        return problems
    seen: set[str] = set()
    for name, value in headers:
        place = f"{pointer}/{_escaped(name)}"
        if (wrong := _wrong_with_name(name)) is not None:
            problems.append(Problem(place, wrong))
        elif name.lower() in seen:
            problems.append(Problem(place, "the same header is given twice; names differ in case only"))
        if not _VALUE.fullmatch(value):
            problems.append(
                Problem(place, "the value may hold printable ASCII and tabs, without spaces at its ends or line breaks")
            )
        seen.add(name.lower())
    return problems


def _wrong_with_name(name: str) -> str | None:
    if not is_token(name):
        return "the name is not a valid header name"
    if is_ours(name):
        return "this header is set by Minutehand"
    if belongs_to_connection(name):
        return "this header belongs to the connection and can't be set"
    return None


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")


def _escaped(name: str) -> str:
    """One reference token of a JSON pointer, cut so that a hostile name can't blow up the answer."""
    return name[:128].replace("~", "~0").replace("/", "~1")
