"""Logging in at an OpenID provider: who may, who may not, and tokens that are not good."""

import base64
import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote

import pytest
from joserfc.jwk import RSAKey
from structlog.testing import capture_logs

from scheduler_service.console.settings import ConsoleSettings
from tests.support.api import ApiHarness
from tests.support.openid import CLIENT, CODE, ScriptedProvider
from tests.unit.console.test_headers import check_page
from tests.unit.console.test_login import ELSEWHERE, Answer, Wire

pytestmark = pytest.mark.cpu_budget(5)  # makes key pairs

SETTINGS: dict[str, Any] = {
    "oidc_client_id": CLIENT,
    "oidc_redirect": "http://localhost/console/oidc",
    "oidc_administrators": ("ops",),
    "oidc_clients": ("readers=shop:read", "team=shop:manage", "a=b=other:write"),
}


class World:
    def __init__(self, api: ApiHarness, provider: ScriptedProvider, wire: Wire) -> None:
        self.api, self.provider, self.wire = api, provider, wire

    async def begin(self, next_: str = "") -> tuple[dict[str, str], str]:
        """What the provider is asked, and the cookie of the login."""
        answer = await self.wire.send("GET", "/console/oidc:begin" + (f"?next={next_}" if next_ else ""))
        assert answer.status == 303, answer.text
        asked = self.provider.login(answer.location or "")
        return asked, f"minutehand-oidc={answer.cookies['minutehand-oidc'].value}"

    async def log_in(self, groups: object = ("ops",), **claims: Any) -> Answer:
        self.provider.claims = {"groups": list(groups) if isinstance(groups, tuple) else groups, **claims}
        asked, cookie = await self.begin()
        return await self.wire.send("GET", f"/console/oidc?code={CODE}&state={asked['state']}", cookie=cookie)

    async def page(self, session: Answer, path: str) -> Answer:
        return await self.wire.send("GET", path, cookie=f"minutehand={session.cookies['minutehand'].value}")


@pytest.fixture
async def world(api: ApiHarness) -> AsyncIterator[World]:
    async with ScriptedProvider(lambda: api.clock.now) as provider:
        settings = ConsoleSettings(oidc_issuer=provider.issuer, **SETTINGS)
        async with ApiHarness(stores=api.storage, clock=api.clock, console=settings) as open_to:
            await open_to.register("shop")
            wire = Wire(open_to)
            yield World(open_to, provider, wire)
            await wire.close()


async def test_a_login_is_bound_to_its_browser_and_its_code(world: World) -> None:
    asked, cookie = await world.begin()
    assert (asked["response_type"], asked["client_id"], asked["scope"]) == ("code", CLIENT, "openid profile")
    assert (asked["redirect_uri"], asked["code_challenge_method"]) == (SETTINGS["oidc_redirect"], "S256")
    assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3
    await world.wire.send("GET", f"/console/oidc?code={CODE}&state={asked['state']}", cookie=cookie)
    [(form, _)] = world.provider.asked
    challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
    assert challenge.decode().rstrip("=") == asked["code_challenge"]
    assert form["code_verifier"] not in str(asked)


async def test_the_cookie_of_a_login_comes_back_from_elsewhere_and_is_short(world: World) -> None:
    answer = await world.wire.send("GET", "/console/oidc:begin")
    cookie = answer.cookies["minutehand-oidc"]
    assert (cookie["samesite"], cookie["httponly"], cookie["max-age"]) == ("Lax", True, "600")


async def test_an_administrator_of_the_provider_is_one_here(world: World) -> None:
    answer = await world.log_in()
    assert answer.status == 200
    check_page(answer)
    assert (answer.cookies["minutehand"]["samesite"], answer.cookies["minutehand-oidc"]["max-age"]) == ("Strict", "0")
    assert 'http-equiv="refresh" content="0; url=/console"' in answer.text
    page = await world.page(answer, "/console/cluster")
    assert page.status == 200
    assert "oidc:ann" in page.text
    assert "oidc_client_secret" not in page.text


@pytest.mark.parametrize(
    ("groups", "scope"),
    [(("readers",), "read"), (("team",), "manage"), (("x", "team", "readers"), "read"), ("team", "manage")],
)
async def test_others_are_of_the_client_that_the_claim_says(world: World, groups: object, scope: str) -> None:
    session = await world.log_in(groups)
    assert session.status == 200
    page = await world.page(session, "/console/clients/shop")
    assert f"oidc:ann ({scope})" in " ".join(page.text.replace("<", " <").split()) or f"({scope})" in page.text
    assert (await world.page(session, "/console/cluster")).status == 403
    assert (await world.page(session, "/console/clients/other")).status == 404


@pytest.mark.parametrize("groups", [(), ("opsx",), "op", None, {"ops": True}, [["ops"]], 7, ("a=b",)])
async def test_who_has_no_right_begins_nothing(world: World, groups: object) -> None:
    answer = await world.log_in(groups)
    assert (answer.status, "minutehand" in answer.cookies) == (403, False)
    assert "ask an operator" in answer.text
    assert world.api.connection.rows("console_sessions") == []


async def test_a_changed_configuration_holds_for_sessions_under_way(world: World) -> None:
    session = await world.log_in()
    for changed, status in (
        ({}, 200),
        ({"oidc_administrators": ()}, 303),
        ({"oidc_administrators": (), "oidc_clients": ("ops=shop:read",)}, 403),
    ):
        settings = ConsoleSettings(oidc_issuer=world.provider.issuer, **{**SETTINGS, **changed})
        async with ApiHarness(stores=world.api.storage, clock=world.api.clock, console=settings) as restarted:
            wire = Wire(restarted)
            cookie = f"minutehand={session.cookies['minutehand'].value}"
            assert (await wire.send("GET", "/console/cluster", cookie=cookie)).status == status
            await wire.close()
    moved = ConsoleSettings(oidc_issuer="https://login.example", **SETTINGS)
    async with ApiHarness(stores=world.api.storage, clock=world.api.clock, console=moved) as without:
        wire = Wire(without)
        assert (await wire.send("GET", "/console/cluster", cookie=cookie)).status == 303
        await wire.close()


async def test_what_an_administrator_of_the_provider_does_is_in_the_audit_log(world: World) -> None:
    session = await world.log_in()
    page = await world.page(session, "/console/clients/shop")
    token = page.text.partition('name="form_token" value="')[2].partition('"')[0]
    cookie = f"minutehand={session.cookies['minutehand'].value}"
    form = {"form_token": token, "act": "pause"}
    world.api.clock.advance(1)
    assert (await world.wire.send("POST", "/console/clients/shop", form=form, cookie=cookie)).status == 303
    newest = (await world.api.send("GET", "/v1/audit-log")).json["items"][0]
    assert (newest["action"], newest["actor"], newest["key_id"]) == ("pause_client", "oidc:ann", None)


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another"},
        {"aud": None},
        {"aud": [CLIENT, "another"]},
        {"aud": [CLIENT, "another"], "azp": "another"},
        {"azp": "another"},
        {"nonce": "another"},
        {"nonce": None},
        {"exp": 1_795_253_400 - 61},
        {"exp": None},
        {"iat": None},
        {"iat": 1_795_253_400 + 3_600},
        {"nbf": 1_795_253_400 + 3_600},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "x" * 256},
        {"sub": "a\nb"},
    ],
    ids=str,
)
async def test_tokens_that_are_not_good_begin_nothing(world: World, claims: dict[str, Any]) -> None:
    answer = await world.log_in(**claims)
    assert (answer.status, "minutehand" in answer.cookies) == (403, False)
    check_page(answer)


@pytest.mark.parametrize("how", ["signed_by_a_stranger", "signed_by_the_public_key", "unsigned"])
async def test_tokens_that_the_provider_did_not_sign_begin_nothing(world: World, how: str) -> None:
    world.provider.sign = getattr(world.provider, how)
    answer = await world.log_in()
    assert (answer.status, "minutehand" in answer.cookies) == (403, False)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "..", 7])
async def test_what_is_no_token_begins_nothing(world: World, token: Any) -> None:
    world.provider.sign = lambda _: token
    assert (await world.log_in()).status == 403


async def test_a_good_token_for_several_is_taken(world: World) -> None:
    assert (await world.log_in(aud=[CLIENT, "another"], azp=CLIENT)).status == 200


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state, cookie: (state + "x", cookie),
        lambda state, cookie: ("", cookie),
        lambda state, cookie: (state, ""),
        lambda state, cookie: (state, "minutehand-oidc=nonsense"),
        lambda state, cookie: (state, "minutehand-oidc=W10="),
        lambda state, cookie: ("", "minutehand-oidc=WyIiLCIiLCIiLG51bGxd"),
    ],
)
async def test_an_answer_that_belongs_to_no_login_of_this_browser_is_refused(
    world: World, spoil: Callable[[str, str], tuple[str, str]]
) -> None:
    """Else somebody could log their victim in as themselves."""
    asked, cookie = await world.begin()
    state, cookie = spoil(asked["state"], cookie)
    answer = await world.wire.send("GET", f"/console/oidc?code={CODE}&state={state}", cookie=cookie)
    assert (answer.status, answer.cookies.get("minutehand")) == (403, None)
    assert world.provider.asked == []


async def test_codes_that_are_guessed_are_bounded_and_logged(world: World) -> None:
    asked, cookie = await world.begin()
    with capture_logs() as logs:
        for _ in range(30):
            guess = f"/console/oidc?code=guessed&state={asked['state']}"
            answer = await world.wire.send("GET", guess, cookie=cookie)
    assert answer.status == 429
    assert len(world.provider.asked) == 20
    refused = [one for one in logs if one["event"] == "console-login-refused"]
    assert [one["address"] for one in refused] == ["127.0.0.1"] * 20
    world.api.clock.advance(1)
    for _ in range(30):
        assert (await world.log_in()).status == 200


@pytest.mark.parametrize("query", ["error=access_denied", "code=", "code=another"])
async def test_a_login_that_was_refused_there_says_so(world: World, query: str) -> None:
    asked, cookie = await world.begin()
    answer = await world.wire.send("GET", f"/console/oidc?{query}&state={asked['state']}", cookie=cookie)
    assert answer.status == 403
    assert "did not succeed" in answer.text


@pytest.mark.parametrize("next_", ["/console/clients", *ELSEWHERE[:8]])
async def test_it_leads_back_to_a_page_of_the_console_only(world: World, next_: str) -> None:
    world.provider.claims = {"groups": ["ops"]}

    asked, cookie = await world.begin(quote(next_, safe=""))
    answer = await world.wire.send("GET", f"/console/oidc?code={CODE}&state={asked['state']}", cookie=cookie)
    leads = "/console/clients" if next_ == "/console/clients" else "/console"
    assert f'content="0; url={leads}"' in answer.text


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
    ids=str,
)
async def test_a_provider_that_announces_nonsense_is_not_asked(world: World, said: dict[str, Any]) -> None:
    world.provider.discovery = said
    answer = await world.wire.send("GET", "/console/oidc:begin")
    assert (answer.status, answer.location) == (502, None)
    check_page(answer)


@pytest.mark.parametrize(("bytes_", "status"), [(200_000, 200), (1 << 20, 403)])
async def test_a_large_answer_is_read_to_its_end_or_refused(world: World, bytes_: int, status: int) -> None:
    """Answers arrive in parts as large as the network likes."""
    other = RSAKey.generate_key(2048, parameters={"kid": "2"}).as_dict(private=False)
    world.provider.more_keys = [{**other, "x": "x" * bytes_}]
    assert (await world.log_in()).status == status


async def test_the_secret_is_sent_to_the_provider_alone(api: ApiHarness) -> None:
    async with ScriptedProvider(lambda: api.clock.now) as provider:
        settings = ConsoleSettings(oidc_issuer=provider.issuer, oidc_client_secret="s:e c", **SETTINGS)
        assert "s:e c" not in repr(settings)
        async with ApiHarness(stores=api.storage, clock=api.clock, console=settings) as open_to:
            world = World(open_to, provider, Wire(open_to))
            assert (await world.log_in()).status == 200
            await world.wire.close()
        [(form, header)] = provider.asked
        assert "s:e c" not in str(form)
        assert header == f"Basic {base64.b64encode(b'minutehand:s%3Ae+c').decode()}"


async def test_the_login_offers_it_only_where_it_is_configured(api: ApiHarness, world: World) -> None:
    shown = await world.wire.send("GET", "/console/login?next=/console/clients")
    assert 'href="/console/oidc:begin?next=/console/clients"' in shown.text
    wire = Wire(api)
    assert "oidc" not in (await wire.send("GET", "/console/login")).text
    assert (await wire.send("GET", "/console/oidc:begin")).status == 404
    await wire.close()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"oidc_client_id": None}, "oidc_issuer"),
        ({"oidc_redirect": None}, "oidc_issuer"),
        ({"oidc_issuer": "http://login.example"}, "oidc_issuer"),
        ({"oidc_issuer": "https://login.example/#x"}, "oidc_issuer"),
        ({"oidc_redirect": "http://minutehand.example/console/oidc"}, "oidc_redirect"),
        ({"oidc_clients": ("team",)}, "oidc_clients"),
        ({"oidc_clients": ("team=shop",)}, "oidc_clients"),
        ({"oidc_clients": ("team=shop:own",)}, "oidc_clients"),
        ({"oidc_clients": ("=shop:read",)}, "oidc_clients"),
    ],
    ids=str,
)
def test_settings_that_can_not_be_meant_are_refused(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named}: "):
        ConsoleSettings(**{"oidc_issuer": "https://login.example", **SETTINGS, **wrong})
