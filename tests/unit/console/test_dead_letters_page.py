"""Dead letters: what filters find is listed; selected ones, or all of it, are redelivered or acknowledged."""

from typing import Any

import pytest

from scheduler_service.console import dead_letter_pages
from scheduler_service.domain.ids import ScheduleId
from tests.support.api import ApiHarness, callback
from tests.support.browser import Browser, Shown
from tests.support.outcomes import created, gave_up

LETTERS = "/v1/clients/shop/dead-letters"
PAGE = "/console/clients/shop/dead-letters"


@pytest.fixture
async def ids(api: ApiHarness, key: str) -> list[ScheduleId]:
    """Four that have failed, two of them of b.example, answered 503, 500, 503 and 500."""
    hosts = ["a.example", "a.example", "b.example", "b.example"]
    made = [await created(api, key, callback=callback(url=f"https://{host}/hook")) for host in hosts]
    api.clock.advance(100)
    for at, one in enumerate(made):
        api.clock.advance(1)
        await gave_up(api, one, last_status=500 if at % 2 else 503)
    return made


async def waiting(api: ApiHarness, key: str) -> list[dict[str, Any]]:
    return list((await api.send("GET", LETTERS, key=key)).json["items"])


def listed(shown: Shown, ids: list[ScheduleId]) -> list[int]:
    assert shown.status == 200, shown.text
    return [at for at, one in enumerate(ids) if f"/console/clients/shop/schedules/{one}" in shown.links]


async def state(api: ApiHarness, key: str, schedule_id: ScheduleId) -> str:
    return str((await api.send("GET", f"/v1/clients/shop/schedules/{schedule_id}", key=key)).json["state"])


async def test_all_that_filters_find_are_called_again(
    api: ApiHarness, key: str, ids: list[ScheduleId], manager: Browser
) -> None:
    shown = await manager.open(PAGE)
    assert listed(shown, ids) == [0, 1, 2, 3]
    shown = await manager.open(f"{PAGE}?host=b.example&status=503")
    assert listed(shown, ids) == [2]
    shown = await manager.submit(shown, shown.form(act="redeliver-all"), act="redeliver-all")
    assert "1 of 1 is called again." in shown.text
    assert [await state(api, key, one) for one in ids] == ["failed", "failed", "retrying", "failed"]


async def test_what_failed_since_the_page_was_shown_is_left_alone(
    api: ApiHarness, key: str, ids: list[ScheduleId], manager: Browser
) -> None:
    shown = await manager.open(PAGE)
    late = await created(api, key)
    api.clock.advance(100)
    await gave_up(api, late)
    shown = await manager.submit(shown, shown.form(act="acknowledge-all"), act="acknowledge-all")
    assert "4 of 4 are acknowledged." in shown.text
    assert listed(shown, [*ids, late]) == [4]
    assert [one["schedule_id"] for one in await waiting(api, key)] == [str(late)]
    assert listed(await manager.open(f"{PAGE}?acknowledged=true"), ids) == [0, 1, 2, 3]


async def test_selected_ones_are_acknowledged_and_called_again(
    api: ApiHarness, key: str, ids: list[ScheduleId], manager: Browser
) -> None:
    letters = {one["schedule_id"]: one["letter_id"] for one in await waiting(api, key)}
    shown = await manager.open(PAGE)
    form = shown.form(act="acknowledge-selected")
    assert "Nothing was selected" in (await manager.submit(shown, form, act="redeliver-selected")).text
    form.fields["letter"] = letters[str(ids[1])]
    shown = await manager.submit(shown, form, act="acknowledge-selected")
    assert "1 of 1 is acknowledged" in shown.text
    assert listed(shown, ids) == [0, 2, 3]
    form.fields["letter"] = letters[str(ids[3])]
    assert "1 of 1 is called again" in (await manager.submit(shown, form, act="redeliver-selected")).text
    assert "0 of 1 are called again. The others" in (await manager.submit(shown, form, act="redeliver-selected")).text
    assert await state(api, key, ids[3]) == "retrying"


async def test_more_than_at_once_are_said_to_be_left(
    api: ApiHarness, key: str, ids: list[ScheduleId], manager: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_pages, "LETTERS_AT_ONCE", 3)
    shown = await manager.open(PAGE)
    shown = await manager.submit(shown, shown.form(act="redeliver-all"), act="redeliver-all")
    assert "3 of 3 are called again. More are left" in shown.text


async def test_pages_go_on_with_the_filters(
    api: ApiHarness, key: str, ids: list[ScheduleId], manager: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter_pages, "PER_PAGE", 1)
    shown = await manager.open(f"{PAGE}?host=b.example")
    first = listed(shown, ids)
    [link] = [one for one in shown.links if "cursor=" in one]
    shown = await manager.open(PAGE + link)
    assert sorted(first + listed(shown, ids)) == [2, 3]


async def test_wrong_filters_and_readers(
    api: ApiHarness, key: str, ids: list[ScheduleId], manager: Browser, reader: Browser
) -> None:
    shown = await manager.open(f"{PAGE}?status=teapot")
    assert (shown.status, "must be an HTTP status" in shown.text) == (422, True)
    shown = await reader.open(PAGE)
    assert listed(shown, ids) == [0, 1, 2, 3]
    assert not any(
        shown.offers(f"{act}-{which}") for act in ("redeliver", "acknowledge") for which in ("all", "selected")
    )
