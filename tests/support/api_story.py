"""Sends the document's examples one after the other."""

import re
from typing import Any

import msgspec

from scheduler_service.api.http.query import PATH_PARTS
from scheduler_service.api.http.route import operation_id
from scheduler_service.api.openapi.answers import SOMETIMES
from scheduler_service.api.openapi.examples import EXAMPLES
from scheduler_service.api.resources import ROUTES
from tests.support.api import ApiHarness, Reply

ROUTE = {operation_id(route): route for route in ROUTES}


class Story:
    """Sends examples, and remembers the ids that the server chose."""

    def __init__(self, api: ApiHarness) -> None:
        self.api = api
        self.names = {name: part.example for name, part in PATH_PARTS.items()}

    async def send(self, id_: str) -> Reply:
        """Send an example. Raises AssertionError unless it succeeds."""
        reply, route = await self.try_(id_), ROUTE[id_]
        assert reply.status == route.status, reply.body
        if reply.status in (201, 202):
            self.names |= {name: chosen for name in self.names if (chosen := reply.json.get(name)) is not None}
            assert all(name in reply.headers for name in route.headers if name not in SOMETIMES), id_
        return reply

    async def try_(self, id_: str, **sent: Any) -> Reply:
        """Send an example and return the answer, whatever its status. `sent` adds to the request, for example another
        key.
        """
        route, example = ROUTE[id_], EXAMPLES[id_]
        path = re.sub(r"\{(\w+)\}", lambda match: self.names[match[1]], route.path)
        body = None if example.request is msgspec.UNSET else example.request
        return await self.api.send(route.method, path, json=body, params=example.query, **sent)
