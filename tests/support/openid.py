"""An OpenID provider whose tokens a test makes as it likes."""

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

CLIENT = "minutehand"
CODE = "the-code"
PACKET = 50_000


class ScriptedProvider:
    """`claims`: what the next token says beside its own defaults; None takes one away. `sign`: makes the token.
    `asked`: the forms that its token endpoint was sent, with the header that names the client. `more_keys`: those
    that it publishes beside its own."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._now = clock_ms
        self.key = RSAKey.generate_key(2048, parameters={"kid": "1"}, private=True)
        self.claims: dict[str, Any] = {}
        self.discovery: dict[str, Any] = {}
        self.sign: Callable[[Mapping[str, Any]], str] = self.signed
        self.asked: list[tuple[dict[str, str], str | None]] = []
        self.more_keys: list[dict[str, str]] = []
        self.nonce = ""
        self.issuer = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> "ScriptedProvider":
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discover)
        app.router.add_post("/token", self._token)
        app.router.add_get("/keys", self._keys)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.issuer = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def login(self, address: str) -> dict[str, str]:
        """What a browser that was sent there comes back with."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        self.nonce = asked["nonce"]
        return asked

    def signed(self, claims: Mapping[str, Any]) -> str:
        return jwt.encode({"alg": "RS256", "kid": "1"}, dict(claims), self.key)

    def signed_by_a_stranger(self, claims: Mapping[str, Any]) -> str:
        other = RSAKey.generate_key(2048, parameters={"kid": "1"}, private=True)
        return jwt.encode({"alg": "RS256", "kid": "1"}, dict(claims), other)

    def signed_by_the_public_key(self, claims: Mapping[str, Any]) -> str:
        """A verifier that takes a public key for a shared secret takes this."""
        secret = OctKey.import_key(self.key.as_pem(private=False))
        return jwt.encode({"alg": "HS256", "kid": "1"}, dict(claims), secret)

    def unsigned(self, claims: Mapping[str, Any]) -> str:
        head, body, _ = self.signed(claims).split(".")
        return f"eyJhbGciOiJub25lIn0.{body}." if head else ""

    async def _discover(self, request: web.Request) -> web.Response:
        known = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }
        return web.json_response(known | self.discovery)

    async def _keys(self, request: web.Request) -> web.StreamResponse:
        """In parts, as large answers arrive."""
        keys = KeySet([self.key]).as_dict(private=False)["keys"]
        body = json.dumps({"keys": [*self.more_keys, *keys]}).encode()
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        for at in range(0, len(body), PACKET):
            await answer.write(body[at : at + PACKET])
        return answer

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.asked.append((form, request.headers.get("Authorization")))
        if form.get("code") != CODE:
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = self._now() // 1000
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": "ann", "iat": now, "exp": now + 300, "nonce": self.nonce}
        claims = {name: value for name, value in (claims | self.claims).items() if value is not None}
        return web.json_response({"id_token": self.sign(claims), "access_token": "x", "token_type": "Bearer"})
