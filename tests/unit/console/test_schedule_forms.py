"""The forms that create a schedule and change one, and acts on all schedules of a window."""

from typing import Any

import pytest

from scheduler_service.console.forms import KEPT
from scheduler_service.console.schedule_form_pages import due_of
from scheduler_service.console.schedule_forms import schedule_request, span_of, update_request, when_of
from scheduler_service.console.window_pages import moved_by
from tests.support.api import NOW, ApiHarness, callback
from tests.support.browser import Browser
from tests.support.outcomes import created
from tests.unit.console.test_schedule_page import SCHEDULES, audit

FORM = "/console/clients/shop/schedules:new"
WINDOW = "/console/clients/shop/schedules:window"
MASKED: dict[str, str] = {"Authorization": "***", "X-A": "1"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("in 10 min", 600),
        ("in 1.5h", 5400),
        ("2 h 30 min", 9000),
        ("in 1 day", 86_400),
        ("90 s", 90),
        ("now", 0),
        ("in a while", None),
        ("10", None),
        ("2026-12-24", None),
        ("", None),
    ],
)
def test_spans_are_read(text: str, seconds: float | None) -> None:
    assert span_of(text) == seconds


def test_a_span_as_long_as_a_form_takes_no_time() -> None:
    for text in ("1" * 200_000, "1." * 100_000, "1" + " " * 200_000):
        assert span_of(text) is None


async def test_a_field_that_nobody_would_type_is_refused(api: ApiHarness, manager: Browser) -> None:
    token = (await manager.open(FORM)).form(act="preview").fields["form_token"]
    for page, fields in (
        (FORM, {"due": "9" * 20 + " days", "act": "preview"}),
        (FORM, {"due": "9" * 20 + " days"}),
        *((FORM, {"due": f"{day}T00:00:00+23:59", "act": "preview"}) for day in ("0001-01-01", "1960-01-01")),
        *((FORM, {"callback.is_json": "on", "callback.body": "[" * n + "]" * n}) for n in range(700, 1000, 10)),
        (WINDOW, {"act": "reschedule", "due": "+1 h", "window_seconds": "9" * 5000}),
        (WINDOW, {"act": "reschedule", "due": "+" + "9" * 20 + " d"}),
    ):
        shown = await manager.post(page, {"callback.url": "https://receiver.example/", **fields, "form_token": token})
        assert shown.status in (200, 400, 422), (fields, shown.text)


def test_a_due_is_an_instant_a_local_time_or_so_long_from_now() -> None:
    assert when_of({"due": "in 2 min", "timezone": "Europe/Berlin"}) == {"delay_seconds": 120}
    assert when_of({"due": "2026-12-24 18:00", "timezone": "UTC"}) == {"due": "2026-12-24T18:00:00Z"}
    local = {"local": "2026-12-24T18:00", "timezone": "Europe/Berlin"}
    assert when_of({"due": "2026-12-24 18:00", "timezone": "Europe/Berlin"}) == {"due": local}
    assert when_of({"due": "tomorrow"}) == {"due": "tomorrow"}, "the API says what is wrong"
    assert when_of({}) == {}
    assert due_of({"due": "2026-12-24 18:00", "timezone": "Europe/Berlin"}, NOW) == ("2026-12-24T17:00:00.000Z", None)
    assert due_of({"due": "in 1 h"}, NOW)[0] == "2026-11-21T10:30:00.000Z"
    at, wrong = due_of({"due": "tomorrow"}, NOW)
    assert (at, "in 10 min" in (wrong or "")) == (None, True), "it names all that the field takes"
    assert due_of({"due": "2026-12-24 18:00", "timezone": "Moon/Base"}, NOW)[0] is None


def test_a_window_moves_by_so_much_or_to_one_instant() -> None:
    assert moved_by({"due": "+2 h"}) == {"shift_seconds": 7200}
    assert moved_by({"due": "-30 min", "window_seconds": "60"}) == {"shift_seconds": -1800}
    assert moved_by({"due": "in 1 h", "window_seconds": "60"}) == {"delay_seconds": 3600, "window_seconds": 60}
    assert moved_by({"due": "+ much"}) == {"due": "+ much"}


def present(**changes: Any) -> dict[str, Any]:
    called = {"url": "https://a.example", "method": "POST", "headers": dict(MASKED), "body": "old\n"}
    fields = {"label": "l", "retry": {"max_attempts": 3}, "timeout_seconds": 7.0, "skip_after_seconds": None}
    return {"callback": called, **fields, **changes}


KEEPS = {
    "label": "l",
    "retry.max_attempts": "3",
    "timeout_seconds": "7",
    "callback.url": "https://a.example",
    "callback.method": "POST",
    "callback.headers": "Authorization: ***\r\nX-A: 1",
    "callback.body": "old\r\n",
}


@pytest.mark.parametrize(
    ("typed", "patch"),
    [
        ({}, {}),
        ({"callback": KEPT, "callback.url": "ignored"}, {}),
        ({"label": ""}, {"label": None}),
        ({"label": "m", "timeout_seconds": "soon"}, {"label": "m", "timeout_seconds": "soon"}),
        ({"retry.max_attempts": ""}, {"retry": None}),
        ({"retry.final_statuses": "400, 404"}, {"retry": {"max_attempts": 3, "final_statuses": [400, 404]}}),
        ({"due": "in 1 h"}, {"delay_seconds": 3600}),
        ({"callback.body": ""}, {"callback": {"body": None}}),
        ({"callback.headers": "X-A: 2"}, {"callback": {"headers": {"X-A": "2", "Authorization": None}}}),
        ({"callback.url": "", "callback.destination": "d"}, {"callback": {"destination": "d"}}),
        ({"callback.method": ""}, {"callback": {"method": None}}),
    ],
)
def test_a_change_names_only_what_differs(typed: dict[str, str], patch: dict[str, Any]) -> None:
    assert update_request({**KEEPS, **typed}, present()) == (patch, {})


def test_what_a_change_can_not_be_is_said_at_its_field() -> None:
    _, faults = update_request({**KEEPS, "callback.headers": "X-A: ***\nnothing"}, present())
    assert list(faults) == ["/callback/headers"]
    _, faults = update_request({**KEEPS, "callback.url": ""}, present())
    assert list(faults) == ["/callback/url"]
    _, faults = schedule_request({"callback.body": "{", "callback.is_json": "on"})
    assert list(faults) == ["/callback/json"]


async def test_a_schedule_is_created_once_however_often_its_form_is_sent(
    api: ApiHarness, key: str, manager: Browser
) -> None:
    form_page = await manager.open(FORM)
    form = form_page.form(due="in 1 min")
    typed = {
        "due": "in 10 min",
        "label": "night",
        "callback.url": "https://receiver.example/hook",
        "callback.headers": "X-Account: 4711",
        "callback.body": '{"order": 17}',
        "retry.max_attempts": "4",
        "timeout_seconds": "7.5",
    }
    form.fields["callback.is_json"] = "on"
    shown = await manager.submit(form_page, form, **typed)
    assert (shown.status, "It is created" in shown.text) == (200, True), shown.text
    again = await manager.submit(form_page, form, **typed)
    assert again.path == shown.path
    found = (await api.send("GET", f"{SCHEDULES}/{shown.path.rpartition('/')[2]}", key=key)).json
    assert (found["due"], found["label"]) == ("2026-11-21T09:40:00.000Z", "night")
    assert (found["retry"], found["timeout_seconds"]) == ({"max_attempts": 4}, 7.5)
    assert found["callback"]["body"] == '{"order":17}' or found["callback"]["body"] == '{"order": 17}'
    assert {**found["callback"]["headers"]}.items() >= {("X-Account", "4711")}


async def test_what_is_wrong_is_said_at_the_fields_and_what_was_typed_stays(
    api: ApiHarness, key: str, manager: Browser
) -> None:
    form_page = await manager.open(FORM)
    typed = {"due": "soon", "callback.url": "nonsense", "timeout_seconds": "long", "label": "l" * 300}
    shown = await manager.submit(form_page, form_page.form(due="in 1 min"), **typed)
    assert shown.status == 422
    for name in ("callback.url", "timeout_seconds", "label"):
        assert f'id="w-{name}"' in shown.source, name
    form = shown.form(due="soon")
    assert {name: form.fields[name] for name in typed} == typed
    typed = {"due": "soon", "callback.url": "https://receiver.example", "timeout_seconds": "", "label": ""}
    shown = await manager.submit(shown, form, **typed)
    assert (shown.status, 'id="w-due"' in shown.source) == (422, True)
    previewed = await manager.submit(shown, shown.form(due="soon"), act="preview", due="in 2 h")
    assert "Sat 21 Nov 2026 11:30 UTC" in previewed.text
    assert (await api.send("GET", SCHEDULES, key=key)).json["items"] == []


async def test_a_waiting_schedule_is_changed_and_what_is_called_stays_masked(
    api: ApiHarness, key: str, manager: Browser
) -> None:
    sent = callback(headers={"X-Account": "number-4711", "Authorization": "Bearer hush"}, body="the secret text")
    one = await created(api, key, callback=sent, label="old", delay_seconds=600)
    page = await manager.open(f"/console/clients/shop/schedules/{one}")
    assert f"/console/clients/shop/schedules/{one}:edit" in page.links
    form_page = await manager.open(f"/console/clients/shop/schedules/{one}:edit")
    assert not any(secret in form_page.source for secret in ("number-4711", "the secret text", "hush"))
    assert form_page.form(label="old").fields["tag"]
    shown = await manager.submit(form_page, form_page.form(label="old"), label="new")
    assert "It is changed" in shown.text
    stale = await manager.submit(form_page, form_page.form(label="old"), label="newer")
    assert stale.status in (409, 412), "it was changed meanwhile"
    changed = shown.path.rpartition("/")[2]
    form_page = await manager.open(f"/console/clients/shop/schedules/{changed}:edit")
    asked = await manager.submit(form_page, form_page.form(label="new"), act="show")
    assert "the secret text" in asked.text
    assert "hush" not in asked.source
    assert len(await audit(api)) == 1
    form = asked.form(label="new")
    shown = await manager.submit(asked, form, **{"callback.body": "another text", "due": "in 1 h"})
    moved = shown.path.rpartition("/")[2]
    assert moved != changed
    found = (await api.send("GET", f"{SCHEDULES}/{moved}", key=key)).json
    assert (found["due"], found["callback"]["body"]) == ("2026-11-21T10:30:00.000Z", "another text")
    assert found["callback"]["headers"]["X-Account"] == "number-4711"
    assert "Authorization" in found["callback"]["headers"], "its credentials went with it, unseen"


async def test_a_window_is_counted_then_cancelled(api: ApiHarness, key: str, manager: Browser, reader: Browser) -> None:
    for label in ("a", "a", "b"):
        await created(api, key, delay_seconds=600, label=label)
    shown = await manager.open(f"{WINDOW}?label=a")
    assert "2 schedules" in shown.text
    looked = await reader.open(f"{WINDOW}?label=a")
    assert ("2 schedules" in looked.text, looked.offers("cancel")) == (True, False)
    shown = await manager.submit(shown, shown.form(act="cancel"), act="cancel")
    assert "2 of 2 are cancelled" in shown.text
    assert "0 schedules" in shown.text
    left = (await api.send("GET", f"{SCHEDULES}?state=scheduled", key=key)).json["items"]
    assert [one["label"] for one in left] == ["b"]


async def test_a_window_is_rescheduled_a_part_at_a_time(api: ApiHarness, key: str, manager: Browser) -> None:
    items = [{"callback": callback(), "delay_seconds": 600 + number} for number in range(210)]
    assert (await api.send("POST", f"{SCHEDULES}:batch", key=key, json={"items": items})).status == 200
    shown = await manager.open(WINDOW)
    form = shown.form(act="reschedule")
    wrong = await manager.submit(shown, form, act="reschedule", due="sometime")
    assert (wrong.status, 'id="w-due"' in wrong.source) == (422, True)
    shown = await manager.submit(shown, form, act="reschedule", due="+2 h")
    assert "200 of 200 are rescheduled. More are left" in shown.text
    shown = await manager.submit(shown, shown.form(act="reschedule"), act="reschedule")
    assert "10 of 10 are rescheduled." in shown.text
    found = (await api.send("GET", f"{SCHEDULES}:count?from=2026-11-21T11:40:00Z", key=key)).json
    assert found["count"] == 210
