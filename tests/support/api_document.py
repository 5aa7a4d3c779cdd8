"""The API's OpenAPI document, used to validate requests and answers."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import jsonschema_rs
import msgspec

from scheduler_service.api.http.route import Route
from scheduler_service.api.openapi.document import documents_of
from scheduler_service.api.problems import CONTENT_TYPE
from scheduler_service.api.resources import ROUTES

_PATTERNS = [(re.compile(re.sub(r"\{\w+\}", "[^/:]+", route.path)), route) for route in ROUTES]


class ApiDocument:
    """The document of `scheduler_service.api.resources.ROUTES`. Its checks raise AssertionError and name the invalid
    place.
    """

    def __init__(self) -> None:
        self.value: dict[str, Any] = msgspec.json.decode(documents_of(ROUTES).openapi.body)
        self._validators: dict[str, Any] = {}
        self._compiled: dict[bytes, Any] = {}

    def resolve(self, value: Mapping[str, Any]) -> Any:
        """The schema that a reference names."""
        found: Any = value
        if "$ref" in value:
            found = self.value
            for token in value["$ref"].removeprefix("#/").split("/"):
                found = found[token.replace("~1", "/").replace("~0", "~")]
        return found

    def operation(self, route: Route) -> Any:
        return self.value["paths"][route.path][route.method.lower()]

    def check_request(self, route: Route, body: Any) -> None:
        schema = self.operation(route)["requestBody"]["content"]["application/json"]["schema"]
        self._check(f"{route.method} {route.path} request", schema, body)

    def check_answer(self, route: Route, status: int, body: Any, *, media: str = "application/json") -> None:
        """Validate a body: decoded JSON, or text where `media` says so."""
        response = self._response(route, status)
        assert media in response["content"], f"{media} of {route.method} {route.path} is not documented"
        content = response["content"][media]
        self._check(f"{route.method} {route.path} {status} {media}", content["schema"], body)
        if media == CONTENT_TYPE:
            kind = body["type"].removeprefix("/problems/")
            assert kind in content["examples"], f"{kind} of {route.method} {route.path} is not documented"
            assert body["status"] == status

    def check_exchange(self, method: str, path: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Validate an answer of the API to a request for this path. Paths and methods without a route are not
        checked.
        """
        route = route_of(method, path)
        if route is None:
            return
        response = self._response(route, status)
        for name, header in response.get("headers", {}).items():
            known = self.resolve(header)
            assert name in headers or not known["required"], f"{name} is missing"
            if name in headers:
                number = known["schema"]["type"] == "integer"
                value = int(headers[name]) if number else headers[name]
                self._check(f"{name} of {route.method} {route.path} {status}", known["schema"], value)
        if not body:
            assert "content" not in response, f"{method} {path} answered {status} without the body that is documented"
            return
        media = headers["Content-Type"].partition(";")[0]
        assert "json" not in media or body.endswith(b"}\n"), "a shell's prompt would follow on the same line"
        self.check_answer(route, status, msgspec.json.decode(body) if "json" in media else body.decode(), media=media)

    def _response(self, route: Route, status: int) -> Any:
        responses = self.operation(route)["responses"]
        assert str(status) in responses, f"{status} of {route.method} {route.path} is not documented"
        return self.resolve(responses[str(status)])

    def _check(self, name: str, schema: Any, value: Any) -> None:
        if name not in self._validators:
            self._validators[name] = self._compile(schema)
        faults = [
            f"{'/'.join(map(str, error.instance_path))}: {error}" for error in self._validators[name].iter_errors(value)
        ]
        assert not faults, f"{name}: {faults}"

    def _compile(self, schema: Any) -> Any:
        """The validator of all schemas that say the same, as those of most headers and problems do."""
        content = msgspec.json.encode(schema)
        if content not in self._compiled:
            whole = {**schema, "components": self.value["components"]}
            self._compiled[content] = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        return self._compiled[content]


@cache
def api_document() -> ApiDocument:
    """The document, cached because its validators are expensive to build."""
    return ApiDocument()


def route_of(method: str, path: str) -> Route | None:
    """The route that serves a path."""
    plain = path.partition("?")[0]
    return next((route for found, route in _PATTERNS if route.method == method and found.fullmatch(plain)), None)
