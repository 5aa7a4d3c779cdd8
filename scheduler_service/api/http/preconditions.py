"""The headers `If-Match` and `If-None-Match` of requests that change something, and the `ETag` of answers (RFC 9110).

A route that heeds them is marked `Route.conditional`: what it changes has an `ETag`, and the conditional write of the
change decides. Every other route that may change something refuses them, so no caller believes a change to be
conditional that is not.
"""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.preconditions import ANY, NO_PRECONDITION, Precondition

ETAG: Final[Mapping[str, str]] = {"ETag": "Names what is shown; sent back in If-Match, it keeps others' changes safe."}
ETAG_PATTERN: Final = r'^"[\x21\x23-\x7e]*"$'
IF_MATCH_PATTERN: Final = r'^(\*|(W/)?"[^"]*"(, *(W/)?"[^"]*")*)$'
PRECONDITION_FAILED: Final = "precondition-failed"
_HEADERS: Final = ("If-Match", "If-None-Match")


def etag_header(tag: object) -> dict[str, str]:
    return {"ETag": f'"{tag}"'}


_QUOTED_ANY: Final = f'"{ANY}"'


def refuse_preconditions(request: web.Request) -> None:
    """For a route that is not conditional. Raises Invalid."""
    given = [name for name in _HEADERS if name in request.headers]
    if given:
        detail = "can't be given here: what this request does depends on no entity tag"
        raise Invalid([FieldError(f"/{name}", detail) for name in given])


def precondition_of(request: web.Request) -> Precondition:
    """What the headers say. Raises Invalid for headers that can't be read, and for an If-None-Match of
    anything but `*`."""
    try:
        matches, absent = request.if_match, request.if_none_match
    except ValueError:
        matches, absent = (), ()
    faults: list[FieldError] = []
    if "If-Match" in request.headers and not matches:
        faults.append(FieldError("/If-Match", 'must be `*` or entity tags in quotes, such as "5f2b"'))
    if matches is not None and _QUOTED_ANY in request.headers.get("If-Match", ""):
        faults.append(FieldError("/If-Match", "a quoted star is no entity tag; `*` stands without quotes"))
    if "If-None-Match" in request.headers and request.headers["If-None-Match"].strip() != ANY:
        faults.append(FieldError("/If-None-Match", "must be `*`: only if there is none"))
    if faults:
        raise Invalid(faults)
    if matches is None and absent is None:
        return NO_PRECONDITION
    tags = None if matches is None else [tag.value for tag in matches if not tag.is_weak]
    return Precondition(matches=tags, absent=absent is not None)
