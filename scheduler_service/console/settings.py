"""Settings of the console."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from scheduler_service.domain.clients import Scope
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.sessions import Right, Rights

_LOCAL: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """Settings of the pages at `/console`."""

    on: bool = True
    """Serve the console beside the API. Off: its paths do not exist."""

    https: bool | None = None
    """Whether browsers reach the API by HTTPS, so that they send the session's cookie by nothing else. None: yes if the
    API itself has a certificate. Set it to true behind a proxy that terminates TLS."""

    oidc_issuer: str | None = None
    """Address of an OpenID provider that people may log in at, as its tokens name it. None: by keys only."""

    oidc_client_id: str | None = None
    """The name under which the provider knows this installation."""

    oidc_client_secret: str | None = field(default=None, repr=False)
    """The secret that belongs to it. None: the provider asks for none."""

    oidc_redirect: str | None = None
    """Where the provider sends people back to: this console's address for browsers and `/console/oidc`, such as
    `https://minutehand.example.com/console/oidc`. The provider has to know it."""

    oidc_scopes: tuple[str, ...] = ("openid", "profile")
    """What is asked of the provider, so that its tokens have the claim."""

    oidc_claim: str = "groups"
    """The claim of the provider's tokens that decides what a person may do: a text, or a list of texts."""

    oidc_administrators: tuple[str, ...] = ()
    """Values of that claim whose people are administrators. They can't make or revoke administrators' keys."""

    oidc_clients: tuple[str, ...] = ()
    """Values of that claim and the client whose people these are, with the scope that a key of them would have:
    `VALUE=CLIENT:SCOPE`, such as `shop-team=shop:manage`. A person who has several gets the first."""

    def __post_init__(self) -> None:
        if self.oidc_issuer is not None and (self.oidc_client_id is None or self.oidc_redirect is None):
            raise ValueError("oidc_issuer: needs oidc_client_id and oidc_redirect")
        for name in ("oidc_issuer", "oidc_redirect"):
            if (address := getattr(self, name)) is not None and not is_safe(address):
                raise ValueError(f"{name}: must be an https address without a fragment; http only on this machine")
        self._clients()

    @property
    def rights(self) -> Rights:
        """What people of the provider may do."""
        return Rights(self.oidc_issuer, administrators=self.oidc_administrators, clients=self._clients())

    def _clients(self) -> Mapping[str, Right]:
        found: dict[str, Right] = {}
        for text in self.oidc_clients:
            value, _, right = text.rpartition("=")
            client_id, _, scope = right.partition(":")
            if not value or not client_id or scope not in list(Scope):
                raise ValueError("oidc_clients: must be VALUE=CLIENT:SCOPE, with the scope read, write or manage")
            found.setdefault(value, Right(ClientId(client_id), Scope(scope)))
        return found


def is_safe(address: str) -> bool:
    """Whether nobody on the way can read what is sent there."""
    parts = urlsplit(address)
    return (
        not parts.fragment
        and bool(parts.hostname)
        and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL))
    )
