"""The requests that the samples of operations are made from, as their examples describe them."""

from typing import Any

from scheduler_service.api.http.query import PATH_PARTS
from scheduler_service.api.http.route import Route, operation_id
from scheduler_service.api.openapi.examples import EXAMPLES
from scheduler_service.api.resources import ROUTES

BY_ID = {operation_id(route): route for route in ROUTES}
GIVEN_BY_THE_SDK = {"wait_seconds"}
"""Parameters that the SDKs send by themselves."""


def asked(route: Route) -> tuple[dict[str, Any], str, Any]:
    """Values of the path, the whole path, and the body of an operation's example."""
    example = EXAMPLES[operation_id(route)]
    parts = {name: known.example for name, known in PATH_PARTS.items() if f"{{{name}}}" in route.path}
    path = route.path.format(**parts)
    query = "&".join(f"{name}={value}" for name, value in example.query.items())
    body = None if not isinstance(example.request, dict) else example.request
    return parts, f"{path}?{query}" if query else path, body
