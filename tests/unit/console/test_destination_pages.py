"""Destinations: health at a glance, pause and resume, and a form that loses no secret without saying so."""

from typing import Any

import pytest

from scheduler_service.console.destination_forms import destination_fields, destination_request
from scheduler_service.console.destination_pages import health_of
from tests.support.api import ApiHarness, cron
from tests.support.browser import Browser

DESTINATIONS = "/v1/clients/shop/destinations"
PAGE = "/console/clients/shop/destinations"


async def put(api: ApiHarness, name: str, **fields: object) -> None:
    reply = await api.send("PUT", f"{DESTINATIONS}/{name}", json={"url": "https://billing.example/hooks", **fields})
    assert reply.status in (200, 201), reply.body


async def get(api: ApiHarness, name: str) -> Any:
    reply = await api.send("GET", f"{DESTINATIONS}/{name}")
    return reply.json if reply.status == 200 else None


async def test_a_page_says_how_calls_go_and_who_uses_it(api: ApiHarness, key: str, manager: Browser) -> None:
    await api.add_built_in_clients()
    await put(api, "billing", headers={"X-Secret": "hush"})
    await put(api, "idle")
    await api.send("PUT", "/v1/clients/shop/crons/nightly", json=cron(callback={"destination": "billing"}))
    await api.send("PUT", "/v1/clients/shop/subscriptions/events", json={"destination": "billing"})
    listed = await manager.open(PAGE)
    assert {f"{PAGE}/billing", f"{PAGE}/idle"} <= set(listed.links)
    shown = await manager.open(f"{PAGE}/billing")
    assert "X-Secret" in shown.text
    assert "hush" not in shown.source
    assert "/console/clients/shop/crons/nightly" in shown.links
    assert "1 subscription: events" in shown.text
    idle = await manager.open(f"{PAGE}/idle")
    assert "/console/clients/shop/crons/nightly" not in idle.links


async def test_pause_resume_and_delete(api: ApiHarness, key: str, manager: Browser) -> None:
    await put(api, "billing")
    shown = await manager.open(f"{PAGE}/billing")
    assert not shown.offers("resume")
    shown = await manager.submit(shown, shown.form(act="pause"))
    assert ("Paused: its calls wait" in shown.text, shown.offers("pause")) == (True, False)
    assert (await get(api, "billing"))["paused_at"] is not None
    assert "Paused: its calls wait" in (await manager.open(PAGE)).text
    shown = await manager.submit(shown, shown.form(act="resume"))
    assert (await get(api, "billing"))["paused_at"] is None
    await api.send("PUT", "/v1/clients/shop/subscriptions/events", json={"destination": "billing"})
    refused = await manager.submit(shown, shown.form(act="delete"))
    assert (refused.status, "named by 1 subscription" in refused.text) == (409, True)
    form = shown.form(act="delete")
    form.fields["force"] = "on"
    shown = await manager.submit(shown, form)
    assert ("It is deleted" in shown.text, await get(api, "billing")) == (True, None)


async def test_who_may_not_manage_is_offered_nothing(api: ApiHarness, key: str, reader: Browser) -> None:
    await put(api, "billing")
    shown = await reader.open(f"{PAGE}/billing")
    assert shown.status == 200
    assert not any(shown.offers(act) for act in ("pause", "resume", "delete"))
    assert f"{PAGE}/billing:edit" not in shown.links
    assert f"{PAGE}:new" not in (await reader.open(PAGE)).links


async def test_a_destination_is_created_by_its_form(api: ApiHarness, key: str, manager: Browser) -> None:
    shown = await manager.open(f"{PAGE}:new")
    form = shown.form(kind="http")
    typed = {"name": "billing", "url": "https://billing.example/a", "headers": "X-Account: 7\nX-Colon: a:b"}
    wrong = await manager.submit(shown, form, **typed, max_in_flight="many")
    assert wrong.status == 422
    assert wrong.form(name="billing").fields["headers"] == typed["headers"]
    shown = await manager.submit(wrong, wrong.form(name="billing"), max_in_flight="5", max_per_second="0.5")
    assert (shown.status, shown.path) == (200, f"{PAGE}/billing")
    made = await get(api, "billing")
    assert (made["max_in_flight"], made["max_per_second"], set(made["headers"])) == (5, 0.5, {"X-Account", "X-Colon"})
    again = await manager.submit(wrong, wrong.form(name="billing"), max_in_flight="6")
    assert (again.status, (await get(api, "billing"))["max_in_flight"]) == (412, 5)


async def test_a_change_loses_no_secret_unsaid(api: ApiHarness, key: str, manager: Browser) -> None:
    await put(api, "billing", headers={"X-Secret": "hush"}, retry={"max_attempts": 4})
    shown = await manager.open(f"{PAGE}/billing:edit")
    wrong = await manager.submit(shown, shown.form(method="POST"), url="https://new.example/")
    assert (wrong.status, "the value of X-Secret is not shown again" in wrong.text) == (422, True)
    assert (await get(api, "billing"))["url"] == "https://billing.example/hooks"
    typed = {"headers": "X-Secret: louder"}
    shown = await manager.submit(wrong, wrong.form(method="POST"), **typed)
    assert "It is changed" in shown.text
    changed = await get(api, "billing")
    assert (changed["url"], changed["retry"]["max_attempts"]) == ("https://new.example/", 4)
    late = await manager.submit(wrong, wrong.form(method="POST"), **typed, url="https://late.example/")
    assert (late.status, (await get(api, "billing"))["url"]) == (412, "https://new.example/")


async def test_secrets_of_a_refused_form_are_not_sent_back(api: ApiHarness, key: str, manager: Browser) -> None:
    shown = await manager.open(f"{PAGE}:new")
    secret = {"token.client_id": "me", "token.client_secret": "hush-hush", "proxy.password": "psst"}
    wrong = await manager.submit(shown, shown.form(kind="http"), name="billing", url="no url", **secret)
    assert wrong.status == 422
    assert "hush-hush" not in wrong.source
    assert "psst" not in wrong.source


@pytest.mark.parametrize(
    ("figures", "tone", "text"),
    [
        ({"breaker": "open", "failures": 3}, "bad", "breaker is open"),
        ({"breaker": "half-open"}, "warn", "half-open"),
        ({"calls": 1200, "failures": 3}, "warn", "3 of 1,200 calls failed"),
        ({"calls": 1200}, "good", "All 1,200 calls"),
        ({"token_failures": 2}, "warn", "2 fetches of its token"),
        ({}, "plain", "No call"),
    ],
)
def test_health(figures: dict[str, Any], tone: str, text: str) -> None:
    known = {"calls": 0, "failures": 0, "breaker": "closed", "token_failures": 0, **figures}
    health = health_of({"paused_at": None, "figures": known})
    assert (health.tone, text in health.text) == (tone, True)


def test_what_the_form_has_no_field_for_and_what_is_masked() -> None:
    present = {
        "url": "https://a.example/",
        "kind": "http",
        "method": "PUT",
        "headers": {},
        "timeout_seconds": 7.0,
        "max_per_second": None,
        "max_in_flight": 3,
        "retry": {"max_attempts": 4},
        "certificate": {"subject": "CN=me", "expires_at": "2027-01-01T00:00:00Z"},
        "token": {"client_id": "me", "token_url": "https://t.example/", "authentication": "post", "id_token": True},
        "proxy": None,
        "cloudevents": None,
        "target": None,
    }
    form = destination_fields(present)
    _, faults = destination_request(form, present)
    assert list(faults) == ["/certificate"]
    body, faults = destination_request({**form, "without_certificate": "on", "token.client_secret": "s"}, present)
    assert faults == {}
    token = {"client_id": "me", "client_secret": "s", "token_url": "https://t.example/"}
    assert body == {
        "url": "https://a.example/",
        "kind": "http",
        "method": "PUT",
        "timeout_seconds": 7,
        "max_in_flight": 3,
        "retry": {"max_attempts": 4},
        "token": {**token, "authentication": "post", "id_token": True},
    }
    kafka = {
        **present,
        "kind": "kafka",
        "target": {"topic": "a", "password": "***"},
        "certificate": None,
        "token": None,
    }
    body, faults = destination_request(destination_fields(kafka), kafka)
    assert list(faults) == ["/target"]
    assert not {"url", "method"} & set(body)
