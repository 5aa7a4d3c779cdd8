"""Which keys may use a route. Checked in one place, for every route, before the handler sees the request."""

from enum import Enum

from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import NotFound
from scheduler_service.usecases.authenticate import Forbidden, Principal


class Access(Enum):
    """OPEN needs no key. ANY takes every valid key. CLIENT takes administrators' keys, and those of the client in the
    path whose scope includes the route's; that client must exist. ADMIN takes administrators' keys, CONFIGURED_ADMIN
    only the one from configuration.
    """

    OPEN = "open"
    ANY = "any key"
    CLIENT = "client"
    ADMIN = "admin"
    CONFIGURED_ADMIN = "configured admin"


def authorize(access: Access, scope: Scope | None, principal: Principal, client_id: str | None) -> None:
    """`scope`: the one that the route needs of a client's key. `client_id`: the one in the path, if there is one.
    Raises NotFound for anything of another client, so that a key can't discover other clients; Forbidden for what only
    administrators may do, and for what is beyond the key's scope."""
    if principal.client_id is None:
        if access is Access.CONFIGURED_ADMIN and not principal.configured:
            raise Forbidden("only the configured administrator's key may make and revoke administrators' keys")
        return
    if client_id is not None and client_id != principal.client_id:
        raise NotFound(f"this key is of the client {principal.client_id!r}, and sees nothing else")
    if access in (Access.ADMIN, Access.CONFIGURED_ADMIN):
        raise Forbidden("this needs an administrator's key")
    if scope is not None and principal.scope is not None and not principal.scope.includes(scope):
        raise Forbidden(f"this needs a key with the scope {scope}; the scope of this one is {principal.scope}")
