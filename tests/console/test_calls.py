"""One call: why it failed, calling it again, its destination, what is sent, another time, its end."""

import re

from playwright.sync_api import Browser, expect

from tests.console.conftest import REFRESHED_MS, Shop
from tests.support.chromium import PHONE, tab


def test_a_failed_call_is_found_and_called_again_and_its_destination_paused_without_scripts(
    browser: Browser, shop: Shop
) -> None:
    failed = shop.fail()
    with tab(browser, shop.url, PHONE, scripts=False) as one:
        one.log_in(shop.key)
        page = one.page
        page.get_by_label("Find a schedule").fill(failed)
        page.get_by_role("button", name="Find").click()
        main = page.locator("main")
        expect(page.get_by_role("heading", level=1)).to_contain_text("failed")
        expect(main).to_contain_text("500")
        one.act("Call again")
        expect(page.get_by_role("status")).to_contain_text("called again")
        shop.settled(failed, "failed")
        page.get_by_role("link", name="destination orders").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("orders")
        one.act("Pause")
        expect(page.get_by_role("status")).to_be_visible()
        assert shop.ask("GET", "/destinations/orders").json()["paused_at"] is not None
        one.act("Resume")
        expect(page.locator("summary", has_text="Pause")).to_be_visible()
        assert shop.ask("GET", "/destinations/orders").json()["paused_at"] is None


def test_what_is_sent_is_shown_when_it_is_asked_for(browser: Browser, shop: Shop) -> None:
    with tab(browser, shop.url) as one:
        one.log_in(shop.reading)
        one.open(f"/console/clients/shop/schedules/{shop.delivered}")
        main = one.page.locator("main")
        expect(main).to_contain_text("X-Account")
        expect(main).not_to_contain_text("number-4711")
        one.page.get_by_role("button", name=re.compile("Show")).click()
        expect(main).to_contain_text("number-4711")
        expect(main).to_contain_text("a secret text")
        expect(one.page.locator("summary", has_text="Call again")).to_have_count(0)


def test_a_schedule_is_followed_to_its_end_and_no_further(browser: Browser, shop: Shop) -> None:
    waiting = shop.waits()
    with tab(browser, shop.url) as one:
        one.log_in(shop.reading)
        page = one.page
        page.clock.install()
        one.open(f"/console/clients/shop/schedules/{waiting}")
        heading = page.get_by_role("heading", level=1)
        expect(heading).to_contain_text("scheduled")
        shop.ask("DELETE", f"/schedules/{waiting}").raise_for_status()
        with page.expect_response(page.url):
            page.clock.fast_forward(REFRESHED_MS)
        expect(heading).to_contain_text("cancelled")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.clock.fast_forward(10 * REFRESHED_MS)
        page.evaluate("fetch('/livez')")
        assert [url for url in asked if url == page.url] == []


def test_a_schedule_is_found_by_its_own_key_and_rescheduled_and_cancelled(browser: Browser, shop: Shop) -> None:
    shop.waits("order-4711")
    with tab(browser, shop.url) as one:
        one.log_in(shop.key)
        one.page.get_by_label("Find a schedule").fill("order-4711")
        one.page.get_by_label("Find a schedule").press("Enter")
        expect(one.page.get_by_role("heading", level=1)).to_contain_text("order-4711")
        one.act("Reschedule")
        expect(one.page.get_by_role("status")).to_contain_text("new time")
        one.act("Cancel")
        expect(one.page.get_by_role("heading", level=1)).to_contain_text("cancelled")
