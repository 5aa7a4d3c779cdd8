"""The list of all clients: pages of a hundred, and a search over all of them."""

import re

from tests.support.api import ADMIN_KEY, ApiHarness
from tests.unit.console.conftest import browser_of

NAMES = [f"client-{number:03d}" for number in range(103)]


async def test_its_pages_list_each_client_once(api: ApiHarness) -> None:
    for name in NAMES:
        await api.register(name)
    async with browser_of(api) as browser:
        await browser.log_in(ADMIN_KEY)
        shown, listed = await browser.open("/console/clients"), []
        for expected in (100, 3):
            found = re.findall(r'href="/console/clients/(client-\d+)"', shown.source)
            assert len(found) == expected
            listed += found
            (after,) = [link for link in shown.links if "after=" in link] or [""]
            if after:
                shown = await browser.open("/console/clients" + after)
        assert listed == NAMES
        assert after == ""
        assert "103 clients" in shown.text
        few = await browser.open("/console/clients?q=client-10")
        assert "3 clients" in few.text
        assert not any("after=" in link for link in few.links)
