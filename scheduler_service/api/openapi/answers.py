"""The problems that an operation can answer, derived from its row of the route table.

    every operation          malformed, internal
    needs a key              unauthorized, invalid (unknown parameters), storage-unavailable, overloaded
    and has a cost or body   too-many-requests
    not for every key        forbidden
    names in the path        not-found
    changes a client's data  built-in-client
    has a body               request-timeout, content-too-large, unsupported-media-type
    idempotent               idempotency-key-reused
    conditional              precondition-failed
    the row's `problems`     these

`problems.KINDS` says what each of them means.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.preconditions import ETAG_PATTERN, PRECONDITION_FAILED
from scheduler_service.api.http.route import Route
from scheduler_service.api.minute_load import MINUTE_LOAD, MINUTE_LOAD_HEADERS, MINUTE_LOAD_PATTERN
from scheduler_service.api.problems import CONTENT_TYPE, KINDS, problem
from scheduler_service.api.rate_limit import RATE_HEADERS
from scheduler_service.api.request_budget import TOO_MANY
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import FieldError

REQUEST_ID_PATTERN: Final = r"^[\x21-\x7e]{1,128}$"
PATTERNS: Final[Mapping[str, str]] = {
    "Cache-Control": "^public, max-age=[0-9]+$",
    "ETag": ETAG_PATTERN,
    "Location": "^/v1/",
    MINUTE_LOAD: MINUTE_LOAD_PATTERN,
    "Minutehand-Once": r"^[0-9]+\.[0-9]+$",
    "RateLimit": r'^"creates";r=[0-9]+;t=[0-9]+$',
    "RateLimit-Policy": r'^"creates";q=[0-9]+;w=[0-9]+$',
}
"""The forms of headers that routes answer with, by name."""
SOMETIMES: Final = frozenset(MINUTE_LOAD_HEADERS)
"""Those of them that only some answers have."""
EXAMPLE_REQUEST_ID: Final = "5f2b8c0a91d34e7f6a1b2c3d"
REQUEST_ID_HEADER: Final = {"$ref": "#/components/headers/X-Request-Id"}
HEADERS: Final[Mapping[str, Any]] = {
    "X-Request-Id": {
        "description": "The id that the caller sent, or a new one. Log lines repeat it.",
        "schema": {"type": "string", "pattern": REQUEST_ID_PATTERN},
        "required": True,
    },
    "Retry-After": {
        "description": "Seconds after which to retry.",
        "schema": {"type": "integer", "minimum": 1},
        "required": True,
    },
    **{
        name: {"description": sentence, "schema": {"type": "string", "pattern": PATTERNS[name]}, "required": False}
        for name, sentence in RATE_HEADERS.items()
    },
    "Idempotency-Replayed": {
        "description": "This repeats the answer to an earlier request with the same Idempotency-Key.",
        "schema": {"type": "string", "const": "true"},
        "required": False,
    },
    "WWW-Authenticate": {
        "description": "The kind of key that is required.",
        "schema": {"type": "string", "const": 'Bearer realm="minutehand"'},
        "required": True,
    },
}
_ALWAYS = ("malformed", "internal")
_WITH_KEY = ("unauthorized", "invalid", "storage-unavailable", "overloaded")
_WITH_BODY = ("request-timeout", "content-too-large", "unsupported-media-type")
_HEADERS_OF_STATUS = {401: ("WWW-Authenticate",), 425: ("Retry-After",), 429: ("Retry-After",), 503: ("Retry-After",)}
_HEADERS_OF_KIND = {"too-many-creates": tuple(RATE_HEADERS)}


def kinds_of(route: Route) -> list[str]:
    """Every kind of problem that a route can answer, in the order of `problems.KINDS`."""
    kinds = {*_ALWAYS, *route.problems}
    if route.access is not Access.OPEN:
        kinds.update(_WITH_KEY)
        if route.cost or route.request is not None:
            kinds.add(TOO_MANY)
    if route.access not in (Access.OPEN, Access.ANY) and route.scope is not Scope.READ:
        kinds.add("forbidden")
    if "{" in route.path:
        kinds.add("not-found")
    if route.access is Access.CLIENT and route.changes:
        kinds.add("built-in-client")
    if route.request is not None:
        kinds.update(_WITH_BODY)
    if route.idempotent:
        kinds.add("idempotency-key-reused")
    if route.conditional:
        kinds.add(PRECONDITION_FAILED)
    unknown = kinds - KINDS.keys()
    if unknown:
        raise ValueError(f"{route.method} {route.path} names problems that there are none of: {sorted(unknown)}")
    return [kind for kind in KINDS if kind in kinds]


def by_status(kinds: Iterable[str]) -> dict[int, list[str]]:
    """Groups kinds by status; within a status their `type` distinguishes them."""
    found: dict[int, list[str]] = {}
    for kind in kinds:
        found.setdefault(KINDS[kind].status, []).append(kind)
    return dict(sorted(found.items()))


def response_name(kinds: Iterable[str]) -> str:
    """The name of the response component for kinds with one status."""
    return ".".join(kinds)


def problem_response(kinds: list[str]) -> dict[str, Any]:
    """The response component for kinds with one status, which are the names of its examples.

    All refer to one schema, so generated clients have one type of problem. Where the schema is narrowed to the kinds,
    they have one for each answer, or omit the answer.
    """
    status = KINDS[kinds[0]].status
    headers = {"X-Request-Id": REQUEST_ID_HEADER}
    of_kinds = [name for kind in kinds for name in _HEADERS_OF_KIND.get(kind, ())]
    for more in (*_HEADERS_OF_STATUS.get(status, ()), *of_kinds):
        headers[more] = {"$ref": f"#/components/headers/{more}"}
    return {
        "description": " Or: ".join(f"{KINDS[kind].title}. {KINDS[kind].advice}" for kind in kinds),
        "headers": headers,
        "content": {
            CONTENT_TYPE: {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "examples": {kind: {"value": _sample(kind)} for kind in kinds},
            }
        },
    }


def problem_responses(routes: Iterable[Route]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The response components that these routes need."""
    groups = {tuple(group) for route in routes for group in by_status(kinds_of(route)).values()}
    for group in sorted(groups):
        yield response_name(group), problem_response(list(group))


def _sample(kind: str) -> Any:
    errors = [FieldError("/due", "is more than 60 seconds in the past; it is 2026-11-21T09:30:00.000Z now")]
    return problem(
        kind,
        "1 fault was found" if kind == "invalid" else KINDS[kind].advice,
        request_id=EXAMPLE_REQUEST_ID,
        errors=errors if kind == "invalid" else (),
    )
