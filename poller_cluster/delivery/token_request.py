"""The requests that get a bearer token, and what their answers say. Pure.

    issuer --discovery_request--> read_endpoint --token_request--> read_token --> Grant | TokenFailure
    token_url ------------------------------------^

Requests are those of the client-credentials grant (RFC 6749, 4.4) and of OpenID Connect Discovery 1.0, whose document
must name the very issuer that it was asked of. No text of a failure has a secret or a token in it: what a token
endpoint says is shown to the client's operators, and dropped if it repeats a credential.
"""

import binascii
import re
from base64 import b64encode, urlsafe_b64decode
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import quote_plus, urlencode

import msgspec

from poller_cluster.delivery.headers import user_agent
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from scheduler_service.domain.destinations import TokenSource
from scheduler_service.domain.ids import ClientId

DEFAULT_LIFETIME_SECONDS: Final = 300.0
"""Of a token whose answer does not say how long it is valid."""
SHORTEST_LIFETIME_SECONDS: Final = 5.0
"""A token that is valid for less is refused: it would be asked for again and again."""
LONGEST_LIFETIME_SECONDS: Final = 86_400.0
MAX_TOKEN_LENGTH: Final = 8_192
"""Characters. Receivers commonly refuse headers of more than 8 KiB."""
MAX_SAID_LENGTH: Final = 200
_WELL_KNOWN: Final = "/.well-known/openid-configuration"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z")
"""The syntax of a bearer token (RFC 6750, 2.1)."""
_NOT_SAYABLE = re.compile(r"[^\x20-\x7e]|[\"\\]")
"""What neither `error` nor `error_description` may have (RFC 6749, 5.2)."""


FailureCode: TypeAlias = Literal["no-answer", "refused", "bad-answer", "busy"]
FAILURE_CODES: Final[tuple[FailureCode, ...]] = get_args(FailureCode)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A bearer token, and for how long it is valid from when it was asked for."""

    token: str
    lifetime_seconds: float

    def __repr__(self) -> str:
        return f"Grant(lifetime_seconds={self.lifetime_seconds})"


class TokenFailure(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no token: a stable code, and a sentence for the client's operators. `said`: the `error` and
    `error_description` of the token endpoint. `retry_after_seconds`: what it asked for.

    no-answer   there was no answer, or the network policy refuses the address
    refused     the answer has another status than 200
    bad-answer  the answer is not one that the standards describe, or its token is of no use
    busy        this process fetches as many tokens as it may
    """

    code: FailureCode
    detail: str
    said: str = ""
    retry_after_seconds: float | None = None


class _Document(msgspec.Struct):
    """What is used of a discovery document."""

    issuer: str
    token_endpoint: str


class _TokenAnswer(msgspec.Struct):
    token_type: str | None = None
    access_token: str | None = None
    id_token: str | None = None
    expires_in: int | float | str | None = None


class _ErrorAnswer(msgspec.Struct):
    error: str = ""
    error_description: str = ""


class _Claims(msgspec.Struct):
    """When an ID token is issued and when it expires, by the issuer's clock."""

    iat: int | float
    exp: int | float


_document = msgspec.json.Decoder(_Document)
_token_answer = msgspec.json.Decoder(_TokenAnswer)
_error_answer = msgspec.json.Decoder(_ErrorAnswer)
_claims = msgspec.json.Decoder(_Claims)
_UNDECODABLE = (msgspec.DecodeError, RecursionError)


def discovery_request(issuer: str, *, client_id: ClientId, timeout_seconds: float, version: str) -> CallbackRequest:
    """The request for an issuer's document."""
    return CallbackRequest(
        method="GET",
        url=issuer.removesuffix("/") + _WELL_KNOWN,
        headers=(("Accept", "application/json"), ("User-Agent", user_agent(version))),
        body=b"",
        timeout_seconds=timeout_seconds,
        client_id=client_id,
    )


def read_endpoint(issuer: str, result: AttemptResult) -> str | TokenFailure:
    """The token endpoint that an issuer's document names. It must be reached as safely as the document was."""
    if result.status != 200:
        return _not_answered("the issuer's discovery document", result)
    try:
        document = _document.decode(result.excerpt)
    except _UNDECODABLE:
        return _bad("the issuer's discovery document is not one, or is too long")
    if document.issuer != issuer:
        return _bad("the issuer's discovery document names another issuer")
    if issuer.lower().startswith("https:") and not document.token_endpoint.lower().startswith("https:"):
        return _bad("the issuer is reached over https, and its token endpoint would not be")
    return document.token_endpoint


def token_request(
    source: TokenSource, endpoint: str, *, client_id: ClientId, timeout_seconds: float, version: str
) -> CallbackRequest:
    """The request for a token."""
    fields = {"grant_type": "client_credentials"}
    headers = [
        ("Accept", "application/json"),
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("User-Agent", user_agent(version)),
    ]
    if source.scope is not None:
        fields["scope"] = source.scope
    if source.audience is not None:
        fields["audience"] = source.audience
    if source.authentication == "post":
        fields |= {"client_id": source.client_id, "client_secret": source.client_secret}
    else:
        headers.append(("Authorization", f"Basic {_basic(source)}"))
    return CallbackRequest(
        method="POST",
        url=endpoint,
        headers=tuple(headers),
        body=urlencode(fields).encode(),
        timeout_seconds=timeout_seconds,
        client_id=client_id,
    )


def read_token(source: TokenSource, result: AttemptResult) -> Grant | TokenFailure:
    """What the token endpoint answered."""
    if result.status != 200:
        return _not_answered("the token endpoint", result, said=_said(source, result.excerpt))
    try:
        answer = _token_answer.decode(result.excerpt)
    except _UNDECODABLE:
        return _bad("the token endpoint's answer is not one, or is too long")
    if (answer.token_type or "").lower() != "bearer":
        return _bad("the token endpoint's answer has another token_type than Bearer")
    name, token = ("id_token", answer.id_token) if source.id_token else ("access_token", answer.access_token)
    if not token:
        return _bad(f"the token endpoint's answer has no {name}")
    if len(token) > MAX_TOKEN_LENGTH or not _TOKEN.match(token):
        return _bad(f"the {name} is too long, or is not a bearer token")
    lifetime = _lifetime_of_id_token(token) if source.id_token else None
    if lifetime is None:
        lifetime = _lifetime(answer.expires_in)
    if lifetime is None or lifetime < SHORTEST_LIFETIME_SECONDS:
        return _bad(f"the token must be valid for {SHORTEST_LIFETIME_SECONDS:g} s at least; see expires_in")
    return Grant(token=token, lifetime_seconds=lifetime)


def _basic(source: TokenSource) -> str:
    """Both are encoded as in a form first (RFC 6749, 2.3.1)."""
    return b64encode(f"{quote_plus(source.client_id)}:{quote_plus(source.client_secret)}".encode()).decode()


def _lifetime(expires_in: float | str | None) -> float | None:
    """None: it is not a number. Some servers write it as a text of digits."""
    if expires_in is None:
        return DEFAULT_LIFETIME_SECONDS
    if isinstance(expires_in, str):
        return _bounded(int(expires_in[:9])) if expires_in.isascii() and expires_in.isdigit() else None
    return _bounded(expires_in)


def _lifetime_of_id_token(token: str) -> float | None:
    """By the claims of a signed JWT, which its receiver verifies; `expires_in` is about the access token."""
    payload = token.split(".")[1:2]
    if not payload:
        return None
    try:
        claims = _claims.decode(urlsafe_b64decode(payload[0] + "=" * (-len(payload[0]) % 4)))
        return _bounded(claims.exp - claims.iat)
    except (*_UNDECODABLE, binascii.Error, ValueError, OverflowError):
        return None


def _bounded(seconds: float) -> float:
    return float(min(max(seconds, 0), LONGEST_LIFETIME_SECONDS))


def _not_answered(what: str, result: AttemptResult, *, said: str = "") -> TokenFailure:
    if result.status is None:
        return TokenFailure(code="no-answer", detail=f"{what}: {result.detail}")
    return TokenFailure(
        code="refused",
        detail=f"{what} answered {result.status}",
        said=said,
        retry_after_seconds=result.retry_after_seconds,
    )


def _bad(detail: str) -> TokenFailure:
    return TokenFailure(code="bad-answer", detail=detail)


def _said(source: TokenSource, body: str) -> str:
    """The error that the token endpoint names (RFC 6749, 5.2), printable and short; "" if it has a credential in it."""
    try:
        answer = _error_answer.decode(body)
    except _UNDECODABLE:
        return ""
    texts = [answer.error, answer.error_description]
    credentials = {source.client_secret, quote_plus(source.client_secret), _basic(source)}
    if any(credential in text for credential in credentials for text in texts):
        return ""
    return ": ".join(shown for text in texts if (shown := _NOT_SAYABLE.sub(" ", text).strip()[:MAX_SAID_LENGTH]))
