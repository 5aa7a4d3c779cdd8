"""A client at a glance: what failed last."""

import re

from scheduler_service.domain.ids import HOUR_MS
from tests.support.api import ApiHarness
from tests.support.browser import Browser, Shown
from tests.support.outcomes import created, gave_up

PAGE = "/console/clients/shop"


async def failed(api: ApiHarness, key: str, count: int) -> list[str]:
    """Calls that fail a second apart."""
    ids = []
    for _ in range(count):
        one = await created(api, key, delay_seconds=0)
        api.clock.advance(1)
        await gave_up(api, one)
        ids.append(str(one))
    return ids


def listed(shown: Shown) -> list[str]:
    return re.findall(rf'<th scope="row"><a href="{PAGE}/schedules/([0-9a-f-]+)"', shown.source)


async def test_the_latest_failures_come_first_however_many_there_are(
    api: ApiHarness, key: str, manager: Browser
) -> None:
    assert "no call failed" in (await manager.open(PAGE)).text
    old = await failed(api, key, 1)
    api.clock.advance(3 * HOUR_MS / 1000)
    assert listed(await manager.open(PAGE)) == old
    new = await failed(api, key, 12)
    shown = await manager.open(PAGE)
    assert listed(shown) == list(reversed(new))[:10]
    letters = await manager.open(f"{PAGE}/dead-letters")
    assert listed(letters)[0] == old[0], "the oldest first"
    recent = next(link for link in letters.links if link.startswith("?from="))
    assert listed(await manager.open(f"{PAGE}/dead-letters{recent}")) == new
