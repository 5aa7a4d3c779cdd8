"""Windows of lists are typed into the browser's own fields, which know no zone: they are UTC."""

import pytest

from scheduler_service.domain.instants import format_instant
from tests.support.api import ApiHarness
from tests.support.browser import Browser
from tests.support.outcomes import created, gave_up

LISTS = ("schedules", "dead-letters", "audit-log")


@pytest.mark.parametrize("listed", LISTS)
async def test_a_window_without_a_zone_is_read_as_utc_and_shown_again(
    api: ApiHarness, key: str, manager: Browser, listed: str
) -> None:
    one = await created(api, key, delay_seconds=0)
    await gave_up(api, one)
    now = api.clock.wall_ms()
    before, after = (format_instant(now + move)[:16] for move in (-600_000, 600_000))
    for window, found in (({"from": before, "to": after}, True), ({"from": after, "to": after[:-1] + "9"}, False)):
        page = await manager.open(f"/console/clients/shop/{listed}")
        form = next(one for one in page.forms if {"from", "to"} <= one.fields.keys() and one.method == "get")
        shown = await manager.submit(page, form, **window)
        assert shown.status == 200, shown.text
        assert (("create key" if listed == "audit-log" else str(one)) in shown.source) is found, window
        again = next(one for one in shown.forms if {"from", "to"} <= one.fields.keys() and one.method == "get")
        assert [again.fields[name] for name in window] == [f"{text}:00" for text in window.values()]
