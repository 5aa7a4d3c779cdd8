"""Acts on crons that are looked at first: backfills, and pausing and resuming by label."""

from typing import Any

from tests.support.api import ApiHarness
from tests.support.browser import Browser
from tests.unit.console.test_cron_pages import PAGE, get, put

RANGE = {"from": "2026-11-21T05:30", "to": "2026-11-21T09:00"}


async def test_a_backfill_says_which_fires_it_makes_and_makes_them_once(
    api: ApiHarness, key: str, manager: Browser
) -> None:
    await put(api, "hourly", expression="0 * * * *", timezone="UTC")
    assert f"{PAGE}/hourly:backfill" in (await manager.open(f"{PAGE}/hourly")).links
    shown = await manager.open(f"{PAGE}/hourly:backfill")
    form = shown.form(act="preview")
    wrong = await manager.submit(shown, form, act="preview", **{"from": "yesterday", "to": ""})
    assert (wrong.status, 'id="w-from"' in wrong.source) == (422, True)
    shown = await manager.submit(shown, form, act="preview", **RANGE)
    assert "3 of 3 fires would be made" in shown.text
    assert not [row for row in api.connection.rows("schedules") if row["kind"] == "copy"], "only looked at"
    done = await manager.submit(shown, shown.form(act="backfill"), act="backfill")
    assert "3 of 3 fires are made now." in done.text
    assert len([row for row in api.connection.rows("schedules") if row["kind"] == "copy"]) == 3
    shown = await manager.submit(wrong, wrong.form(act="preview"), act="preview", **RANGE)
    assert ("0 of 3 fires would be made" in shown.text, shown.offers("backfill")) == (True, False)


async def labelled(api: ApiHarness) -> list[Any]:
    return [(await get(api, name))["state"] for name in ("a", "b", "c")]


async def test_crons_of_a_label_are_paused_and_resumed_after_a_look(
    api: ApiHarness, key: str, manager: Browser
) -> None:
    for name, label in (("a", "night"), ("b", "night"), ("c", "day")):
        await put(api, name, label=label)
    shown = await manager.open(f"{PAGE}:labelled")
    form = shown.form(act="look-pause")
    looked = await manager.submit(shown, form, act="look-pause", label="night", note="moving")
    assert "2 of 2 crons would be paused" in looked.text
    assert await labelled(api) == ["active"] * 3
    done = await manager.submit(looked, looked.form(act="pause"), act="pause")
    assert "2 of 2 crons are paused." in done.text
    assert await labelled(api) == ["paused", "paused", "active"]
    assert (await get(api, "a"))["pause"]["note"] == "moving"
    looked = await manager.submit(shown, form, act="look-resume", label="night", note="another")
    assert looked.offers("resume") is False, "they were paused with another note"
    looked = await manager.submit(shown, form, act="look-resume", label="night", note="moving")
    done = await manager.submit(looked, looked.form(act="resume"), act="resume")
    assert "2 of 2 crons are resumed." in done.text
    assert await labelled(api) == ["active"] * 3
