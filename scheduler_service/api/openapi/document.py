"""The OpenAPI 3.1 document of a route table."""

import hashlib
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.preconditions import IF_MATCH_PATTERN
from scheduler_service.api.http.query import PATH_PARTS, Parameter
from scheduler_service.api.http.route import JSON, Document, NoRequest, Route, json_body, operation_id
from scheduler_service.api.openapi.answers import (
    HEADERS,
    PATTERNS,
    REQUEST_ID_HEADER,
    SOMETIMES,
    by_status,
    kinds_of,
    problem_responses,
    response_name,
)
from scheduler_service.api.openapi.docs_page import docs_page, llms_text
from scheduler_service.api.openapi.examples import EXAMPLES, Example
from scheduler_service.api.openapi.samples import curl_line, python_line, typescript_line
from scheduler_service.api.openapi.webhook import webhook
from scheduler_service.api.problems import Problem
from scheduler_service.domain.idempotency import KEY_PATTERN
from scheduler_service.domain.preconditions import ANY

API_VERSION: Final = "1"
"""The version of the contract, as in the paths."""
TAGS: Final[Mapping[str, str]] = {
    "schedules": "Calls to be made at an instant: create, read and cancel them, one or many at a time.",
    "crons": "Recurring calls, by a rule.",
    "destinations": "Where calls go, said once under a name: URL, credentials, limits.",
    "subscriptions": "Which events are sent where, as notices.",
    "dead-letters": "Schedules that failed for good: list and redeliver them.",
    "balance": "The books: what was accepted for each minute, and with what outcomes.",
    "callbacks": "Try out how a receiver answers a call.",
    "reconciliations": "One action on all schedules of a window: count, redeliver or cancel them.",
    "events": "What became of schedules, as it happens.",
    "usage": "What was used on each day, as of the latest count.",
    "audits": "Findings of audits of the books.",
    "pollers": "A client's pollers: their owners and their progress.",
    "clients": "Owners of schedules: their quota and settings.",
    "settings": "The settings that clients change themselves.",
    "keys": "The keys with which clients use this API.",
    "signing-secrets": "The secrets that a client's callbacks are signed with.",
    "public-keys": "What receivers check the signatures of key pairs by.",
    "acknowledgements": "What receivers say later of calls that they took by 202.",
    "admin-keys": "Administrators' own keys.",
    "audit-log": "What administrators did, and clients about themselves, and when.",
    "forecast": "What each minute ahead is to call.",
    "backlog": "What is overdue.",
    "overdue-rate": "How fast overdue calls are made.",
    "cluster": "The nodes that make the calls.",
    "service": "Probes, metrics and this document.",
    "callback": "The request that a receiver gets.",
}
_DESCRIPTION = """\
HTTP calls at the instants that you choose: once, or by a rule.

Times are RFC 3339 with an offset, answered in UTC with milliseconds. Durations are numbers with the unit in the name.
Unknown fields and parameters are refused. Lists answer `items` and `next_cursor`; the cursor of the last page is null.
Refusals are problem documents (RFC 9457); their `type` is the path of a page that explains it. Answers may get new
fields.
"""
_ADMIN, _CLIENT, _CONFIGURED = "adminKey", "clientKey", "configuredAdminKey"
_SCHEMES: Final[Mapping[Access, Sequence[str]]] = {
    Access.OPEN: (),
    Access.ANY: (_CLIENT, _ADMIN, _CONFIGURED),
    Access.CLIENT: (_CLIENT, _ADMIN, _CONFIGURED),
    Access.ADMIN: (_ADMIN, _CONFIGURED),
    Access.CONFIGURED_ADMIN: (_CONFIGURED,),
}
_WHO: Final[Mapping[Access, str]] = {
    Access.OPEN: "Needs no key.",
    Access.ANY: "Takes any good key.",
    Access.ADMIN: "Takes an administrator's key.",
    Access.CONFIGURED_ADMIN: "Takes the configured administrator's key only.",
}
_SCHEMA = "#/components/schemas/{name}"
_PAGE_OF = re.compile(rb"\bItems[_\[](\w+?)[_\]](?=\")")
"""msgspec's names for `Items[View]`, as component and as title, which are no identifiers in generated clients."""
_VARIABLE = re.compile(r"\{(\w+)\}")


def build_document(routes: Sequence[Route], examples: Mapping[str, Example] = EXAMPLES) -> dict[str, Any]:
    """The whole document, ready for JSON. Raises ValueError for a route that names unknown problems."""
    types = [type_ for route in routes for type_ in _types(route)]
    known = list(dict.fromkeys([Problem, *types]))
    schemas, components = msgspec.json.schema_components(known, ref_template=_SCHEMA)
    schema_of = dict(zip(known, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, schema_of, examples.get(operation_id(route)))
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    used = {tag_of(route.path) for route in routes} | {"callback"}
    document = {
        "openapi": "3.1.1",
        "info": {
            "title": "Minutehand",
            "version": API_VERSION,
            "summary": "A multi-tenant callback scheduler.",
            "description": _DESCRIPTION,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": "/", "description": "Where this document is."}],
        "security": [{_CLIENT: []}, {_ADMIN: []}, {_CONFIGURED: []}],
        "tags": [{"name": name, "description": sentence} for name, sentence in TAGS.items() if name in used],
        "paths": paths,
        "webhooks": {"callback": webhook()},
        "components": {
            "securitySchemes": {
                _CLIENT: _bearer("A client's key: reaches that client only."),
                _ADMIN: _bearer("An administrator's key: reaches every client."),
                _CONFIGURED: _bearer("The administrator's key from configuration: makes the others."),
            },
            "schemas": {name: _tidy(schema) for name, schema in sorted(components.items())},
            "parameters": {
                "X-Request-Id": _REQUEST_ID,
                "Idempotency-Key": _IDEMPOTENCY_KEY,
                **_PRECONDITIONS,
                **_path_parameters(paths),
            },
            "headers": dict(HEADERS),
            "responses": dict(problem_responses(routes)),
        },
    }
    plain: dict[str, Any] = msgspec.json.decode(_PAGE_OF.sub(rb"\1Page", msgspec.json.encode(document)))
    return plain


def tag_of(path: str) -> str:
    """The resource that a path is about: its first fixed part, or that after the client."""
    prefix, _, rest = path.removeprefix("/").partition("/")
    if prefix != "v1":
        return "service"
    parts = rest.split("/")
    return (parts[2] if parts[0] == "clients" and len(parts) > 2 else parts[0]).partition(":")[0]


_REQUEST_ID: Final[Mapping[str, Any]] = {
    "name": "X-Request-Id",
    "in": "header",
    "required": False,
    "description": "Your id for this request, up to 128 visible ASCII characters: the answer and log lines repeat it. "
    "Anything else is replaced.",
    "schema": {"type": "string"},
}


_IDEMPOTENCY_KEY: Final[Mapping[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Your key for this request, preferably random: repeating the request with the same key does nothing "
    "twice, and answers the first result. Valid for 24 hours.",
    "schema": {"type": "string", "pattern": KEY_PATTERN},
}


_PRECONDITIONS: Final[Mapping[str, Any]] = {
    "If-Match": {
        "name": "If-Match",
        "in": "header",
        "required": False,
        "description": "Only if it is as an `ETag` of before says, or `*`: only if there is one.",
        "schema": {"type": "string", "pattern": IF_MATCH_PATTERN},
    },
    "If-None-Match": {
        "name": "If-None-Match",
        "in": "header",
        "required": False,
        "description": "`*`: only if there is none.",
        "schema": {"type": "string", "pattern": f"^{re.escape(ANY)}$"},
    },
}


def _bearer(sentence: str) -> dict[str, str]:
    return {"type": "http", "scheme": "bearer", "description": f"`Authorization: Bearer KEY`. {sentence}"}


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, with the indentation removed from its description, which is a docstring."""
    if (description := schema.get("description")) is not None:
        return {**schema, "description": inspect.cleandoc(description)}
    return schema


def _types(route: Route) -> list[Any]:
    return [type_ for type_ in (route.request, route.response, *route.others.values()) if type_ is not None]


def _path_parameters(paths: Iterable[str]) -> dict[str, Any]:
    names = dict.fromkeys(name for path in paths for name in _VARIABLE.findall(path))
    return {
        name: {
            "name": name,
            "in": "path",
            "required": True,
            "description": PATH_PARTS[name].sentence,
            "schema": dict(PATH_PARTS[name].schema),
            "example": PATH_PARTS[name].example,
        }
        for name in names
    }


def _operation(route: Route, schema_of: Mapping[Any, Any], example: Example | None) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": operation_id(route),
        "tags": [tag_of(route.path)],
        "summary": route.summary,
        "description": _who(route),
        "security": [{name: []} for name in _SCHEMES[route.access]],
        "parameters": _parameters(route, example),
    }
    if route.request is not None:
        content: dict[str, Any] = {"schema": schema_of[route.request]}
        if example is not None and example.request is not msgspec.UNSET:
            content["examples"] = {"example": {"value": example.request}}
        required = route.request is not NoRequest and not route.body_optional
        operation["requestBody"] = {"required": required, "content": {JSON: content}}
    operation["responses"] = _responses(route, schema_of, example)
    if example is not None:
        operation["x-codeSamples"] = _samples(route, example)
    return operation


def _samples(route: Route, example: Example) -> list[dict[str, str]]:
    """How the example is sent by curl, and by the SDKs where they have the operation."""
    parts = {name: PATH_PARTS[name].example for name in _VARIABLE.findall(route.path)}
    path = _VARIABLE.sub(lambda part: quote(str(parts[part[1]]), safe=""), route.path)
    query = urlencode(example.query, quote_via=quote)
    body = None if example.request is msgspec.UNSET else example.request
    open_ = route.access is Access.OPEN
    curl = curl_line(route.method, f"{path}?{query}" if query else path, body=body, key=not open_)
    samples = [{"lang": "shell", "label": "curl", "source": curl}]
    for lang, label, line in (("python", "Python", python_line), ("typescript", "TypeScript", typescript_line)):
        source = line(operation_id(route), path=parts, query=example.query, body=body)
        if source is not None:
            samples.append({"lang": lang, "label": label, "source": source})
    return samples


def _who(route: Route) -> str:
    if route.scope is None:
        return _WHO[route.access]
    return f"Takes the client's own key, with the scope {route.scope} or more, or an administrator's."


def _parameters(route: Route, example: Example | None) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {"$ref": f"#/components/parameters/{name}"} for name in _VARIABLE.findall(route.path)
    ]
    for parameter in route.query:
        declared = {
            "name": parameter.name,
            "in": "query",
            "required": False,
            "description": parameter.sentence,
            "schema": dict(parameter.schema),
        }
        if example is not None and parameter.name in example.query:
            declared["example"] = _example_of(parameter, example.query[parameter.name])
        parameters.append(declared)
    if route.idempotent:
        parameters.append({"$ref": "#/components/parameters/Idempotency-Key"})
    if route.conditional:
        parameters += [{"$ref": f"#/components/parameters/{name}"} for name in _PRECONDITIONS]
    parameters.append({"$ref": "#/components/parameters/X-Request-Id"})
    return parameters


def _example_of(parameter: Parameter[Any], text: str) -> object:
    match parameter.schema["type"]:
        case "integer":
            return int(text)
        case "array":
            return [text]
        case _:
            return text


def _responses(route: Route, schema_of: Mapping[Any, Any], example: Example | None) -> dict[str, Any]:
    added = {
        name: {
            "description": sentence,
            "schema": {"type": "string", "pattern": PATTERNS[name]},
            "required": name not in SOMETIMES,
        }
        for name, sentence in route.headers.items()
    }
    responses: dict[str, Any] = {
        str(route.status): _success(route, route.status, route.response, schema_of, example, added)
    }
    for status, type_ in route.others.items():
        responses[str(status)] = _success(route, status, type_, schema_of, None, {})
    for status, kinds in by_status(kinds_of(route)).items():
        reference = {"$ref": f"#/components/responses/{response_name(kinds)}"}
        if str(status) not in responses:
            responses[str(status)] = reference
    return dict(sorted(responses.items()))


def _success(
    route: Route,
    status: int,
    type_: Any,
    schema_of: Mapping[Any, Any],
    example: Example | None,
    headers: Mapping[str, Any],
) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "headers": {"X-Request-Id": REQUEST_ID_HEADER, **headers},
    }
    if route.idempotent and status == 200:
        response["headers"]["Idempotency-Replayed"] = {"$ref": "#/components/headers/Idempotency-Replayed"}
    if status in (204, 304):
        return response
    content: dict[str, Any] = {"schema": {"type": "string"} if type_ is None else schema_of[type_]}
    if example is not None:
        content["examples"] = {"example": {"value": example.answer}}
    # Beside JSON a route may answer text, such as a stream.
    text: dict[str, Any] = {"schema": {"type": "string"}}
    response["content"] = {
        media.partition(";")[0]: content if type_ is None or "json" in media else text for media in route.media
    }
    return response


@dataclass(frozen=True, slots=True)
class Built:
    """The document, its page and its text as bytes, made once for a route table. A `http.route.Documents`."""

    openapi: Document
    page: Document
    llms: Document


@lru_cache(maxsize=4)
def documents_of(routes: tuple[Route, ...]) -> Built:
    """Cached, because every application of a process is built from the same table."""
    document = build_document(routes)
    page, llms = docs_page(document), llms_text(document)
    return Built(_named(json_body(document)), _named(page.encode()), _named(llms.encode()))


def _named(body: bytes) -> Document:
    return Document(body, hashlib.sha256(body).hexdigest()[:32])
