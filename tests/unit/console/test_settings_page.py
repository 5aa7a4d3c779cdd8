"""A client's settings: what differs is changed, what is wrong is said at its field, and who may change what."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from scheduler_service.console.settings_forms import settings_fields, settings_request
from scheduler_service.domain.clients import ClientSettings
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.support.browser import Browser
from tests.unit.console.conftest import browser_of

PAGE = "/console/clients/shop/settings"
DEFAULTS: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(ClientSettings()))


@pytest.fixture
async def operator(api: ApiHarness, key: str) -> AsyncIterator[Browser]:
    async with browser_of(api) as browser:
        await browser.log_in(ADMIN_KEY)
        yield browser


async def stored(api: ApiHarness) -> Any:
    return (await api.send("GET", "/v1/clients/shop")).json


def test_a_form_that_was_left_alone_changes_nothing() -> None:
    assert settings_request(settings_fields(DEFAULTS), DEFAULTS) == ({}, {})


def test_what_differs_is_sent_each_setting_as_a_whole() -> None:
    typed = {"retry.max_attempts": "3", "verb.snooze": "on", "event_feed": "on", "hosts": '{"a.example": {}}'}
    asked, faults = settings_request({**settings_fields(DEFAULTS), **typed}, DEFAULTS)
    assert faults == {}
    assert asked == {
        "retry": {**DEFAULTS["retry"], "max_attempts": 3},
        "receiver_verbs": ["not-again", "snooze"],
        "event_feed": True,
        "hosts": {"a.example": {}},
    }
    _, faults = settings_request({**settings_fields(DEFAULTS), "flows": "{"}, DEFAULTS)
    assert list(faults) == ["/flows"]


async def test_a_client_changes_its_own_and_sees_the_others(api: ApiHarness, manager: Browser) -> None:
    shown = await manager.open(PAGE)
    assert ("Horizon days" in shown.text, shown.offers("own"), shown.offers("all")) == (True, True, False)
    form = shown.form(act="own")
    done = await manager.submit(shown, form, act="own", timeout_seconds="7", **{"retry.max_attempts": "4"})
    assert "The settings are changed" in done.text
    settings = (await stored(api))["stored_settings"]
    assert (settings["timeout_seconds"], settings["retry"]["max_attempts"]) == (7.0, 4)
    stale = await manager.submit(shown, form, act="own", timeout_seconds="9")
    assert stale.status == 412
    wrong = await manager.submit(done, done.form(act="own"), act="own", timeout_seconds="soon", hosts="{")
    assert (wrong.status, 'id="w-hosts"' in wrong.source) == (422, True)
    wrong = await manager.submit(done, done.form(act="own"), act="own", timeout_seconds="soon")
    assert (wrong.status, 'id="w-timeout_seconds"' in wrong.source) == (422, True)
    assert wrong.form(act="own").fields["timeout_seconds"] == "soon"
    form = done.form(act="own")
    form.fields["act"] = "all"
    form.fields |= {"poller_quota": "99", "settings": "{}"}
    assert (await manager.submit(done, form)).status == 403
    assert (await stored(api))["poller_quota"] != 99


async def test_an_operator_changes_quota_and_all(api: ApiHarness, operator: Browser) -> None:
    shown = await operator.open(PAGE)
    form = shown.form(act="all")
    wrong = await operator.submit(shown, form, act="all", settings="[")
    assert (wrong.status, 'id="w-settings"' in wrong.source) == (422, True)
    typed = form.fields["settings"].replace('"horizon_days": 730', '"horizon_days": 30')
    done = await operator.submit(shown, form, act="all", poller_quota="5", settings=typed)
    assert "The settings are changed" in done.text
    found = await stored(api)
    assert (found["poller_quota"], found["stored_settings"]["horizon_days"]) == (5, 30)


async def test_a_key_that_may_not_manage_sees_none(reader: Browser) -> None:
    assert (await reader.open(PAGE)).status == 403
    assert PAGE not in (await reader.open("/console/clients/shop")).links
