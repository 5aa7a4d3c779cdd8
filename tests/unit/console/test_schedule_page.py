"""A schedule's page: what is masked, what happened, and the acts that its caller may do."""

from typing import Any

from scheduler_service.domain.schedules import State
from tests.support.api import ApiHarness, callback
from tests.support.browser import Browser, Shown
from tests.support.outcomes import attempted, created, ended

SCHEDULES = "/v1/clients/shop/schedules"
SENT = callback(headers={"X-Account": "number-4711", "Authorization": "Bearer hush"}, body="the secret text")


async def page_of(browser: Browser, schedule_id: object) -> Shown:
    shown = await browser.open(f"/console/clients/shop/schedules/{schedule_id}")
    assert shown.status == 200, shown.text
    return shown


async def audit(api: ApiHarness) -> list[dict[str, Any]]:
    reply = await api.send("GET", "/v1/clients/shop/audit-log")
    return [one for one in reply.json["items"] if one["action"] == "show_content"]


async def test_headers_and_body_are_masked_until_the_audit_log_has_that_they_were_asked_for(
    api: ApiHarness, key: str, manager: Browser
) -> None:
    one = await created(api, key, callback=SENT)
    shown = await page_of(manager, one)
    assert "X-Account" in shown.text
    assert "15 bytes" in shown.text
    assert not any(secret in shown.source for secret in ("number-4711", "the secret text", "hush"))
    assert await audit(api) == []
    shown = await manager.submit(shown, shown.form(act="show"), act="show")
    assert (shown.status, "number-4711" in shown.text, "the secret text" in shown.text) == (200, True, True)
    assert "hush" not in shown.source
    [entry] = await audit(api)
    assert entry["target"] == {"client_id": "shop", "schedule_id": str(one)}
    assert (entry["by_client"], entry["status"]) == (True, 200)


async def test_who_may_only_read_is_offered_no_act_and_may_ask_what_is_sent(
    api: ApiHarness, key: str, reader: Browser
) -> None:
    one = await created(api, key, callback=SENT)
    shown = await page_of(reader, one)
    assert [act for act in ("cancel", "run", "reschedule", "redeliver") if shown.offers(act)] == []
    form = shown.form(act="show")
    assert "the secret text" in (await reader.submit(shown, form, act="show")).text
    form.fields["act"] = "cancel"
    assert (await reader.submit(shown, form)).status == 403
    assert (await api.send("GET", f"{SCHEDULES}/{one}", key=key)).json["state"] == "scheduled"


async def test_asking_at_another_client_s_address_shows_and_records_nothing(
    api: ApiHarness, key: str, manager: Browser
) -> None:
    one = await created(api, key)
    form = (await page_of(manager, one)).form(act="show")
    other = await api.register("other")
    made = await api.send("POST", "/v1/clients/other/schedules", key=other, json={"callback": SENT, "delay_seconds": 9})
    foreign = f"/console/clients/other/schedules/{made.json['schedule_id']}"
    form.action = foreign
    shown = await manager.submit(await page_of(manager, one), form, act="show")
    assert shown.status == 404
    assert "the secret text" not in shown.source
    log = (await api.send("GET", "/v1/clients/other/audit-log")).json["items"]
    assert [entry["action"] for entry in log if entry["action"] == "show_content"] == []


async def test_acts_of_a_waiting_schedule(api: ApiHarness, key: str, manager: Browser) -> None:
    one = await created(api, key, delay_seconds=600)
    shown = await page_of(manager, one)
    assert not shown.offers("redeliver")
    shown = await manager.submit(shown, shown.form(act="reschedule"), due="2026-11-21T12:00")
    assert "called at the new time" in shown.text
    moved = shown.path.rpartition("/")[2]
    assert (await api.send("GET", f"{SCHEDULES}/{moved}", key=key)).json["due"] == "2026-11-21T12:00:00.000Z"
    shown = await page_of(manager, one)
    assert f"/console/clients/shop/schedules/{moved}" in shown.links
    shown = await page_of(manager, moved)
    assert f"/console/clients/shop/schedules/{one}" in shown.links
    shown = await manager.submit(shown, shown.form(act="cancel"))
    assert "It is cancelled" in shown.text
    assert not any(shown.offers(act) for act in ("cancel", "run", "reschedule", "redeliver"))
    assert "It is cancelled" not in (await page_of(manager, moved)).text


async def test_call_now_leads_to_the_schedule_that_is_called(api: ApiHarness, key: str, manager: Browser) -> None:
    one = await created(api, key, delay_seconds=600)
    shown = await page_of(manager, one)
    shown = await manager.submit(shown, shown.form(act="run"))
    assert "It is called now" in shown.text
    reply = await api.send("GET", f"{SCHEDULES}/{shown.path.rpartition('/')[2]}", key=key)
    assert reply.json["rescheduled_from"] == str(one)


async def test_a_failed_schedule_says_what_its_receiver_answered_and_is_called_again(
    api: ApiHarness, key: str, manager: Browser
) -> None:
    one = await created(api, key, label="night<ly>")
    api.clock.advance(90)
    await attempted(api, one, 1, excerpt="<b>out of stock</b>", duration_ms=1200)
    await ended(api, one, State.FAILED)
    shown = await page_of(manager, one)
    for text in ("••• (19 characters)", "503", "1.2 s", "that was the last attempt"):
        assert text in shown.text, text
    assert "out of stock" not in shown.source
    asked = await manager.submit(shown, shown.form(act="show"), act="show")
    assert "<b>out of stock</b>" in asked.text
    assert "<b>out" not in asked.source
    assert len(await audit(api)) == 1
    assert "/console/clients/shop/schedules?label=night%3Cly%3E" in shown.links
    shown = await manager.submit(shown, shown.form(act="redeliver"))
    assert "It is called again" in shown.text
    assert (await api.send("GET", f"{SCHEDULES}/{one}", key=key)).json["state"] == "retrying"


async def test_what_was_asked_for_of_deadlines_ends_and_destinations_is_shown(
    api: ApiHarness, key: str, manager: Browser
) -> None:
    await api.send("PUT", "/v1/clients/shop/destinations/billing", json={"url": "https://billing.example/hooks"})
    await api.send("PATCH", "/v1/clients/shop/settings", json={"event_feed": True})
    one = await created(
        api,
        key,
        callback={"destination": "billing", "path": "/paid", "json": {"order": 7}},
        succeed_within_seconds=3600,
        on_failure="https://alarm.example/failed",
        timeout_seconds=7,
        retry={"max_attempts": 3},
        ordering_key="order-7",
    )
    shown = await page_of(manager, one)
    for text in (
        "billing/paid",
        "Should succeed by",
        "https://alarm.example/failed",
        "7.0 s",
        "max attempts 3",
        "order-7",
    ):
        assert text in shown.text, text
    assert "/console/clients/shop/destinations/billing" in shown.links
    listed = await manager.open("/console/clients/shop/schedules")
    assert (listed.status, "billing/paid" in listed.text) == (200, True)
