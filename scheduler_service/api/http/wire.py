"""Wires of other systems: routes under a prefix of their own, for programs that were written for those systems.

Such a program may know no key, and its paths name no client. So the operator names the client whose schedules a wire
serves, and which scope requests without a key have there; a wire is off until its client is named.

    with a key        as on every other route: a key of this client whose scope includes the route's, or an
                      administrator's key; any other one is refused, also where none would be needed
    without a key     this client, with the scope that the operator gave (`keyless`); None: 401
    from a web page   without a key refused: else every page that a user inside the network opens could call it; so is
                      a Host that is a name other than localhost, since a page can have names that lead here (DNS
                      rebinding), unless the operator says `open_to_network`

So a wire reaches no more than one client, whose quota, rates and budgets bound it like any other. A wire whose requests
name clients themselves judges its callers in its handlers, and its routes are open to the endpoint: it is a `WireForm`
and no more. Refusals have the wire's own form (`refusal`), with the status codes that its programs know.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from aiohttp import web

from scheduler_service.api.problems import Problem
from scheduler_service.domain.clients import Client, Scope
from scheduler_service.domain.errors import Conflict, NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.usecases.authenticate import Authenticate, Catalog, Forbidden, Principal

_PORT: Final = re.compile(r":[0-9]*\Z")
Refuse = Callable[[Problem, Exception | None], tuple[int, object]]
"""The status of a refusal, and its body: bytes, or what is to be sent as JSON. It gets the error too, if there is
one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireForm:
    """What all answers of a wire have in common. `prefix`: of its paths. `headers`: of its refusals."""

    name: str
    prefix: str
    refusal: Refuse
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire(WireForm):
    """A wire of one client, as it is configured. `name`: under which its keyless requests act, in the audit log too."""

    client_id: ClientId
    keyless: Scope | None
    open_to_network: bool = False

    async def principal(self, request: web.Request, *, authenticate: Authenticate, catalog: Catalog) -> Principal:
        """Who sends this request. Raises Unauthenticated, Forbidden, Conflict, StoreUnavailable."""
        authorization = request.headers.get("Authorization")
        if authorization is not None or self.keyless is None:
            return await authenticate(authorization)
        refuse_pages(request, any_host=self.open_to_network)
        client = await self.client(catalog)
        return Principal(f"{self.name} without a key", client.client_id, client, scope=self.keyless)

    async def client(self, catalog: Catalog) -> Client:
        """The client that it serves. Raises Conflict, StoreUnavailable."""
        try:
            return await catalog.client(self.client_id)
        except NotFound:
            detail = f"the client of this wire, {self.client_id!r}, does not exist: its operator must register it"
            raise Conflict("conflict", detail) from None


def refuse_pages(request: web.Request, *, any_host: bool) -> None:
    """Raises Forbidden for a request without a key that a browser may have sent for a web page. `any_host`: it may be
    sent to any name."""
    if "Origin" in request.headers or "Sec-Fetch-Site" in request.headers:
        raise Forbidden("requests without a key are not taken from web pages")
    host = _PORT.sub("", request.headers.get("Host", "")).strip("[]")
    if not any_host and host and host != "localhost" and not _is_address(host):
        raise Forbidden(
            "requests without a key must be sent to an IP address or to localhost, since a web page can have a name "
            "that leads here: let a proxy in front set Host so, or set open_to_network"
        )


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
