"""Crons: their next fires in two zones, a month of them, acts, and a form that previews and keeps what it hides."""

from typing import Any

from scheduler_service.console import cron_pages
from tests.support.api import ApiHarness, callback, cron
from tests.support.browser import Browser

CRONS = "/v1/clients/shop/crons"
PAGE = "/console/clients/shop/crons"
SENT = callback(headers={"X-Account": "number-4711"}, body="the secret text")


async def put(api: ApiHarness, cron_id: str, **fields: object) -> None:
    await api.add_built_in_clients()
    reply = await api.send("PUT", f"{CRONS}/{cron_id}", json=cron(**fields))
    assert reply.status in (200, 201), reply.body


async def get(api: ApiHarness, cron_id: str) -> Any:
    return (await api.send("GET", f"{CRONS}/{cron_id}")).json


async def asked(api: ApiHarness) -> int:
    log = (await api.send("GET", "/v1/clients/shop/audit-log")).json["items"]
    return sum(entry["action"] == "show_content" for entry in log)


async def test_next_fires_are_shown_in_the_crons_zone_and_in_utc(api: ApiHarness, key: str, manager: Browser) -> None:
    await put(api, "nightly", callback=SENT)
    for shown in (await manager.open(PAGE), await manager.open(f"{PAGE}/nightly")):
        assert shown.status == 200, shown.text
        for text in ("at 02:30 every day", "Sun 22 Nov 2026 02:30 CET", "Sun 22 Nov 2026 01:30 UTC"):
            assert text in shown.text, text
    shown = await manager.open(f"{PAGE}/nightly?month=2027-03")
    assert "March 2027" in shown.text
    assert (shown.text.count("02:30 planned"), shown.text.count("03:00 planned")) == (30, 1), "clocks go forward"
    assert "May 2099" in (await manager.open(f"{PAGE}/nightly?month=2099-05")).text


async def test_the_calendar_of_all_crons_says_what_is_left_out(
    api: ApiHarness, key: str, manager: Browser, monkeypatch: Any
) -> None:
    await put(api, "nightly")
    await put(api, "weekly", expression="0 12 * * 1", timezone="UTC")
    shown = await manager.open(f"{PAGE}:calendar?month=2026-12")
    assert ("12:00 weekly" in shown.text, "01:30 nightly" in shown.text) == (True, True)
    assert "are shown" not in shown.text
    monkeypatch.setattr(cron_pages, "IN_CALENDAR", 10)
    assert "its first 10 fires" in (await manager.open(f"{PAGE}:calendar?month=2026-12")).text


async def test_acts(api: ApiHarness, key: str, manager: Browser) -> None:
    await put(api, "nightly")
    shown = await manager.open(f"{PAGE}/nightly")
    shown = await manager.submit(shown, shown.form(act="pause"), note="moving the books")
    assert "moving the books" in shown.text
    assert ((await get(api, "nightly"))["state"], shown.offers("pause")) == ("paused", False)
    shown = await manager.submit(shown, shown.form(act="resume"))
    assert (await get(api, "nightly"))["state"] == "active"
    run = await manager.submit(shown, shown.form(act="trigger"))
    assert "this is it" in run.text
    assert f"{PAGE}/nightly" in run.links
    api.clock.advance(1)
    shown = await manager.open(f"{PAGE}/nightly")
    assert "triggered" in shown.text
    shown = await manager.submit(shown, shown.form(act="delete"))
    assert (shown.path, "It is deleted" in shown.text) == (PAGE, True)


async def test_what_is_called_is_masked_until_it_is_asked_for(api: ApiHarness, key: str, reader: Browser) -> None:
    await put(api, "nightly", callback=SENT)
    shown = await reader.open(f"{PAGE}/nightly")
    assert not any(shown.offers(act) for act in ("pause", "trigger", "delete"))
    assert "number-4711" not in shown.source
    assert await asked(api) == 0
    shown = await reader.submit(shown, shown.form(act="show"), act="show")
    assert ("number-4711" in shown.text, "the secret text" in shown.text, await asked(api)) == (True, True, 1)


async def test_a_cron_is_created_after_a_preview(api: ApiHarness, key: str, manager: Browser) -> None:
    await api.add_built_in_clients()
    shown = await manager.open(f"{PAGE}:new")
    typed = {"cron_id": "early", "expression": "15 4 * * *", "timezone": "Europe/Paris"}
    shown = await manager.submit(shown, shown.form(act="preview"), act="preview", **typed)
    assert "at 04:15 every day" in shown.text
    assert "Sun 22 Nov 2026 04:15 CET" in shown.text
    wrong = await manager.submit(shown, shown.form(cron_id="early"), act="preview", expression="15 44 * * *")
    assert (wrong.status, "/expression" in wrong.text) == (200, True)
    wrong = await manager.submit(shown, shown.form(cron_id="early"))
    assert (wrong.status, "/callback/url" in wrong.text) == (422, True)
    more = {"callback.url": "https://example.com/early", "callback.headers": "X-A: 1", "callback.body": "a\r\nb"}
    form = wrong.form(cron_id="early")
    form.fields["calendar.weekends"] = "on"
    shown = await manager.submit(wrong, form, **more, **{"catch_up_seconds": "120", "dst.fold": "both"})
    assert (shown.status, shown.path) == (200, f"{PAGE}/early")
    made = await get(api, "early")
    assert made["callback"] == {
        "url": "https://example.com/early",
        "method": "POST",
        "headers": {"X-A": "1"},
        "body": "a\nb",
    }
    assert (made["catch_up_seconds"], made["dst"]["fold"], made["calendar"]["weekends"]) == (120, "both", True)


async def test_a_change_keeps_what_it_does_not_show(api: ApiHarness, key: str, manager: Browser) -> None:
    kept = {"retry": {"max_attempts": 3}, "excluding": ["30 2 1 * *"], "label": "books", "max_fires": 7}
    await put(api, "nightly", callback=SENT, **kept, calendar={"country": "DE", "dates": ["2026-12-24"]})
    before = await get(api, "nightly")
    shown = await manager.open(f"{PAGE}/nightly:edit")
    assert "number-4711" not in shown.source
    shown = await manager.submit(shown, shown.form(callback="keep"), expression="45 3 * * *")
    assert (shown.status, shown.path) == (200, f"{PAGE}/nightly"), shown.text
    after = await get(api, "nightly")
    changed = {name for name in before if before[name] != after[name]}
    assert changed <= {"expression", "rule", "words", "next_fires", "revision", "changed_at"}
    assert after["expression"] == "45 3 * * *"
    assert await asked(api) == 0


async def test_a_change_of_what_is_called_is_asked_for_and_refused_with_a_mask(
    api: ApiHarness, key: str, manager: Browser
) -> None:
    await put(api, "nightly", callback=callback(headers={"Authorization": "Bearer hush", "X-A": "1"}, body="b"))
    shown = await manager.open(f"{PAGE}/nightly:edit")
    wrong = await manager.submit(shown, shown.form(callback="keep"), expression="45 3 * * *")
    assert (wrong.status, "credentials that are not shown again" in wrong.text) == (422, True)
    shown = await manager.submit(wrong, wrong.form(callback="keep"), act="show")
    assert await asked(api) == 1
    form = shown.form(expression="45 3 * * *")
    assert form.fields["callback.headers"] == "Authorization: ***\nX-A: 1"
    wrong = await manager.submit(shown, form)
    assert (wrong.status, "the value of Authorization is not shown again" in wrong.text) == (422, True)
    typed = {"callback.headers": "Authorization: Bearer new\nX-A: 2"}
    shown = await manager.submit(wrong, wrong.form(expression="45 3 * * *"), **typed)
    assert "It is changed" in shown.text
    assert (await get(api, "nightly"))["callback"]["headers"] == {"Authorization": "***", "X-A": "2"}
    late = await manager.submit(wrong, wrong.form(expression="45 3 * * *"), **{**typed, "expression": "1 1 * * *"})
    assert late.status == 412
