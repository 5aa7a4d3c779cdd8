"""Who may call GoScheduler's wire, and which clients a call reaches.

    Authorization                       without `key`                      with `key`
    none, or another scheme             every app                          401
    Bearer, the configured key          -                                  every app
    Bearer, a client's key              that client, if its app is served, as far as the key's scope goes; it may not
                                        register, deactivate and activate it, which our own API leaves to operators, too
    Bearer, an administrator's key      every app
    Bearer, anything else               401                                401

Nothing but the apps that the operator lists is reached, by any caller: other clients are as unknown as if they did not
exist. A browser's request for a web page is refused without a key, as on every wire.
"""

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from scheduler_service.api.goscheduler.envelope import UNKNOWN_APP, WireRefusal
from scheduler_service.api.goscheduler.settings import GoSchedulerSettings
from scheduler_service.api.http.wire import refuse_pages
from scheduler_service.domain.clients import Client, Scope
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.runtime.file_secrets import accepts
from scheduler_service.usecases.authenticate import (
    Authenticate,
    Catalog,
    Forbidden,
    Principal,
    Unauthenticated,
)

WITHOUT_KEY: Final = Principal("goscheduler without a key")
WITH_KEY: Final = Principal("goscheduler with its key")
"""Who acts where the caller has no key of ours. No administrator has such a name, so each has a budget of its own."""


class Apps:
    """The apps that one request reaches."""

    def __init__(self, clients: Mapping[str, ClientId], *, catalog: Catalog) -> None:
        self._clients = clients
        self._catalog = catalog

    def client_id(self, app_id: str) -> ClientId:
        """Raises WireRefusal for an app that is not served."""
        found = self._clients.get(app_id)
        if found is None:
            raise not_registered(app_id)
        return found

    async def client(self, app_id: str) -> Client:
        """Raises WireRefusal for an app that is not served, or has no client yet; StoreUnavailable."""
        client_id = self.client_id(app_id)
        try:
            return await self._catalog.client(client_id)
        except NotFound:
            raise not_registered(app_id) from None

    async def registered(self) -> list[tuple[str, Client]]:
        """All that have a client, by name. Raises StoreUnavailable."""
        found = []
        for name in sorted(self._clients):
            try:
                found.append((name, await self._catalog.client(self._clients[name])))
            except NotFound:
                continue
        return found


class GoSchedulerCallers:
    """Judges callers by the settings."""

    def __init__(self, *, settings: GoSchedulerSettings, authenticate: Authenticate, catalog: Catalog) -> None:
        self._key = settings.key
        self._clients = settings.clients()
        self._open_to_network = settings.open_to_network
        self._authenticate = authenticate
        self._catalog = catalog

    async def __call__(self, request: web.Request, scope: Scope | None) -> tuple[Principal, Apps]:
        """Who sends a request, and what it reaches. `scope`: the one that it needs of a client's key; None: no client's
        key will do. Raises Unauthenticated, Forbidden, StoreUnavailable."""
        authorization = request.headers.get("Authorization")
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            if self._key is not None:
                raise Unauthenticated("send the key of this wire: Authorization: Bearer KEY")
            refuse_pages(request, any_host=self._open_to_network)
            return WITHOUT_KEY, self._apps(self._clients)
        if self._key is not None and accepts(self._key, key.strip()):
            return WITH_KEY, self._apps(self._clients)
        principal = await self._authenticate(authorization)
        if principal.client_id is None:
            return principal, self._apps(self._clients)
        if scope is None:
            raise Forbidden(
                "apps are registered, deactivated and activated with an operator's key; this is a key of a client"
            )
        if principal.scope is None or not principal.scope.includes(scope):
            raise Forbidden(f"this needs a key with the scope {scope}; the scope of this one is {principal.scope}")
        own = {name: client_id for name, client_id in self._clients.items() if client_id == principal.client_id}
        return principal, self._apps(own)

    def _apps(self, clients: Mapping[str, ClientId]) -> Apps:
        return Apps(clients, catalog=self._catalog)


def not_registered(app_id: str) -> WireRefusal:
    return WireRefusal(UNKNOWN_APP, f"app Id {app_id[:128]} is not registered")
