"""A client's events of the last minutes, whatever they say."""

from scheduler_service.domain.events import Block
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.unit.api.test_events import feed, tell
from tests.unit.console.conftest import browser_of


async def test_events_are_shown_that_have_no_key_no_status_and_no_reason(api: ApiHarness) -> None:
    await feed(api)
    await tell(api, Block("0000", 7, 0), 0, [1, 2])
    api.clock.advance(60)
    async with browser_of(api) as browser:
        await browser.log_in(ADMIN_KEY)
        shown = await browser.open("/console/clients/shop/events")
    assert shown.status == 200
    assert shown.text.count("schedule.delivered") == 2
