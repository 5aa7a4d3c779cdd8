"""The request to create or replace a destination, and every rule that it must satisfy. Pure.

`draft_destination` turns a `DestinationRequest` into the document that is stored, or raises with every fault.
"""

import re
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from scheduler_service.domain.callback_rules import check_headers, check_method
from scheduler_service.domain.clients import CallRate, ClientSettings
from scheduler_service.domain.destination_access import ClientCertificate, ForwardProxy, Unsaid
from scheduler_service.domain.destinations import CloudEvents, Destination, TokenSource
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.network import is_loopback
from scheduler_service.domain.options import RetryOverride
from scheduler_service.domain.targets import HTTP, KIND_PATTERN, Target, unknown_kind
from scheduler_service.usecases.client_certificates import MAX_CERTIFICATE_BYTES, certificate_faults
from scheduler_service.usecases.schedule_request import (
    CallbackHeaders,
    CallbackPolicy,
    Method,
    TimeoutSeconds,
    asked_retry,
)

_SECRET: Final = {"writeOnly": True}
_END: Final = r"$(?!\n)"
"""Of a pattern: `$` alone admits a line break behind it."""
_VISIBLE: Final = r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?" + _END
"""Printable ASCII without spaces at its ends, as header values and credentials must be."""
_WITHOUT_COLON: Final = r"^[\x20-\x39\x3b-\x7e]+" + _END
_PASSWORD: Final = r"^[\x20-\x7e]+" + _END
_SCOPE: Final = r"^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*" + _END
"""RFC 6749, 3.3."""
_URI_REFERENCE: Final = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+")
_MAX_NAME: Final = 256
_MAX_SECRET: Final = 2048
_MAX_TARGET_FIELDS: Final = 32
_MAX_TARGET_BYTES: Final = 16_384
_Pem = Annotated[str, Meta(min_length=1, max_length=MAX_CERTIFICATE_BYTES)]
_Name = Annotated[str, Meta(min_length=1, max_length=_MAX_NAME, pattern=_VISIBLE)]


class CertificateRequest(Unsaid, msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The certificate that calls present to the receiver, in PEM: the `chain`, the client's own certificate first, and
    its private `key`, not encrypted. RSA of 2048 to 4096 bits, P-256, P-384, P-521, Ed25519 or Ed448."""

    chain: _Pem
    key: Annotated[_Pem, Meta(extra_json_schema=_SECRET)]


class TokenSourceRequest(Unsaid, msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the bearer token of calls comes from: the client-credentials grant of OAuth 2 (RFC 6749, 4.4), at a
    `token_url`, or at that which the metadata of an OpenID Connect `issuer` names: exactly one of them.
    `authentication`: how client_id and client_secret are sent there. `id_token`: calls carry the answer's id_token
    instead of its access_token."""

    client_id: _Name
    client_secret: Annotated[str, Meta(min_length=1, max_length=_MAX_SECRET, extra_json_schema=_SECRET)]
    token_url: str | None = None
    issuer: str | None = None
    scope: Annotated[str, Meta(max_length=1024, pattern=_SCOPE)] | None = None
    audience: Annotated[str, Meta(min_length=1, max_length=1024, pattern=_VISIBLE)] | None = None
    authentication: Literal["basic", "post"] = "basic"
    id_token: bool = False


class ProxyRequest(Unsaid, msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A forward proxy that the operator allows, as http://host:port, and the credentials for it: both, or none."""

    url: str
    username: Annotated[str, Meta(min_length=1, max_length=_MAX_NAME, pattern=_WITHOUT_COLON)] | None = None
    password: (
        Annotated[str, Meta(min_length=1, max_length=_MAX_NAME, pattern=_PASSWORD, extra_json_schema=_SECRET)] | None
    ) = None


class CloudEventsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Calls are CloudEvents 1.0 in binary mode, with this `type` and this `source`, a URI reference."""

    type: _Name
    source: Annotated[str, Meta(min_length=1, max_length=1024, extra_json_schema={"format": "uri-reference"})]


class DestinationRequest(Unsaid, msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where calls go, and how. A callback names the destination, and may add a path below its `url`. What is changed
    here holds for all calls that start once nodes know of it, within a few seconds.

    `kind` is `http`, with a `url`, or one that the operator offers, such as `kafka`, with a `target` as that kind
    demands. Other kinds than http have no `url`, `method`, `certificate`, `token` and `proxy`; a callback's path is
    sent to them as the header `Minutehand-Path`, and its method is not sent.

    `max_per_second` and `max_in_flight` hold over all nodes and all calls of this destination. `retry` and
    `timeout_seconds`, if they are left out, are as the client's settings say. Header values, `key`, `client_secret` and
    `password` are never shown again: a change is a whole, so it must name them again.
    """

    url: str | None = None
    kind: Annotated[str, Meta(pattern=KIND_PATTERN)] = HTTP
    target: Annotated[dict[str, Any], Meta(max_length=_MAX_TARGET_FIELDS)] | None = None
    method: Method = "POST"
    headers: CallbackHeaders = {}
    timeout_seconds: TimeoutSeconds | None = None
    retry: RetryOverride | None = None
    max_per_second: CallRate | None = None
    max_in_flight: Annotated[int, Meta(ge=1, le=10_000)] | None = None
    certificate: CertificateRequest | None = None
    token: TokenSourceRequest | None = None
    proxy: ProxyRequest | None = None
    cloudevents: CloudEventsRequest | None = None


def draft_destination(
    request: DestinationRequest, *, client_id: ClientId, settings: ClientSettings, policy: CallbackPolicy, now: int
) -> Destination:
    """The document of a request made at `now` by a client with `settings` in force. Raises Invalid with every fault."""
    faults: list[FieldError] = []
    target = None
    if request.kind == HTTP:
        faults += _faults_of_http(request, policy)
    else:
        faults += _faults_beside_target(request)
        target = _target(request, client_id, policy, faults)
    faults += [FieldError(*problem) for problem in check_method(request.method, pointer="/method")]
    faults += _header_faults(request, settings)
    faults += policy.bounds.faults_of_schedule(request.retry, request.timeout_seconds)
    certificate = _certificate(request.certificate)
    if certificate is not None:
        faults += certificate_faults(certificate, now=now, at="/certificate")
    if request.token is not None:
        faults += _token_faults(request.token, policy)
    if request.proxy is not None:
        faults += _proxy_faults(request.proxy, policy)
    if request.cloudevents is not None and _URI_REFERENCE.fullmatch(request.cloudevents.source) is None:
        faults.append(FieldError("/cloudevents/source", "must be a URI reference, such as /shop or urn:example:shop"))
    if faults:
        raise Invalid(faults)
    return Destination(
        url=request.url or "",
        target=target,
        method=request.method,
        headers=tuple(request.headers.items()),
        timeout_seconds=request.timeout_seconds,
        retry=asked_retry(request.retry),
        max_per_second=request.max_per_second,
        max_in_flight=request.max_in_flight,
        certificate=certificate,
        token=None if request.token is None else TokenSource(**_fields(request.token)),
        proxy=None if request.proxy is None else ForwardProxy(**_fields(request.proxy)),
        cloudevents=None if request.cloudevents is None else CloudEvents(**_fields(request.cloudevents)),
    )


def _faults_of_http(request: DestinationRequest, policy: CallbackPolicy) -> list[FieldError]:
    faults = [] if request.target is None else [FieldError("/target", "is only for other kinds than http")]
    if request.url is None:
        return [*faults, FieldError("/url", "is required: say where calls go")]
    return faults + _url_faults(request.url, "/url", policy)


def _faults_beside_target(request: DestinationRequest) -> list[FieldError]:
    """Fields that mean something for HTTP only."""
    given = {
        "url": request.url is not None,
        "method": request.method != "POST",
        "certificate": request.certificate is not None,
        "token": request.token is not None,
        "proxy": request.proxy is not None,
    }
    wrong = f"is only for kind http, not for {request.kind}: leave it out"
    return [FieldError(f"/{name}", wrong) for name, is_given in given.items() if is_given]


def _target(
    request: DestinationRequest, client_id: ClientId, policy: CallbackPolicy, faults: list[FieldError]
) -> Target | None:
    """What its kind makes of it. Faults are added to `faults`, under `/target`."""
    rules = policy.kinds.get(request.kind)
    if rules is None:
        faults.append(FieldError("/kind", unknown_kind(request.kind, policy.kinds)))
        return None
    if request.target is None:
        faults.append(FieldError("/target", f"is required for kind {request.kind}"))
        return None
    if len(msgspec.json.encode(request.target)) > _MAX_TARGET_BYTES:
        faults.append(FieldError("/target", f"is longer than {_MAX_TARGET_BYTES} bytes"))
        return None
    try:
        judged = rules.judge(request.target, client_id=client_id)
    except Invalid as invalid:
        faults += [FieldError(f"/target{pointer}", detail) for pointer, detail in invalid.errors]
        return None
    return Target(kind=request.kind, document=request.target, address=judged.address, hidden=judged.hidden)


def _fields(request: msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(request)


def _certificate(request: CertificateRequest | None) -> ClientCertificate | None:
    return None if request is None else ClientCertificate(chain=request.chain, key=request.key)


def _url_faults(url: str, pointer: str, policy: CallbackPolicy) -> list[FieldError]:
    if (refusal := policy.check_url(url)) is not None:
        return [FieldError(pointer, refusal.detail)]
    if "#" in url:
        return [FieldError(pointer, "has a fragment, which is never sent: leave it out")]
    return []


def _header_faults(request: DestinationRequest, settings: ClientSettings) -> list[FieldError]:
    problems = check_headers(tuple(request.headers.items()), max_bytes=settings.header_bytes, pointer="/headers")
    if problems:
        return [FieldError(*problem) for problem in problems]
    names = {name.lower(): name for name in request.headers}
    faults = []
    if request.token is not None and "authorization" in names:
        faults.append(FieldError(f"/headers/{names['authorization']}", "is where the token is sent: leave one out"))
    if request.cloudevents is not None:
        faults += [
            FieldError(f"/headers/{names[name]}", "is set by `cloudevents`: leave it out")
            for name in names
            if name.startswith("ce-")
        ]
    return faults


def _token_faults(token: TokenSourceRequest, policy: CallbackPolicy) -> list[FieldError]:
    faults = []
    if (token.token_url is None) == (token.issuer is None):
        wrong = "neither is given" if token.issuer is None else "both are given"
        faults.append(FieldError("/token/token_url", f"give exactly one of token_url and issuer; {wrong}"))
    for name, url in (("token_url", token.token_url), ("issuer", token.issuer)):
        if url is None:
            continue
        pointer = f"/token/{name}"
        found = _url_faults(url, pointer, policy)
        if not found and not url.lower().startswith("https:") and not is_loopback(url):
            found = [FieldError(pointer, "must be an https URL, because the client_secret is sent to it")]
        if not found and name == "issuer" and "?" in url:
            found = [FieldError(pointer, "has a query, which an issuer must not have")]
        faults += found
    return faults


def _proxy_faults(proxy: ProxyRequest, policy: CallbackPolicy) -> list[FieldError]:
    faults = []
    if (refusal := policy.check_proxy(proxy.url)) is not None:
        faults.append(FieldError("/proxy/url", refusal.detail))
    if (proxy.username is None) != (proxy.password is None):
        missing = "username" if proxy.username is None else "password"
        faults.append(FieldError(f"/proxy/{missing}", "give username and password, or neither"))
    return faults
