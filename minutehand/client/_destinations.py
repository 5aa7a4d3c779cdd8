"""Destinations: where calls go, said once under a name. Requests and answers."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from minutehand.client._calls import Operation, at_revision, client_path, precondition, segment
from minutehand.client._models import Page, Retry


class _Unsaid:
    """A value whose representation shows nothing: it holds secrets."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class NewClientCertificate(_Unsaid, msgspec.Struct, frozen=True, kw_only=True):
    """The certificate that calls present, in PEM: the chain, the client's own first, and its key, not encrypted."""

    chain: str
    key: str


class NewTokenSource(_Unsaid, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the bearer token of calls comes from: the client-credentials grant of OAuth 2, at a `token_url`, or at that
    of an OpenID Connect `issuer`: exactly one of them. `authentication`: basic (unless given) or post."""

    client_id: str
    client_secret: str
    token_url: str | UnsetType | None = UNSET
    issuer: str | UnsetType | None = UNSET
    scope: str | UnsetType | None = UNSET
    audience: str | UnsetType | None = UNSET
    authentication: str | UnsetType = UNSET
    id_token: bool | UnsetType = UNSET


class NewForwardProxy(_Unsaid, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A forward proxy that the operator allows, http://host:port, with its credentials: both, or none."""

    url: str
    username: str | UnsetType | None = UNSET
    password: str | UnsetType | None = UNSET


class CloudEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Calls are CloudEvents 1.0 in binary mode, of this type and source."""

    type: str
    source: str


class NewDestination(_Unsaid, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A destination as it is put: always a whole, with all its secrets. What is left out has its default. It has
    a `url`, or another `kind` than http and the `target` that this demands."""

    url: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    target: Mapping[str, Any] | UnsetType = UNSET
    method: str | UnsetType = UNSET
    headers: Mapping[str, str] | UnsetType = UNSET
    timeout_seconds: float | UnsetType | None = UNSET
    retry: Retry | UnsetType | None = UNSET
    max_per_second: float | UnsetType | None = UNSET
    max_in_flight: int | UnsetType | None = UNSET
    certificate: NewClientCertificate | UnsetType | None = UNSET
    token: NewTokenSource | UnsetType | None = UNSET
    proxy: NewForwardProxy | UnsetType | None = UNSET
    cloudevents: CloudEvents | UnsetType | None = UNSET


class ClientCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """Whose certificate calls present, and until when it is good."""

    subject: str
    expires_at: datetime


class TokenSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the bearer token of calls comes from."""

    client_id: str
    token_url: str | None
    issuer: str | None
    scope: str | None
    audience: str | None
    authentication: str
    id_token: bool


class ForwardProxy(msgspec.Struct, frozen=True, kw_only=True):
    """The forward proxy of calls, and the name that is used there."""

    url: str
    username: str | None


class DestinationFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a destination's calls in the last hour, as the nodes that run now have counted. `failures`: calls
    without a 2xx answer. `waiting`: read and not begun; `deferred`: they come back later. `token_failures`: fetches of
    a token that got none. `breaker`: "closed", "half-open" or "open". `silent_nodes`: how many nodes did not answer."""

    calls: int
    failures: int
    answer_p50_seconds: float | None
    answer_p99_seconds: float | None
    in_flight: int
    waiting: int
    deferred: int
    token_failures: int
    breaker: str
    silent_nodes: int


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """A destination without its secrets; the values of `headers` are masked. `paused_at`: since when its calls wait;
    None: they are made. `revision` grows with every change. `figures`: where one is got, else None. `url` of another
    `kind` than http: its `target` in one line."""

    name: str
    client_id: str
    url: str
    method: str
    headers: Mapping[str, str]
    timeout_seconds: float | None
    retry: Retry | None
    max_per_second: float | None
    max_in_flight: int | None
    certificate: ClientCertificate | None
    token: TokenSource | None
    proxy: ForwardProxy | None
    cloudevents: CloudEvents | None
    paused_at: datetime | None
    revision: int
    created_at: datetime
    changed_at: datetime
    figures: DestinationFigures | None = None
    kind: str = "http"
    target: Mapping[str, Any] | None = None


def put_destination(
    client_id: str,
    name: str,
    destination: NewDestination | Mapping[str, Any],
    *,
    revision: int | None,
    absent: bool,
) -> Operation[Destination]:
    body, headers = msgspec.json.encode(destination), precondition(revision, absent=absent)
    return Operation(method="PUT", path=_path(client_id, name), answer=Destination, body=body, headers=headers)


def get_destination(client_id: str, name: str) -> Operation[Destination]:
    return Operation(method="GET", path=_path(client_id, name), answer=Destination)


def list_destinations(client_id: str) -> Operation[Page[Destination]]:
    return Operation(method="GET", path=_path(client_id), answer=Page[Destination])


def pause_destination(client_id: str, name: str, *, revision: int | None) -> Operation[Destination]:
    return at_revision(f"{_path(client_id, name)}:pause", Destination, revision)


def resume_destination(client_id: str, name: str, *, revision: int | None) -> Operation[Destination]:
    return at_revision(f"{_path(client_id, name)}:resume", Destination, revision)


def delete_destination(client_id: str, name: str, *, revision: int | None, force: bool) -> Operation[None]:
    return Operation(
        method="DELETE",
        path=_path(client_id, name),
        answer=None,
        query={"force": "true"} if force else {},
        headers=precondition(revision),
    )


def _path(client_id: str, name: str | None = None) -> str:
    path = f"{client_path(client_id)}/destinations"
    return path if name is None else f"{path}/{segment(name)}"
