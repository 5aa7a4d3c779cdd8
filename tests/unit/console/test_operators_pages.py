"""What only operators do: administrators' keys and deleting clients; and pollers and reconciliations of a client."""

from collections.abc import AsyncIterator

import pytest

from membership.ports import PollerKey
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.support.browser import Browser
from tests.support.nodes import Nodes
from tests.unit.console.conftest import browser_of

KEYS = "/console/admin-keys"
RECONCILIATIONS = "/console/clients/shop/reconciliations"


@pytest.fixture
async def operator(api: ApiHarness, key: str) -> AsyncIterator[Browser]:
    async with browser_of(api) as browser:
        await browser.log_in(ADMIN_KEY)
        yield browser


async def test_a_key_of_an_administrator_is_shown_once_and_ends_its_sessions(
    api: ApiHarness, operator: Browser
) -> None:
    shown = await operator.open(KEYS)
    wrong = await operator.submit(shown, shown.form(act="create-key"), name="x" * 300)
    assert (wrong.status, 'id="w-name"' in wrong.source) == (422, True)
    made = await operator.submit(shown, shown.form(act="create-key"), name="mira")
    text = next(word for word in made.text.split() if word.startswith("mh_"))
    shown = await operator.open(KEYS)
    assert ("mira" in shown.text, text in shown.source) == (True, False)
    async with browser_of(api) as other:
        await other.log_in(text)
        seen = await other.open(KEYS)
        assert (seen.status, "yours" in seen.text, seen.offers("create-key")) == (200, True, False)
        shown = await operator.submit(shown, shown.form(act="revoke-key"))
        assert "Revoked keys (1)" in shown.text
        assert (await other.open(KEYS)).path.startswith("/console/login")


async def test_a_suspended_client_is_deleted(api: ApiHarness, operator: Browser) -> None:
    shown = await operator.open("/console/clients/shop")
    assert not shown.offers("delete")
    shown = await operator.submit(shown, shown.form(act="suspend"))
    shown = await operator.submit(shown, shown.form(act="delete"))
    assert (shown.path, "shop is deleted" in shown.text) == ("/console/clients", True)
    assert (await api.send("GET", "/v1/clients/shop")).status == 404


async def test_pollers_say_who_owns_them(api: ApiHarness, key: str, reader: Browser) -> None:
    nodes = Nodes(api)
    await nodes.own(PollerKey("shop", 1), await nodes.add("node-a"))
    shown = await reader.open("/console/clients/shop/pollers")
    assert "3 pollers make this client's calls; 2 of them have no owner" in shown.text
    assert "1 node-a /7" in shown.text
    assert "/console/clients/shop/pollers" in (await reader.open("/console/clients/shop")).links


async def test_a_reconciliation_is_begun_once_and_stopped(api: ApiHarness, key: str, manager: Browser) -> None:
    shown = await manager.open(RECONCILIATIONS)
    form = shown.form(action="report")
    wrong = await manager.submit(shown, form, **{"from": "yesterday", "to": "2026-11-21T09:00"})
    assert (wrong.status, 'id="w-states"' in wrong.source) == (422, True)
    form.fields["state.failed"] = "on"
    typed = {"action": "redeliver", "from": "2026-11-21T08:00", "to": "2026-11-21T09:00", "label": "night"}
    begun = await manager.submit(shown, form, **typed)
    assert "It has begun" in begun.text
    again = await manager.submit(shown, form, **typed)
    assert again.path == begun.path
    [found] = (await api.send("GET", "/v1/clients/shop/reconciliations", key=key)).json["items"]
    assert (found["action"], found["states"], found["filters"]["label"]) == ("redeliver", ["failed"], ["night"])
