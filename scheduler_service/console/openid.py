"""What is asked of an OpenID provider: where its endpoints are, and who has logged in with a code.

The code comes back by the browser, and is exchanged here for an ID token, with the verifier that only this login knows
(PKCE). The token must be signed by a key that the provider publishes now, be made by this issuer for this client and
this login (`nonce`), and not have expired. Nothing else of the provider's answer is kept.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp

from membership.errors import MinutehandError
from scheduler_service.console.settings import ConsoleSettings, is_safe
from scheduler_service.domain.sessions import OfOidc
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.file_secrets import now

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by key pairs only: a secret that both sides know proves nothing about who has signed."""
LEEWAY_SECONDS: Final = 60
_KEPT_SECONDS: Final = 600.0
_ANSWER_SECONDS: Final = 10.0
_ANSWER_BYTES: Final = 1 << 20
_SUBJECT: Final = 255
_VALUES: Final = 1000


class ProviderFailed(MinutehandError):
    """The provider does not answer as it should, or its token is not good. The message is for operators."""


class Begun(NamedTuple):
    """What one login knows until it comes back: `state` ties it to its browser, `nonce` to its token, and `verifier`
    to its code."""

    state: str
    nonce: str
    verifier: str


class _Endpoints(NamedTuple):
    authorization: str
    token: str
    keys: str


class OpenIdProvider:
    """The provider of the settings, which must name one."""

    def __init__(self, settings: ConsoleSettings) -> None:
        assert settings.oidc_issuer is not None
        self._settings = settings
        self._issuer = settings.oidc_issuer
        self._kept: tuple[_Endpoints, float] | None = None

    async def address(self, begun: Begun, clock: Clock) -> str:
        """Where the browser is sent to log in. Raises ProviderFailed."""
        challenge = hashlib.sha256(begun.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id or "",
            "redirect_uri": self._settings.oidc_redirect or "",
            "scope": " ".join(self._settings.oidc_scopes),
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        address = (await self._endpoints(clock)).authorization
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(asked)}"

    async def person(self, code: str, begun: Begun, clock: Clock) -> OfOidc:
        """Who has logged in. Raises ProviderFailed."""
        endpoints = await self._endpoints(clock)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._settings.oidc_redirect or "",
            "code_verifier": begun.verifier,
            "client_id": self._settings.oidc_client_id or "",
        }
        answer = await self._ask("POST", endpoints.token, form)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderFailed("its answer has no id_token")
        return self._checked(token, await self._ask("GET", endpoints.keys), begun, now=clock.wall_ms() // 1000)

    def _checked(self, token: str, keys: Mapping[str, Any], begun: Begun, *, now: int) -> OfOidc:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        client_id = self._settings.oidc_client_id or ""
        must = jwt.JWTClaimsRegistry(
            now=now,
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": begun.nonce},
        )
        try:
            claims = jwt.decode(token, KeySet.import_key_set(keys), algorithms=list(ALGORITHMS)).claims  # type: ignore[arg-type]
            must.validate(claims)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise ProviderFailed(f"its token is not good: {type(error).__name__}") from error
        audience, party = claims["aud"], claims.get("azp")
        if party not in (None, client_id) or (isinstance(audience, list) and len(audience) > 1 and party is None):
            raise ProviderFailed("its token is for another client")
        subject = claims["sub"]
        if not isinstance(subject, str) or not subject.isprintable() or not 0 < len(subject) <= _SUBJECT:
            raise ProviderFailed("its token names nobody")
        return OfOidc(self._issuer, subject, _texts(claims.get(self._settings.oidc_claim)))

    async def _endpoints(self, clock: Clock) -> _Endpoints:
        """Those that the provider announces, asked for again after ten minutes."""
        now = clock.monotonic()
        if self._kept is not None and now < self._kept[1]:
            return self._kept[0]
        said = await self._ask("GET", self._issuer.rstrip("/") + "/.well-known/openid-configuration")
        if said.get("issuer") != self._issuer:
            raise ProviderFailed(f"it calls itself {said.get('issuer')!r}, not {self._issuer!r}")
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        found = [said.get(name) for name in names]
        for name, address in zip(names, found, strict=True):
            if not isinstance(address, str) or not is_safe(address):
                raise ProviderFailed(f"its {name} is no https address")
        endpoints = _Endpoints(*map(str, found))
        self._kept = (endpoints, now + _KEPT_SECONDS)
        return endpoints

    async def _ask(self, method: str, address: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
        secret = now(self._settings.oidc_client_secret)
        headers = {}
        if form is not None and secret is not None:
            named = f"{quote_plus(self._settings.oidc_client_id or '')}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(named.encode()).decode()}"
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS)) as session,
                session.request(method, address, data=form, headers=headers, allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    raise ProviderFailed(f"it answers {urlsplit(address).path} with status {answer.status}")
                body = bytearray()
                while part := await answer.content.read(_ANSWER_BYTES + 1 - len(body)):
                    body += part
                if len(body) > _ANSWER_BYTES:
                    raise ProviderFailed("its answer is too large")
                said = json.loads(body)
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            raise ProviderFailed(f"it does not answer as it should: {type(error).__name__}") from error
        if not isinstance(said, dict):
            raise ProviderFailed("its answer is no object")
        return said


def _texts(value: object) -> tuple[str, ...]:
    """The values of a claim: one text, or several."""
    several: Sequence[object] = value if isinstance(value, list) else [value]
    return tuple(one for one in several[:_VALUES] if isinstance(one, str))
