"""Subscriptions: listed, created, changed against what was shown, and deleted."""

from typing import Any

import pytest

from scheduler_service.console.subscription_pages import fields_of, request_of
from tests.support.api import ApiHarness
from tests.support.browser import Browser

PAGE = "/console/clients/shop/subscriptions"


@pytest.fixture
async def billing(api: ApiHarness, key: str) -> None:
    await api.send("PUT", "/v1/clients/shop/destinations/billing", json={"url": "https://billing.example/"})


async def get(api: ApiHarness, name: str) -> Any:
    reply = await api.send("GET", f"/v1/clients/shop/subscriptions/{name}")
    return reply.json if reply.status == 200 else None


@pytest.mark.usefixtures("billing")
async def test_create_change_and_delete(api: ApiHarness, manager: Browser) -> None:
    shown = await manager.open(PAGE)
    form = shown.form(act="put")
    form.fields["events"] = "schedule.failed"
    wrong = await manager.submit(shown, form, name="ops", destination="Nowhere", **{"filter.label": "books"})
    assert (wrong.status, "/destination" in wrong.text) == (422, True)
    kept = wrong.form(act="put")
    assert (kept.fields["filter.label"], kept.fields["events"]) == ("books", "schedule.failed")
    shown = await manager.submit(wrong, kept, destination="billing")
    assert "Events are sent as ops says" in shown.text
    made = await get(api, "ops")
    assert (made["events"], made["filter"]["label"], made["enabled"]) == (["schedule.failed"], "books", True)
    again = await manager.submit(wrong, kept, destination="billing", **{"filter.label": "others"})
    assert (again.status, (await get(api, "ops"))["filter"]["label"]) == (412, "books")
    shown = await manager.open(f"{PAGE}?change=ops")
    form = shown.form(act="put", revision=str(made["revision"]))
    del form.fields["enabled"]
    shown = await manager.submit(shown, form)
    assert (await get(api, "ops"))["enabled"] is False
    assert (await manager.submit(shown, form, destination="other")).status in (412, 422)
    shown = await manager.submit(shown, shown.form(act="delete", name="ops"))
    assert ("ops is deleted" in shown.text, await get(api, "ops")) == (True, None)


@pytest.mark.usefixtures("billing")
async def test_readers_see_them_and_are_offered_nothing(api: ApiHarness, reader: Browser) -> None:
    await api.send("PUT", "/v1/clients/shop/subscriptions/ops", json={"destination": "billing"})
    shown = await reader.open(PAGE)
    assert "ops" in shown.text
    assert "/console/clients/shop/destinations/billing" in shown.links
    assert not any(shown.offers(act) for act in ("put", "delete"))


def test_a_form_brings_back_what_it_began_with() -> None:
    asked = {"destination": "a", "events": ["cron.missed", "schedule.failed"], "enabled": False}
    filters = {"label": "l", "key_prefix": None, "cron_id": "c", "destination": None}
    fields = fields_of({**asked, "name": "n", "revision": 3, "filter": filters})
    assert request_of(fields) == {**asked, "filter": {"label": "l", "cron_id": "c"}}
