"""Keys and signing secrets: what is made is shown once, what is ended says so, and only managers see any of it."""

from typing import Any

from tests.support.api import ApiHarness
from tests.support.browser import Browser
from tests.unit.console.conftest import browser_of

PAGE = "/console/clients/shop/keys"


async def keys(api: ApiHarness) -> list[dict[str, Any]]:
    return list((await api.send("GET", "/v1/clients/shop/keys")).json["items"])


async def secrets(api: ApiHarness) -> list[dict[str, Any]]:
    return list((await api.send("GET", "/v1/clients/shop/signing-secrets")).json["items"])


async def test_a_key_is_made_and_shown_once(api: ApiHarness, key: str, manager: Browser) -> None:
    shown = await manager.open(PAGE)
    form = shown.form(act="create-key")
    shown = await manager.submit(shown, form, name="orders", scope="read", expires_at="2026-12-24T00:00")
    [made] = [one for one in await keys(api) if one["name"] == "orders"]
    assert (made["scope"], made["expires_at"]) == ("read", "2026-12-24T00:00:00.000Z")
    [text] = [word for word in shown.text.split() if word.startswith("mh_")]
    assert (await api.send("GET", "/v1/clients/shop/schedules", key=text)).status == 200
    assert text not in (await manager.open(PAGE)).source
    assert shown.path == PAGE


async def test_a_refused_key_says_why_and_keeps_what_was_typed(api: ApiHarness, key: str, manager: Browser) -> None:
    shown = await manager.open(PAGE)
    form = shown.form(act="create-key")
    wrong = await manager.submit(shown, form, name="orders", expires_at="2020-01-01T00:00")
    assert (wrong.status, "/expires_at" in wrong.text) == (422, True)
    assert wrong.form(act="create-key").fields["name"] == "orders"
    assert "orders" not in [one["name"] for one in await keys(api)]


async def test_a_key_is_revoked_and_one_s_own_ends_the_session(api: ApiHarness, key: str, manager: Browser) -> None:
    shown = await manager.open(PAGE)
    shown = await manager.submit(shown, shown.form(act="revoke-key", key_id=key.split("_")[1]))
    assert "The key is revoked" in shown.text
    api.clock.advance(10)
    assert (await api.send("GET", "/v1/clients/shop/schedules", key=key)).status == 401
    assert "Your own session ends with it" in shown.text
    [own] = [one["key_id"] for one in await keys(api) if one["name"] == "manager"]
    await manager.submit(shown, shown.form(act="revoke-key", key_id=own))
    api.clock.advance(10)
    assert (await manager.open(PAGE)).path.startswith("/console/login")


async def test_a_signing_secret_is_rotated(api: ApiHarness, key: str, manager: Browser) -> None:
    [old] = await secrets(api)
    shown = await manager.open(PAGE)
    made = await manager.submit(shown, shown.form(act="create-secret"), scheme="v1")
    [text] = [word for word in made.text.split() if word.startswith("whsec_")]
    assert len(await secrets(api)) == 2
    shown = await manager.open(PAGE)
    assert text not in shown.source
    shown = await manager.submit(shown, shown.form(act="delete-secret", secret_id=old["secret_id"]))
    assert "The secret is deleted" in shown.text
    assert old["secret_id"] not in [one["secret_id"] for one in await secrets(api)]
    made = await manager.submit(shown, shown.form(act="create-secret"), scheme="v1a")
    assert "whpk_" in made.text
    assert "whpk_" in (await manager.open(PAGE)).text


async def test_it_is_for_managers(api: ApiHarness, key: str, reader: Browser) -> None:
    assert PAGE not in (await reader.open("/console/clients/shop")).links
    assert (await reader.open(PAGE)).status == 403
    async with browser_of(api) as writer:
        await writer.log_in(key)
        assert (await writer.open(PAGE)).status == 403
