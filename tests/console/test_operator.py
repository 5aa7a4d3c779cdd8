"""What an operator does: nodes that are drained or die, clients and their keys, the next day, who changed what."""

import re

from playwright.sync_api import Browser, Locator, expect

from tests.console.conftest import Demo, Shop
from tests.support.chromium import Tab, tab

TAKEN_OVER_MS = 90_000.0
"""Within this, other nodes own what a node had; usually within 15 s."""

POLLERS = 3
"""The cell of a node's row that counts its pollers."""


def node(one: Tab, number: int) -> Locator:
    return one.page.get_by_role("row", name=re.compile(f"demo-{number}"))


def test_a_node_is_drained_and_comes_back(browser: Browser, demo: Demo) -> None:
    with tab(browser, demo.url) as one:
        one.log_in(demo.admin_key)
        expect(node(one, 2)).to_contain_text("live")
        node(one, 2).locator("summary", has_text="Drain").click()
        expect(node(one, 2)).to_contain_text(re.compile(r"hands its \d+ pollers to the other nodes, .* guaranteed"))
        one.page.get_by_role("button", name="Drain demo-2").click()
        expect(one.page.get_by_role("status")).to_contain_text("demo-2 hands its pollers over")
        expect(node(one, 2)).to_contain_text("draining", timeout=TAKEN_OVER_MS)
        expect(node(one, 2).get_by_role("cell").nth(POLLERS)).to_have_text("0", timeout=TAKEN_OVER_MS)
        node(one, 2).get_by_role("button", name="Undrain").click()
        expect(one.page.get_by_role("status")).to_contain_text("takes its share of pollers again")
        expect(node(one, 2)).to_contain_text("live", timeout=TAKEN_OVER_MS)


def test_one_node_is_killed_meanwhile(browser: Browser, shop: Shop) -> None:
    """The first screen says so by itself and what to do, pages and calls go on, and then all is well again."""
    with tab(browser, shop.url) as one, tab(browser, shop.url) as other:
        one.log_in(shop.demo.admin_key)
        other.log_in(shop.key)
        expect(node(one, 2)).to_contain_text("live")
        heading = one.page.get_by_role("heading", level=1)
        expect(heading).to_contain_text("Calls are made", timeout=TAKEN_OVER_MS)
        shop.demo.kill_node(2)
        expect(heading).to_have_text(re.compile("demo-2 does not (beat|answer)|have no owner"), timeout=TAKEN_OVER_MS)
        expect(one.page.locator("h1 + p")).to_contain_text(re.compile("take over|take them over|Look whether"))
        failed = shop.fail()
        other.open(f"/console/clients/shop/schedules/{failed}")
        other.act("Call again")
        expect(other.page.get_by_role("status")).to_contain_text("called again")
        shop.settled(failed, "failed")
        expect(node(one, 2)).to_contain_text("dead", timeout=TAKEN_OVER_MS)
        expect(heading).to_contain_text("Calls are made", timeout=TAKEN_OVER_MS)
        expect(one.page.locator("h1 + p")).to_contain_text("demo-2 died, and other nodes have taken over.")
        shop.demo.running.await_line(r"The node demo-2 ended; the rest goes on\.", seconds=10)
        shop.demo.start_node(2)
        expect(node(one, 2).filter(has_text="live")).to_be_visible(timeout=TAKEN_OVER_MS)


def test_a_client_is_registered_and_given_a_key_that_is_revoked(browser: Browser, demo: Demo) -> None:
    with tab(browser, demo.url) as one:
        page = one.page
        one.log_in(demo.admin_key)
        page.get_by_role("link", name="Clients", exact=True).click()
        page.get_by_label("Id").fill("library")
        page.get_by_role("button", name="Register").click()
        expect(page.locator("main")).to_contain_text("whsec_")
        page.get_by_role("link", name="keys", exact=True).click()
        page.locator("summary", has_text="New key").click()
        page.get_by_label("Name").fill("the shelf's")
        page.get_by_label("Scope").select_option("read")
        page.get_by_role("button", name="Make the key").click()
        key = page.locator("pre code").first.inner_text()
        assert demo.ask("GET", "/v1/clients/library/schedules", key=key).json()["items"] == []
        page.get_by_role("link", name="I have kept it").click()
        row = page.get_by_role("row", name=re.compile("the shelf's"))
        expect(row).to_contain_text("read")
        row.locator("summary", has_text="Revoke").click()
        expect(row).to_contain_text("Programs that use it are refused within seconds")
        row.get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("status")).to_contain_text("The key is revoked")
        expect(page.locator("main")).to_contain_text("Revoked keys (1)")
        one.open("/console/audit-log")
        expect(page.get_by_role("row", name=re.compile("revoke key")).first).to_contain_text("library")
        expect(page.get_by_role("row", name=re.compile("put client.*library")).first).to_contain_text("done")


def test_the_next_day_against_what_is_guaranteed(browser: Browser, shop: Shop) -> None:
    shop.waits()
    with tab(browser, shop.url) as one:
        one.log_in(shop.demo.admin_key)
        one.page.get_by_role("link", name="Forecast", exact=True).click()
        expect(one.page.locator("main")).to_contain_text(re.compile(r"\d+ calls in the next day"))
        expect(one.page.get_by_role("img", name=re.compile("Calls foreseen"))).to_be_visible()
        one.page.locator("summary", has_text="The numbers").click()
        expect(one.page.get_by_role("row", name=re.compile(r"\d\d:\d\d \d+ \d+")).first).to_be_visible()
