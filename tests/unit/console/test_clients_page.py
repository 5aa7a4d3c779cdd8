"""The list of all clients: pages of a hundred, a search, and what each uses of what it is guaranteed."""

import re
from typing import Any

import pytest

from scheduler_service.console.client_pages import used_by
from scheduler_service.domain.call_figures import CallFigures, ClientCalls
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.support.nodes import Nodes
from tests.unit.console.conftest import browser_of

CLIENTS = [{"client_id": name, "guaranteed_calls_per_minute": quota} for name, quota in (("a", 1000), ("b", 5000))]
CALLS: list[dict[str, Any]] = [
    {"client_id": "b", "calls": 1000, "mean_late_seconds": 0.1, "failed_attempts": 9},
    {"client_id": "a", "calls": 900, "mean_late_seconds": 0.2, "failed_attempts": 0},
    {"client_id": "gone", "calls": 7, "mean_late_seconds": 0.0, "failed_attempts": 0},
]
NAMES = [f"client-{number:03d}" for number in range(103)]
BACKLOG: list[dict[str, Any]] = [{"client_id": "b", "overdue": {"rows": 3}}]


@pytest.mark.parametrize(
    ("by", "order"),
    [
        ("", "ab"),
        ("calls", "ba"),
        ("part", "ab"),
        ("mean_late_seconds", "ab"),
        ("failed_attempts", "ba"),
        ("overdue", "ba"),
    ],
)
def test_clients_are_listed_by_what_is_asked_for(by: str, order: str) -> None:
    rows = used_by(CLIENTS, CALLS, BACKLOG, by=by)
    assert "".join(row.client["client_id"] for row in rows) == order
    assert {row.client["client_id"]: (row.part, row.overdue) for row in rows} == {"a": (0.9, 0), "b": (0.2, 3)}


def test_a_client_that_nodes_do_not_count_by_name_has_no_figures() -> None:
    [row] = used_by(CLIENTS[:1], [], [], by="calls")
    assert (row.calls, row.part) == (None, 0.0)


async def test_the_page_has_rate_lateness_failures_and_use(api: ApiHarness, key: str) -> None:
    await api.register("other")
    nodes = Nodes(api)
    await nodes.beat(await nodes.add("node-a"), seconds=2)
    api.nodes.calls["node-a"] = CallFigures(clients={"shop": ClientCalls(250, 25.0, 17)})
    async with browser_of(api) as browser:
        await browser.log_in(ADMIN_KEY)
        shown = await browser.open("/console/clients?by=failed_attempts")
    assert shown.status == 200
    shop, other = shown.text.index("shop active 250"), shown.text.index("other active –")
    assert shop < other
    for text in ("8%", "100 ms", "17"):
        assert text in shown.text[shop:other], text


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


@pytest.mark.parametrize("quota", ["²", "9" * 5000, "", "x", "1.5"])
async def test_a_quota_that_is_none_is_refused(api: ApiHarness, quota: str) -> None:
    async with browser_of(api) as browser:
        await browser.log_in(ADMIN_KEY)
        form = (await browser.open("/console/clients")).form(client_id="")
        shown = await browser.post("/console/clients", {**form.fields, "client_id": "new", "poller_quota": quota})
        assert shown.status in (400, 422), shown.text
