"""Wires of other systems: routes under a prefix of their own, for programs that were written for those systems.

Such a program may know no key, and its paths name no client. So the operator names the client whose schedules a wire
serves, and which scope requests without a key have there; a wire is off until its client is named.

    with a key        as on every other route: a key of this client whose scope includes the route's, or an
                      administrator's key; any other one is refused, also where none would be needed
    without a key     this client, with the scope that the operator gave (`keyless`); None: 401
    from a web page   without a key refused: else every page that a user inside the network opens could call it

So a wire reaches no more than one client, whose quota, rates and budgets bound it like any other. A wire whose requests
name clients themselves judges its callers in its handlers, and its routes are open to the endpoint: it is a `WireForm`
and no more. Refusals have the wire's own form (`refusal`), with the status codes that its programs know.
"""

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from scheduler_service.api.problems import Problem
from scheduler_service.domain.clients import Client, Scope
from scheduler_service.domain.errors import Conflict, NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.usecases.authenticate import Authenticate, Catalog, Forbidden, Principal

Refuse = Callable[[Problem, Exception | None], tuple[int, object]]
"""The status of a refusal, and its body, to be sent as JSON. It gets the error too, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireForm:
    """What all answers of a wire have in common. `prefix`: of its paths."""

    name: str
    prefix: str
    refusal: Refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire(WireForm):
    """A wire of one client, as it is configured. `name`: under which its keyless requests act, in the audit log too."""

    client_id: ClientId
    keyless: Scope | None

    async def principal(self, request: web.Request, *, authenticate: Authenticate, catalog: Catalog) -> Principal:
        """Who sends this request. Raises Unauthenticated, Forbidden, Conflict, StoreUnavailable."""
        authorization = request.headers.get("Authorization")
        if authorization is not None or self.keyless is None:
            return await authenticate(authorization)
        if is_of_a_page(request):
            raise Forbidden("requests without a key are not taken from web pages")
        client = await self.client(catalog)
        return Principal(f"{self.name} without a key", client.client_id, client, scope=self.keyless)

    async def client(self, catalog: Catalog) -> Client:
        """The client that it serves. Raises Conflict, StoreUnavailable."""
        try:
            return await catalog.client(self.client_id)
        except NotFound:
            detail = f"the client of this wire, {self.client_id!r}, does not exist: its operator must register it"
            raise Conflict("conflict", detail) from None


def is_of_a_page(request: web.Request) -> bool:
    """Whether a browser sent it for a web page, as its headers say."""
    return "Origin" in request.headers or "Sec-Fetch-Site" in request.headers
